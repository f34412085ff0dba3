#include "engine/speculation/drafter.h"

#include <algorithm>

#include "engine/schedule_shape.h"
#include "engine/speculation/speculation.h"

namespace plimsoll::engine {
namespace {

/// Without drafts nothing measures the acceptance. It goes back to kHopedAcceptance by this part of
/// the difference with each token, so that a sequence is tried again after some hundred tokens.
constexpr double kForgotten = 1.0 / 512;

/// Bytes of weights that a step of one row reads, which the time of steps of few rows goes by: of a
/// stack of experts those that a token chooses.
double bytes_read(const model::ModelSpec& spec, DType dtype, const backend::Footprint& footprint) {
  int64_t chosen = 1;
  for (const model::LayerSpec& layer : spec.layers) {
    if (layer.has_experts())
      chosen = std::max(chosen, (layer.shortcut ? *layer.shortcut : layer.mlp).experts_per_token);
  }
  double bytes = 0;
  for (const model::WeightSpec& weight : spec.weights) {
    const int64_t matrices = weight.matrices();
    const double share =
        static_cast<double>(std::min(chosen, matrices)) / static_cast<double>(matrices);
    bytes += share * static_cast<double>(footprint.weight_bytes(weight, dtype));
  }
  return bytes;
}

}  // namespace

double draft_cost(const model::ModelSpec& spec, const model::ModelSpec& draft, DType dtype,
                  const backend::Footprint& footprint) {
  return bytes_read(draft, dtype, footprint) / bytes_read(spec, dtype, footprint);
}

Drafter::Drafter(const model::ModelSpec& spec, Launch& launch, const EngineLayout& layout,
                 backend::Backend& backend)
    : launch_(launch),
      draft_(*layout.draft),
      backend_(backend),
      vocabulary_(spec.vocab_size),
      cost_(draft_cost(spec, *draft_.model.spec, layout.dtype, backend.footprint())),
      cache_(cache_options(draft_.layout.kv, draft_.layout.num_blocks, true, 0)),
      builder_(launch.draft->batch, draft_.layout.limits, backend.footprint(), {}),
      runner_(*launch.draft, draft_.layout, backend) {}

void Drafter::propose(std::span<Sequence* const> sequences) {
  drafts_.clear();
  for (Sequence* sequence : sequences) {
    const int64_t wanted = choose_length(*sequence, std::ssize(sequences));
    if (wanted > 0) drafts_.push_back({sequence, &follow(*sequence), wanted});
  }
  while (true) {
    const std::vector<Piece> pieces = next_pieces();
    if (pieces.empty()) break;
    run(pieces);
  }
  for (const Draft& draft : drafts_) draft.sequence->draft = draft.copy->draft;
}

bool Drafter::is_readable(const Sequence& sequence) const {
  if (sequence.images != nullptr) return false;
  const auto is_known = [&](TokenId token) { return token < draft_.model.spec->vocab_size; };
  return vocabulary_ <= draft_.model.spec->vocab_size ||
         (std::ranges::all_of(sequence.prompt, is_known) &&
          std::ranges::all_of(sequence.output, is_known));
}

int64_t Drafter::choose_length(Sequence& sequence, int64_t sequences) const {
  const int64_t known = sequence.known_length();
  const int64_t longest = std::min(sequence.max_length - 1, draft_.layout.max_model_len);
  const int64_t most = std::min(draft_.model.num_speculative_tokens, longest - known);
  if (most <= 0 || !is_readable(sequence)) return 0;
  // A token that the draft model has not seen costs a row of it, one that is drawn a row at least.
  const auto copy = copies_.find(sequence.serial);
  const int64_t lacking = known - (copy == copies_.end() ? 0 : copy->second.computed);
  if (cost_ * static_cast<double>(lacking) > static_cast<double>(sequence.max_length - known)) {
    return 0;
  }
  if (sequence.output.size() == 1) sequence.acceptance = kHopedAcceptance;
  const int64_t length = worthwhile_length(sequence.acceptance, most, sequences, cost_);
  if (length == 0) sequence.acceptance += (kHopedAcceptance - sequence.acceptance) * kForgotten;
  return length;
}

Sequence& Drafter::follow(const Sequence& sequence) {
  Sequence& copy = copies_[sequence.serial];
  if (copy.prompt.empty()) {
    copy.serial = sequence.serial;
    copy.prompt = sequence.prompt;
    copy.max_length = sequence.max_length;
    copy.long_rope = wants_long_rope(*draft_.model.spec, sequence.max_length);
  }
  // Keys and values of a draft are right as far as its tokens have come.
  const int64_t before = copy.known_length();
  const auto known = sequence.output.begin() + std::ssize(copy.output);
  const auto wrong =
      std::mismatch(copy.draft.begin(), copy.draft.end(), known, sequence.output.end()).first;
  copy.computed = std::min(copy.computed, before + (wrong - copy.draft.begin()));
  copy.output.insert(copy.output.end(), known, sequence.output.end());
  copy.draft.clear();
  copy.computed = std::min(copy.computed, copy.known_length() - 1);
  cache_.apply_token(copy);
  return copy;
}

bool Drafter::make_room(Sequence& copy, int64_t end) {
  const auto is_used = [&](const Sequence& other) {
    return std::ranges::any_of(drafts_, [&](const Draft& draft) { return draft.copy == &other; });
  };
  for (auto& [serial, other] : copies_) {
    if (cache_.reachable_end(copy) >= end) return true;
    if (!is_used(other) && !other.tables.empty()) cache_.release(other);
  }
  return cache_.reachable_end(copy) >= end;
}

std::vector<Piece> Drafter::next_pieces() {
  std::vector<Piece> pieces;
  int64_t budget = draft_.layout.limits.batched_tokens;
  for (Draft& draft : drafts_) {
    Sequence& copy = *draft.copy;
    if (std::ssize(copy.draft) >= draft.wanted || budget == 0) continue;
    if (copy.tables.empty()) cache_.attach(copy);
    const int64_t last = copy.known_length() + std::ssize(copy.draft);
    const int64_t end = std::min(last, copy.computed + budget);
    if (!make_room(copy, end)) {
      draft.wanted = 0;
      continue;
    }
    cache_.extend(copy, end);
    pieces.push_back({&copy, copy.computed, end - copy.computed, end == last ? end - 1 : end});
    budget -= end - copy.computed;
  }
  return pieces;
}

void Drafter::run(const std::vector<Piece>& pieces) {
  builder_.build(pieces, 0, step_);
  for (const Piece& piece : pieces) cache_.commit(*piece.sequence, piece.end());
  backend_.use_scratch(launch_.draft->scratch);
  const int64_t ids = std::min(vocabulary_, draft_.model.spec->vocab_size);
  runner_.run(step_, [&](const LogitsSlice& slice) {
    for (int64_t row = 0; row < slice.count; ++row) {
      const float* logits = slice.values + row * slice.stride;
      const auto best = std::max_element(logits, logits + ids) - logits;
      step_.read[slice.first + row].sequence->draft.push_back(static_cast<TokenId>(best));
    }
  });
  backend_.use_scratch(launch_.scratch);
}

void Drafter::forget(const Sequence& sequence) {
  const auto copy = copies_.find(sequence.serial);
  if (copy == copies_.end()) return;
  cache_.release(copy->second);
  copies_.erase(copy);
}

}  // namespace plimsoll::engine
