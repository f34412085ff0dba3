// Llama 3's own tokenizer.model: a line a token, its bytes in base64 and its rank, which is its id.
#include <charconv>
#include <unordered_map>

#include "base/error.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/config.h"
#include "text/tokenizer/files.h"
#include "text/tokenizer/json_fields.h"

namespace plimsoll::text {
namespace {

constexpr std::string_view kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr TokenId kLlama3Ranks = 128'000;

struct RankedToken {
  std::string bytes;
  TokenId rank;
};

std::vector<RankedToken> parse_ranks(std::string_view text) {
  std::vector<RankedToken> tokens;
  for (size_t line = 1; !text.empty(); ++line) {
    std::string_view entry = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    if (entry.ends_with('\r')) entry.remove_suffix(1);
    if (entry.empty()) continue;
    const size_t space = entry.find(' ');
    TokenId rank = -1;
    if (space != std::string_view::npos) {
      const auto [end, error] =
          std::from_chars(entry.data() + space + 1, entry.data() + entry.size(), rank);
      if (error != std::errc() || end != entry.data() + entry.size()) rank = -1;
    }
    if (rank < 0 || rank >= kMaxTokens)
      throw ModelError(fmt::format("line {}: not a token and its rank", line));
    RankedToken token{base64_bytes(entry.substr(0, space)), rank};
    if (token.bytes.empty() || token.bytes.size() > kMaxTrieKey) {
      throw ModelError(fmt::format("line {}: a token of {} bytes", line, token.bytes.size()));
    }
    tokens.push_back(std::move(token));
  }
  std::ranges::sort(tokens, {}, &RankedToken::rank);
  return tokens;
}

std::string spelled(std::string_view bytes) {
  std::string out;
  byte_level::append(out, bytes);
  return out;
}

// tiktoken merges any two neighbours whose bytes together are a token, the one of lowest rank
// first: as merges these are all ways to cut each token in two, in the order of the ranks.
MergeList merges_of(const std::vector<RankedToken>& tokens) {
  std::unordered_map<std::string_view, TokenId> ranks;
  for (const RankedToken& token : tokens) ranks.emplace(token.bytes, token.rank);
  MergeList merges;
  for (const RankedToken& token : tokens) {
    const std::string_view bytes = token.bytes;
    std::vector<std::pair<std::pair<TokenId, TokenId>, size_t>> cuts;
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const auto left = ranks.find(bytes.substr(0, cut));
      const auto right = ranks.find(bytes.substr(cut));
      if (left != ranks.end() && right != ranks.end())
        cuts.push_back({{left->second, right->second}, cut});
    }
    std::ranges::sort(cuts);
    for (const auto& [pair, cut] : cuts)
      merges.add(spelled(bytes.substr(0, cut)), spelled(bytes.substr(cut)));
  }
  return merges;
}

// The special tokens that Meta's code puts behind the ranks (llama3/tokenizer.py), for folders that
// list none.
void add_llama3_tokens(Pipeline& tokenizer) {
  std::vector<std::string> names = {"<|begin_of_text|>",
                                    "<|end_of_text|>",
                                    "<|reserved_special_token_0|>",
                                    "<|reserved_special_token_1|>",
                                    "<|reserved_special_token_2|>",
                                    "<|reserved_special_token_3|>",
                                    "<|start_header_id|>",
                                    "<|end_header_id|>",
                                    "<|reserved_special_token_4|>",
                                    "<|eot_id|>"};
  for (int i = 5; i < 251; ++i) names.push_back(fmt::format("<|reserved_special_token_{}|>", i));
  std::vector<AddedToken> tokens;
  for (std::string& name : names) {
    AddedToken token;
    token.content = std::move(name);
    token.special = true;
    token.normalized = false;
    tokens.push_back(std::move(token));
  }
  tokenizer.added.add(std::move(tokens), *tokenizer.model, nullptr);
  TemplateStep step;
  step.single = {{TemplatePiece::Kind::tokens, {kLlama3Ranks}},
                 {TemplatePiece::Kind::sequence_a, {}}};
  tokenizer.post_processor.add(std::move(step));
}

}  // namespace

void load_tiktoken(const std::filesystem::path& file, const std::string& text,
                   const TokenizerConfig* config, Pipeline& tokenizer) {
  with_file_name(file, [&] {
    const std::vector<RankedToken> tokens = parse_ranks(text);
    Vocabulary vocabulary;
    for (const auto& [bytes, rank] : tokens) vocabulary.add(spelled(bytes), rank);
    BpeOptions options;
    options.ignore_merges = true;
    tokenizer.model = make_bpe(std::move(vocabulary), merges_of(tokens), options);
    std::vector<std::unique_ptr<PreTokenizer>> parts;
    parts.push_back(
        make_split(Pattern::regex(kLlama3Words), SplitBehavior::isolated, SplitOn::matches));
    parts.push_back(make_byte_level({false, false}));
    tokenizer.pre_tokenizer = make_pre_tokenizer_sequence(std::move(parts));
    tokenizer.decoder.add(ByteLevelDecode{});
    if (config && !config->added.empty()) {
      add_config_tokens(*config, AddedIds::as_listed, tokenizer);
      set_bos_eos(*config, config->add_bos_token.value_or(true),
                  config->add_eos_token.value_or(false), tokenizer);
    } else if (config && tokenizer.model->vocabulary().end_id() == kLlama3Ranks) {
      add_llama3_tokens(tokenizer);
    }
  });
}

}  // namespace plimsoll::text
