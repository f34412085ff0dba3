#include "text/tokenizer/post_processor.h"

#include "text/text_error.h"

namespace plimsoll::text {
namespace {

using Sequences = std::vector<std::vector<TokenId>>;

// A template leaves its pieces as sequences of their own: a second template sees a pair, as in the
// reference.
Sequences apply_step(const TemplateStep& step, const Sequences& sequences, AddSpecials add) {
  if (sequences.size() > 2) {
    refuse_text("the tokenizer's post-processor has a template behind a template of {} parts",
                sequences.size());
  }
  Sequences out;
  for (const TemplatePiece& piece : sequences.size() == 1 ? step.single : step.pair) {
    if (piece.kind == TemplatePiece::Kind::tokens) {
      if (add == AddSpecials::yes) out.push_back(piece.ids);
      continue;
    }
    const size_t index = piece.kind == TemplatePiece::Kind::sequence_a ? 0 : 1;
    if (index < sequences.size()) out.push_back(sequences[index]);
  }
  return out;
}

Sequences apply_step(const ClsSepStep& step, Sequences sequences, AddSpecials add) {
  if (add == AddSpecials::no) return sequences;
  for (size_t i = 0; i < sequences.size(); ++i) {
    auto& ids = sequences[i];
    if (i == 0) ids.insert(ids.begin(), step.cls);
    if (i > 0 && step.sep_before_pair) ids.insert(ids.begin(), step.sep);
    ids.push_back(step.sep);
  }
  return sequences;
}

}  // namespace

std::vector<TokenId> PostProcessor::apply(std::vector<TokenId> ids, AddSpecials add) const {
  if (steps_.empty()) return ids;
  Sequences sequences;
  sequences.push_back(std::move(ids));
  for (const Step& step : steps_) {
    sequences = std::visit(
        [&](const auto& known) { return apply_step(known, std::move(sequences), add); }, step);
  }
  std::vector<TokenId> out;
  for (const auto& sequence : sequences) out.insert(out.end(), sequence.begin(), sequence.end());
  return out;
}

}  // namespace plimsoll::text
