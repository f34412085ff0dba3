#include "text/tokenizer/files.h"

#include <fstream>

#include "base/error.h"
#include "text/tokenizer/config.h"

namespace plimsoll::text {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kClipWords =
    R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";

// The pipelines that transformers builds around vocab.json and merges.txt.
enum class BpeFamily { gpt2, qwen2, roberta, clip };

BpeFamily family_of(const std::string& tokenizer_class, const fs::path& folder) {
  for (const char* name :
       {"", "GPT2Tokenizer", "CodeGenTokenizer", "WhisperTokenizer", "GPTNeoXTokenizer"}) {
    if (tokenizer_class == name) return BpeFamily::gpt2;
  }
  if (tokenizer_class == "Qwen2Tokenizer") return BpeFamily::qwen2;
  for (const char* name :
       {"RobertaTokenizer", "BartTokenizer", "LongformerTokenizer", "LEDTokenizer"}) {
    if (tokenizer_class == name) return BpeFamily::roberta;
  }
  if (tokenizer_class == "CLIPTokenizer") return BpeFamily::clip;
  fail(ExitCode::checkpoint_unusable,
       "{}: a {} cannot be built from vocab.json and merges.txt; save the tokenizer as "
       "tokenizer.json "
       "(AutoTokenizer.from_pretrained(...).save_pretrained(...))",
       folder.string(), tokenizer_class);
}

std::unique_ptr<PreTokenizer> split_then_bytes(std::string_view words, SplitBehavior behavior,
                                               SplitOn on, ByteLevelOptions bytes) {
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  parts.push_back(make_split(Pattern::regex(words), behavior, on));
  parts.push_back(make_byte_level(bytes));
  return make_pre_tokenizer_sequence(std::move(parts));
}

std::unique_ptr<Normalizer> clip_normalizer() {
  std::vector<std::unique_ptr<Normalizer>> parts;
  parts.push_back(make_unicode_normalizer(UnicodeForm::nfc));
  parts.push_back(make_replace(Pattern::regex(R"(\s+)"), " "));
  parts.push_back(make_lowercase());
  return make_normalizer_sequence(std::move(parts));
}

void set_cls_sep(const TokenizerConfig& config, const char* cls, const char* sep,
                 Pipeline& tokenizer) {
  const auto id_of = [&](const char* name) {
    const AddedToken* token = config.find_named(name);
    return token ? tokenizer.added.find(token->content) : std::nullopt;
  };
  const auto cls_id = id_of(cls);
  const auto sep_id = id_of(sep);
  if (cls_id && sep_id) tokenizer.post_processor.add(ClsSepStep{*cls_id, *sep_id, true});
}

void load_vocabulary_and_merges(const fs::path& folder, const TokenizerConfig& config,
                                Pipeline& tokenizer) {
  const BpeFamily family = family_of(config.tokenizer_class, folder);
  const bool prefix_space = config.add_prefix_space.value_or(false);
  BpeOptions options;
  if (family == BpeFamily::clip) {
    options.end_of_word_suffix = "</w>";
    options.unk_token =
        config.find_named("unk_token") ? config.find_named("unk_token")->content : "<|endoftext|>";
    tokenizer.normalizer = clip_normalizer();
    tokenizer.pre_tokenizer =
        split_then_bytes(kClipWords, SplitBehavior::removed, SplitOn::gaps, {false, true});
  } else if (family == BpeFamily::qwen2) {
    tokenizer.normalizer = make_unicode_normalizer(UnicodeForm::nfc);
    tokenizer.pre_tokenizer = split_then_bytes(kQwen2Words, SplitBehavior::isolated,
                                               SplitOn::matches, {prefix_space, false});
  } else {
    tokenizer.pre_tokenizer = make_byte_level({prefix_space, true});
  }
  Vocabulary vocabulary = read_vocabulary(folder / "vocab.json");
  const MergeList merges = read_merges(folder / "merges.txt");
  with_file_name(folder / "merges.txt",
                 [&] { tokenizer.model = make_bpe(std::move(vocabulary), merges, options); });
  tokenizer.decoder.add(ByteLevelDecode{});
  add_config_tokens(config, AddedIds::as_listed, tokenizer);
  if (family == BpeFamily::roberta) set_cls_sep(config, "cls_token", "sep_token", tokenizer);
  if (family == BpeFamily::clip) set_cls_sep(config, "bos_token", "eos_token", tokenizer);
  if (config.add_bos_token || config.add_eos_token) {
    set_bos_eos(config, config.add_bos_token.value_or(false), config.add_eos_token.value_or(false),
                tokenizer);
  }
}

[[noreturn]] void refuse_folder(const fs::path& folder) {
  for (const auto& [file, what] : {std::pair{"qwen.tiktoken", "the first Qwen's vocabulary"},
                                   std::pair{"tekken.json", "Mistral's own vocabulary"},
                                   std::pair{"vocab.txt", "a BERT vocabulary"},
                                   std::pair{"spiece.model", "a T5 vocabulary"}}) {
    if (!fs::exists(folder / file)) continue;
    fail(ExitCode::checkpoint_unusable,
         "{}: {} ({}) cannot be read without tokenizer.json; save the tokenizer with transformers' "
         "save_pretrained",
         folder.string(), file, what);
  }
  fail(ExitCode::checkpoint_unusable,
       "{}: no tokenizer.json, no vocab.json with merges.txt, no tokenizer.model; with "
       "--skip-tokenizer-init token ids go "
       "in and out",
       folder.string());
}

void load_folder(const fs::path& folder, Pipeline& tokenizer) {
  const TokenizerConfig config = read_tokenizer_config(folder);
  if (fs::exists(folder / "tokenizer.json")) {
    load_tokenizer_json(folder / "tokenizer.json", tokenizer);
    // The post-processor of tokenizer.json stands, whatever add_bos_token says (transformers 5).
    add_config_tokens(config, AddedIds::assigned, tokenizer);
  } else if (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt")) {
    load_vocabulary_and_merges(folder, config, tokenizer);
  } else if (fs::exists(folder / "tokenizer.model")) {
    load_tokenizer_model(folder / "tokenizer.model", &config, tokenizer);
  } else {
    refuse_folder(folder);
  }
}

}  // namespace

void load_tokenizer(const fs::path& path, Pipeline& tokenizer) {
  if (fs::is_directory(path)) {
    // Errors of tokens from several files together name the folder.
    with_file_name(path, [&] { load_folder(path, tokenizer); });
  } else if (path.extension() == ".model") {
    with_file_name(path, [&] { load_tokenizer_model(path, nullptr, tokenizer); });
  } else {
    load_tokenizer_json(path, tokenizer);
  }
}

}  // namespace plimsoll::text
