#include "checkpoint/gguf/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/gguf/keys.h"
#include "checkpoint/gguf/piece_merges.h"
#include "checkpoint/gguf/pre_tokenizers.h"

namespace plimsoll::checkpoint::gguf {
namespace {

constexpr const char* kSpace = "\xe2\x96\x81";  // U+2581, sentencepiece's space

/// tokenizer.ggml.token_type.
enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5 };

/// Names of control tokens that end an answer, as llama.cpp knows them (llama-vocab.cpp).
constexpr std::array kEndNames = {"<|eot_id|>",
                                  "<|im_end|>",
                                  "<|end|>",
                                  "<|return|>",
                                  "<|call|>",
                                  "<|calls|>",
                                  "<end_of_turn>",
                                  "<|endoftext|>",
                                  "<|end_of_text|>",
                                  "<EOT>",
                                  "_<EOT>",
                                  "<|eom_id|>",
                                  "<|end_of_role|>",
                                  "<|eot|>",

                                  "<\xef\xbd\x9c"
                                  "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"};

/// The tokenizer's keys.
class Metadata {
 public:
  explicit Metadata(const Model& model)
      : keys_(model, "tokenizer.ggml.", " (--tokenizer DIR names another tokenizer)") {}

  [[nodiscard]] const Value* find(const char* key) const { return keys_.find(key); }
  [[nodiscard]] std::string text(const char* key, const char* missing) const {
    return keys_.text(key, missing);
  }
  [[nodiscard]] std::vector<std::string> texts(const char* key) const {
    const Value* const value = find(key);
    if (value == nullptr) refuse(key, " is missing in the metadata");
    std::optional<std::vector<std::string>> texts = value->texts();
    if (!texts) refuse(key, fmt::format(": strings are needed, {} found", value->type_text()));
    return *std::move(texts);
  }
  /// One number for each of `count` tokens; `missing` where there is no such list.
  [[nodiscard]] std::vector<double> numbers(const char* key, size_t count, double missing) const {
    const Value* const value = find(key);
    if (value == nullptr) return std::vector<double>(count, missing);
    std::optional<std::vector<double>> numbers = value->numbers();
    if (!numbers || numbers->size() != count)
      refuse(key, fmt::format(": {} numbers are needed, {} found", count,
                              numbers ? fmt::format("{}", numbers->size()) : value->type_text()));
    return *std::move(numbers);
  }
  /// TokenType of each of `count` tokens.
  [[nodiscard]] std::vector<int64_t> token_types(size_t count) const {
    const std::vector<double> stored = numbers("token_type", count, kNormal);
    return {stored.begin(), stored.end()};
  }
  [[nodiscard]] bool flag(const char* key, bool missing) const {
    const std::optional<int64_t> stated = id(key);
    return stated ? *stated != 0 : missing;
  }
  /// A whole number; nullopt where there is none.
  [[nodiscard]] std::optional<int64_t> id(const char* key) const {
    const Value* const value = find(key);
    return value == nullptr ? std::nullopt : value->integer();
  }
  [[noreturn]] void refuse(const char* key, const std::string& what) const {
    keys_.refuse(key, what);
  }

 private:
  Keys keys_;
};

/// Makes a tokenizer.json of one kind.
class Writer {
 public:
  explicit Writer(const Model& model)
      : metadata_(model),
        tokens_(metadata_.texts("tokens")),
        types_(metadata_.token_types(tokens_.size())) {}

