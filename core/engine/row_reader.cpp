#include "engine/row_reader.h"

#include "engine/sampling/choice.h"
#include "engine/sampling/logprobs.h"

namespace plimsoll::engine {

void RowReader::read(ScoredRow& row) {
  const SamplingState& state = row.sequence->choice->sampling();
  row.logprobs.reset();
  std::optional<int64_t> best = state.params().logprobs;
  if (row.of_prompt()) {
    row.outcome = Sampled::token;
    row.token = row.sequence->token(row.position + 1);
    best = state.params().prompt_logprobs;
  } else {
    const SampleResult result = sampler_.sample(row.logits, state);
    row.outcome = result.outcome;
    row.token = result.token;
  }
  if (!best || row.outcome != Sampled::token) return;
  row.logprobs = position_logprobs(row.logits, row.token, *best, ids_);
  if (!row.logprobs) row.outcome = Sampled::not_finite;
}

}  // namespace plimsoll::engine
