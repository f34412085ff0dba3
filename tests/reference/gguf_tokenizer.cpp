#include "reference/gguf_tokenizer.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <vector>

#include "base/base64.h"

namespace plimsoll::testing {
namespace {

/// The first object of this "type" in a normaliser or pre-tokenizer; null: none.
const Json* find_step(const Json& part, const std::string& type) {
  if (part.is_array()) {
    for (const Json& each : part)
      if (const Json* found = find_step(each, type)) return found;
  }
  if (!part.is_object()) return nullptr;
  if (part.value("type", "") == type) return &part;
  for (const char* steps : {"normalizers", "pretokenizers"}) {
    if (!part.contains(steps)) continue;
    if (const Json* found = find_step(part.at(steps), type)) return found;
  }
  return nullptr;
}

struct Piece {
  std::string text;
  double score = 0;
  int type = 1;
};

bool is_byte(const std::string& text) {
  return text.size() == 6 && text.starts_with("<0x") && text.back() == '>';
}

std::string merge_text(const Json& merge) {
  if (merge.is_string()) return merge;
  return merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>();
}

/// The number of the first merge that makes each piece.
std::map<std::string, double> ranks_of(const Json& merges) {
  std::map<std::string, double> ranks;
  for (size_t i = 0; i < merges.size(); ++i) {
    std::string text = merge_text(merges[i]);
    text.erase(text.find(' '), 1);
    ranks.emplace(text, static_cast<double>(i));
  }
  return ranks;
}

class PairsOfTokenizer {
 public:
  PairsOfTokenizer(const Json& file, std::string kind) : file_(file), kind_(std::move(kind)) {}

  Json make(const std::string& pre) {
    read_vocabulary();
    read_added();
    add("model", "string", kind_);
    add("pre", "string", pre);
    Json texts = Json::array(), scores = Json::array(), types = Json::array();
    for (const auto& [id, piece] : pieces_) {
      texts.push_back(piece.text);
      scores.push_back(piece.score);
      types.push_back(piece.type);
    }
    add("tokens", "[string]", texts);
    if (kind_ != "gpt2") add("scores", "[f32]", scores);
    add("token_type", "[i32]", types);
    if (kind_ == "gpt2") {
      Json merges = Json::array();
      for (const Json& merge : file_.at("model").at("merges")) merges.push_back(merge_text(merge));
      add("merges", "[string]", merges);
    }
    add_id("bos_token_id", {"<s>", "<|begin_of_text|>", "<bos>"});
    add_id("eos_token_id", {"</s>", "<|end_of_text|>", "<|endoftext|>", "<eos>", "<|im_end|>"});
    add_id("unknown_token_id", {"<unk>"});
    if (kind_ != "gpt2") add_normaliser();
    return pairs_;
  }

 private:
  void add(const std::string& key, const std::string& type, const Json& value) {
    pairs_.push_back(Json::array({"tokenizer.ggml." + key, type, value}));
  }

  void add_id(const std::string& key, std::initializer_list<const char*> names) {
    for (const char* name : names)
      for (const Json& each : file_.at("added_tokens"))
        if (each.at("content") == name) return add(key, "u32", each.at("id"));
  }

  void read_vocabulary() {
    const Json& model = file_.at("model");
    const Json& vocabulary = model.at("vocab");
    if (vocabulary.is_array()) {
      for (size_t id = 0; id < vocabulary.size(); ++id)
        pieces_[static_cast<int64_t>(id)] = {vocabulary[id].at(0),
                                             vocabulary[id].at(1).get<double>()};
    } else {
      const auto ranks =
          kind_ == "llama" ? ranks_of(model.at("merges")) : std::map<std::string, double>{};
      for (const auto& [text, id] : vocabulary.items()) {
        const auto rank = ranks.find(text);
        pieces_[id.get<int64_t>()] = {text, rank == ranks.end() ? -1e9 : -rank->second};
      }
    }
    for (auto& [id, piece] : pieces_) {
      if (kind_ == "gpt2" || !is_byte(piece.text)) continue;
      piece.type = 6;
      if (kind_ == "llama") piece.score = 0;
    }
  }

  void read_added() {
    for (const Json& each : file_.at("added_tokens")) {
      const bool unknown = kind_ != "gpt2" && each.at("content") == "<unk>";
      pieces_[each.at("id").get<int64_t>()] = {each.at("content"), kind_ == "llama" ? -1000. : 0.,
                                               unknown                          ? 2
                                               : each.at("special").get<bool>() ? 3
                                                                                : 4};
    }
    const int64_t last = pieces_.rbegin()->first;
    for (int64_t id = 0; id < last; ++id) {
      if (pieces_.contains(id)) continue;
      pieces_[id] = {"[PAD" + std::to_string(id) + "]", kind_ == "llama" ? -10000. : 0., 5};
    }
  }

  void add_normaliser() {
    const Json &normaliser = file_.at("normalizer"), &split = file_.at("pre_tokenizer");
    const Json* metaspace = find_step(split, "Metaspace");
    const bool prefixed = metaspace != nullptr
                              ? metaspace->value("prepend_scheme", "always") != "never"
                              : find_step(normaliser, "Prepend") != nullptr;
    add("add_space_prefix", "bool", prefixed);
    if (kind_ != "t5") return;
    add("remove_extra_whitespaces", "bool", find_step(split, "WhitespaceSplit") != nullptr);
    const Json* charsmap = find_step(normaliser, "Precompiled");
    if (charsmap == nullptr) return;
    const std::string letters = charsmap->at("precompiled_charsmap");
    std::vector<uint8_t> bytes(base64_room(letters.size()));
    bytes.resize(decode_base64(letters, bytes.data()).value());
    add("precompiled_charsmap", "[u8]", bytes);
  }

  const Json& file_;
  std::string kind_;
  std::map<int64_t, Piece> pieces_;
  Json pairs_ = Json::array();
};

}  // namespace

Json tokenizer_pairs(const Json& tokenizer, const std::string& kind, const std::string& pre) {
  return PairsOfTokenizer(tokenizer, kind).make(pre);
}

}  // namespace plimsoll::testing