  std::string write() {
    const std::string kind = metadata_.text("model", "none");
    add_tokens();
    bool adds_bos = false, adds_eos = false;
    if (kind == "gpt2") {
      adds_bos = write_bytes();
    } else if (kind == "llama") {
      write_pieces();
      adds_bos = true;
    } else if (kind == "t5") {
      write_unigram();
      adds_eos = true;
    } else {
      metadata_.refuse(
          "model", fmt::format(" \"{}\" is not read; gpt2, llama and t5 are", shown_name(kind)));
    }
    add_ends(metadata_.flag("add_bos_token", adds_bos), metadata_.flag("add_eos_token", adds_eos));
    return root_.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

 private:
  [[nodiscard]] bool is_added(size_t id) const {
    return types_[id] == kControl || types_[id] == kUserDefined || types_[id] == kUnknown;
  }

  /// Tokens that are cut out of texts.
  void add_tokens() {
    Json added = Json::array();
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (!is_added(id) || tokens_[id].empty()) continue;
      added.push_back({{"id", id},
                       {"content", tokens_[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", types_[id] != kUserDefined}});
    }
    root_["added_tokens"] = added;
  }

  /// Ids by token; the first of equal tokens counts.
  [[nodiscard]] Json vocabulary() const {
    Json ids = Json::object();
    for (size_t id = 0; id < tokens_.size(); ++id) ids.emplace(tokens_[id], id);
    return ids;
  }

  /// Byte-level BPE. Returns whether texts begin with BOS where the metadata do not say.
  bool write_bytes() {
    const std::string pre = metadata_.text("pre", "default");
    const PreTokenizer* const row = find_pre_tokenizer(pre);
    if (row == nullptr)
      metadata_.refuse("pre", fmt::format(" \"{}\" is not known", shown_name(pre)));
    root_["model"] = {{"type", "BPE"},
                      {"vocab", vocabulary()},
                      {"merges", metadata_.texts("merges")},
                      {"ignore_merges", row->whole_pieces}};
    if (row->nfc) root_["normalizer"] = {{"type", "NFC"}};
    Json splits = Json::array();
    for (const std::string_view pattern : row->patterns) {
      if (pattern.empty()) continue;
      splits.push_back({{"type", "Split"},
                        {"pattern", {{"Regex", pattern}}},
                        {"behavior", "Isolated"},
                        {"invert", false}});
    }
    const Json bytes = {{"type", "ByteLevel"},
                        {"add_prefix_space", false},
                        {"trim_offsets", true},
                        {"use_regex", false}};
    splits.push_back(bytes);
    root_["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", splits}};
    root_["decoder"] = bytes;
    return row->adds_bos;
  }

  /// SentencePiece's BPE, whose merges follow from the scores.
  void write_pieces() {
    const std::vector<double> scores = metadata_.numbers("scores", tokens_.size(), 0);
    std::vector<bool> joined(tokens_.size());
    for (size_t id = 0; id < tokens_.size(); ++id) joined[id] = types_[id] == kNormal;
    const std::optional<int64_t> unknown = metadata_.id("unknown_token_id");
    root_["model"] = {{"type", "BPE"},
                      {"vocab", vocabulary()},
                      {"merges", piece_merges(tokens_, scores, joined)},
                      {"fuse_unk", true},
                      {"byte_fallback", true}};
    if (unknown && *unknown >= 0 && *unknown < static_cast<int64_t>(tokens_.size()))
      root_["model"]["unk_token"] = tokens_[static_cast<size_t>(*unknown)];
    const bool prefixed = metadata_.flag("add_space_prefix", true);
    Json steps = Json::array();
    if (prefixed) steps.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}});
    root_["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
    Json decoders = Json::array();
    decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}});
    decoders.push_back({{"type", "ByteFallback"}});
    decoders.push_back({{"type", "Fuse"}});
    if (prefixed)
      decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    root_["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  }

  void write_unigram() {
    const std::vector<double> scores = metadata_.numbers("scores", tokens_.size(), 0);
    Json pieces = Json::array();
    for (size_t id = 0; id < tokens_.size(); ++id)
      pieces.push_back(Json::array({tokens_[id], scores[id]}));
    root_["model"] = {{"type", "Unigram"}, {"vocab", pieces}, {"byte_fallback", false}};
    if (const auto unknown = metadata_.id("unknown_token_id"); unknown && *unknown >= 0)
      root_["model"]["unk_id"] = *unknown;
    const Value* const charsmap = metadata_.find("precompiled_charsmap");
    const auto bytes = charsmap == nullptr ? std::nullopt : charsmap->integers();
    if (bytes && !bytes->empty())
      root_["normalizer"] = {
          {"type", "Precompiled"},
          {"precompiled_charsmap", encode_base64(std::string(bytes->begin(), bytes->end()))}};
    Json splits = Json::array();
    if (metadata_.flag("remove_extra_whitespaces", true))
      splits.push_back({{"type", "WhitespaceSplit"}});
    const Json metaspace = {
        {"type", "Metaspace"},
        {"replacement", kSpace},
        {"prepend_scheme", metadata_.flag("add_space_prefix", true) ? "always" : "never"},
        {"split", true}};
    splits.push_back(metaspace);
    root_["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", splits}};
    root_["decoder"] = metaspace;
  }

