// The post-processors of tokenizer.json: special tokens around an encoded text.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "text/tokenizer.h"

namespace plimsoll::text {

/// A part of a template: the text itself, or fixed ids.
struct TemplatePiece {
  enum class Kind { sequence_a, sequence_b, tokens };
  Kind kind = Kind::sequence_a;
  std::vector<TokenId> ids;
};

struct TemplateStep {
  std::vector<TemplatePiece> single;
  std::vector<TemplatePiece> pair;
};

/// BertProcessing and RobertaProcessing, which differ for pairs only.
struct ClsSepStep {
  TokenId cls;
  TokenId sep;
  bool sep_before_pair;
};

class PostProcessor {
 public:
  using Step = std::variant<TemplateStep, ClsSepStep>;
  void add(Step step) { steps_.push_back(std::move(step)); }
  [[nodiscard]] bool empty() const { return steps_.empty(); }
  /// Adds special tokens to `ids`. Throws TextError where steps do not fit one another.
  [[nodiscard]] std::vector<TokenId> apply(std::vector<TokenId> ids, AddSpecials add) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace plimsoll::text
