#include "checkpoint/gguf/pre_tokenizers.h"

#include <algorithm>

namespace plimsoll::checkpoint::gguf {
namespace {

// As the models' own tokenizer.json have them; llama.cpp rewrites some, which is where it differs.
constexpr std::string_view kGpt2 =
    R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|)re"
    R"re(\s+(?!\S)|\s+)re";
constexpr std::string_view kLlama =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)re"
    R"re( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kQwen2 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)re"
    R"re( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kQwen35 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)re"
    R"re( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kGpt4o =
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)re"
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)re"
    R"re(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kTekken =
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)re"
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)re"
    R"re(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kDigits = R"re(\p{N})re";
constexpr std::string_view kThreeDigits = R"re(\p{N}{1,3})re";
constexpr std::string_view kCjk = R"re([一-龥぀-ゟ゠-ヿ]+)re";
constexpr std::string_view kDeepSeek =
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)re"
    R"re([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)re"
    R"re(\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kLing = R"re('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)re"
                                   R"re( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)re";
constexpr std::string_view kExaoneMixture =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|)re"
    R"re( ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)re";
constexpr std::string_view kSeed =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}|)re"
    R"re( ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kMiniCpm5 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|)re"
    R"re( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kJais2 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)re"
    R"re( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|)re"
    R"re(\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|)re"
    R"re(\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})re";
constexpr std::string_view kLineEnd = R"re([\r\n])re";
constexpr std::string_view kLetters = R"re(\s?\p{L}+)re";
constexpr std::string_view kPunctuation = R"re(\s?\p{P}+)re";
constexpr std::string_view kCjkAndKorean = R"re([一-龥ࠀ-一가-퟿]+)re";

constexpr std::array kPreTokenizers = {
    PreTokenizer{"gpt-2", {kGpt2}, false, false, false},
    PreTokenizer{"phi-2", {kGpt2}, false, false, false},
    PreTokenizer{"mpt", {kGpt2}, false, false, false},
    PreTokenizer{"olmo", {kGpt2}, true, false, false},
    PreTokenizer{"jais", {kGpt2}, false, false, false},
    PreTokenizer{"exaone4", {kGpt2}, false, false, false},
    PreTokenizer{"gigachat", {kGpt2}, false, false, false},
    PreTokenizer{"granite-docling", {kGpt2}, false, false, false},
    PreTokenizer{"modern-bert", {kGpt2}, false, false, false},
    PreTokenizer{"roberta-bpe", {kGpt2}, false, false, false},
    PreTokenizer{"llama-bpe", {kLlama}, false, true, true},
    PreTokenizer{"falcon3", {kLlama}, false, false, false},
    PreTokenizer{"pixtral", {kLlama}, false, false, false},
    PreTokenizer{"lfm2", {kLlama}, false, false, false},
    PreTokenizer{"dbrx", {kLlama}, false, false, false},
    PreTokenizer{"smaug-bpe", {kLlama}, false, false, false},
    PreTokenizer{"chatglm-bpe", {kLlama}, false, false, false},
    PreTokenizer{"glm4", {kLlama}, false, true, false},
    PreTokenizer{"qwen2", {kQwen2}, true, false, false},
    PreTokenizer{"deepseek-r1-qwen", {kQwen2}, false, false, false},
    PreTokenizer{"stablelm2", {kQwen2}, false, false, false},
    PreTokenizer{"hunyuan", {kQwen2}, false, false, false},
    PreTokenizer{"megrez", {kQwen2}, false, false, false},
    PreTokenizer{"grok-2", {kQwen2}, false, false, false},
    PreTokenizer{"qwen35", {kQwen35}, true, false, false},
    PreTokenizer{"gpt-4o", {kGpt4o}, false, false, false},
    PreTokenizer{"llama4", {kGpt4o}, false, false, false},
    PreTokenizer{"minimax-m2", {kGpt4o}, false, false, false},
    PreTokenizer{"tekken", {kTekken}, false, true, true},
    PreTokenizer{"refact", {kDigits, kGpt2}, false, false, false},
    PreTokenizer{"starcoder", {kDigits, kGpt2}, false, false, false},
    PreTokenizer{"command-r", {kDigits, kGpt2}, false, false, false},
    PreTokenizer{"smollm", {kDigits, kGpt2}, false, false, false},
    PreTokenizer{"codeshell", {kDigits, kGpt2}, false, false, false},
    PreTokenizer{"exaone", {kDigits, kGpt2}, false, false, false},
    PreTokenizer{"minerva-7b", {kDigits, kGpt2}, false, false, false},
    PreTokenizer{"deepseek-v3", {kThreeDigits, kCjk, kDeepSeek}, false, false, false},
    PreTokenizer{"hunyuan-dense", {kThreeDigits, kCjk, kDeepSeek}, false, false, false},
    PreTokenizer{"trillion", {kGpt2}, false, false, false},
    PreTokenizer{"a.x-4.0", {kGpt2}, false, false, false},
    PreTokenizer{"mellum", {kGpt2}, false, false, false},
    PreTokenizer{"falcon-h1", {kLlama}, false, false, false},
    PreTokenizer{"midm-2.0", {kLlama}, false, false, false},
    PreTokenizer{"glm5", {kLlama}, false, true, false},
    PreTokenizer{"kormo", {kQwen2}, false, false, false},
    PreTokenizer{"solar-open", {kQwen2}, false, false, false},
    PreTokenizer{"kanana2", {kGpt4o}, false, false, false},
    PreTokenizer{"talkie", {kGpt4o}, false, false, false},
    PreTokenizer{"mellum2", {kDigits, kGpt2}, false, false, false},
    PreTokenizer{"joyai-llm", {kThreeDigits, kCjk, kDeepSeek}, false, false, false},
    PreTokenizer{"bailingmoe", {kLing}, false, false, false},
    PreTokenizer{"bailingmoe2", {kLing}, false, false, false},
    PreTokenizer{"llada-moe", {kLing}, false, false, false},
    PreTokenizer{"exaone-moe", {kExaoneMixture}, false, false, false},
    PreTokenizer{"seed-coder", {kSeed}, false, false, false},
    PreTokenizer{"minicpm5", {kThreeDigits, kMiniCpm5}, false, true, false},
    PreTokenizer{"jais-2", {kJais2}, false, false, false},
    PreTokenizer{"deepseek-coder",
                 {kLineEnd, kLetters, kPunctuation, kCjkAndKorean, kDigits},
                 false,
                 false,
                 false},
};

}  // namespace

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  const auto at = std::ranges::find(kPreTokenizers, name, &PreTokenizer::name);
  return at == kPreTokenizers.end() ? nullptr : &*at;
}

}  // namespace plimsoll::checkpoint::gguf