  /// BOS and EOS around every text.
  void add_ends(bool bos, bool eos) {
    Json single = Json::array(), specials = Json::object();
    const auto add = [&](const char* key) {
      const std::optional<int64_t> id = metadata_.id(key);
      if (!id || *id < 0 || *id >= static_cast<int64_t>(tokens_.size())) return;
      const std::string& token = tokens_[static_cast<size_t>(*id)];
      single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
      specials[token] = {{"id", token}, {"ids", {*id}}, {"tokens", {token}}};
    };
    if (bos) add("bos_token_id");
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    if (eos) add("eos_token_id");
    if (specials.empty()) return;
    root_["post_processor"] = {{"type", "TemplateProcessing"},
                               {"single", single},
                               {"pair", single},
                               {"special_tokens", specials}};
  }

  Metadata metadata_;
  std::vector<std::string> tokens_;
  std::vector<int64_t> types_;
  Json root_ = {{"version", "1.0"}};
};

}  // namespace

std::string tokenizer_json(const Model& model) {
  return Writer(model).write();
}

std::map<std::string, std::string> chat_templates(const Model& model) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  std::map<std::string, std::string> templates;
  for (const Pair& pair : model.pairs()) {
    if (!pair.key.starts_with(kKey)) continue;
    const std::string rest = pair.key.substr(kKey.size());
    if (!rest.empty() && (rest.front() != '.' || rest.size() < 2)) continue;
    if (auto text = pair.value.text())
      templates.emplace(rest.empty() ? "default" : rest.substr(1), *std::move(text));
  }
  return templates;
}

std::map<std::string, std::string> special_tokens(const Model& model) {
  const Metadata metadata(model);
  std::map<std::string, std::string> texts;
  if (metadata.find("tokens") == nullptr) return texts;
  const std::vector<std::string> tokens = metadata.texts("tokens");
  for (const auto& [name, key] :
       {std::pair{"bos_token", "bos_token_id"}, std::pair{"eos_token", "eos_token_id"},
        std::pair{"unk_token", "unknown_token_id"}, std::pair{"pad_token", "padding_token_id"}}) {
    const std::optional<int64_t> id = metadata.id(key);
    if (id && *id >= 0 && *id < static_cast<int64_t>(tokens.size()))
      texts.emplace(name, tokens[static_cast<size_t>(*id)]);
  }
  return texts;
}

std::vector<int64_t> end_tokens(const Model& model) {
  const Metadata metadata(model);
  std::set<int64_t> ids;
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"})
    if (const auto id = metadata.id(key); id && *id >= 0) ids.insert(*id);
  const Value* const tokens = metadata.find("tokens");
  if (tokens == nullptr || ids.empty()) return {ids.begin(), ids.end()};
  const std::vector<std::string> names = metadata.texts("tokens");
  const std::vector<int64_t> types = metadata.token_types(names.size());
  for (size_t id = 0; id < names.size(); ++id) {
    const bool special = types[id] == kControl || types[id] == kUserDefined;
    if (special && std::ranges::find(kEndNames, names[id]) != kEndNames.end())
      ids.insert(static_cast<int64_t>(id));
  }
  return {ids.begin(), ids.end()};
}

}  // namespace plimsoll::checkpoint::gguf
