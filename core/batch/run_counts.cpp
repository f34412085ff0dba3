#include "batch/run_counts.h"

namespace plimsoll::batch {

void ToolCounts::add(const FinishedLine& line, bool reads_calls) {
  const bool forced = line.head.endpoint == Endpoint::chat && line.fields.forces_call();
  const bool looked = forced || looks_for_calls(line.head, line.fields);
  if (!looked) return;
  if (!forced && !reads_calls) {
    ++untried;
    return;
  }
  ++lines;
  for (size_t i = 0; i < line.answers.size(); ++i) {
    for (size_t j = 0; j < line.answers[i].size(); ++j) {
      const text::ToolAnswer& answer = line.answers[i][j];
      calls += answer.calls.size();
      if (!answer.has_unread_call) continue;
      ++unread;
      if (line.outputs[i].completions[j].finish == engine::FinishReason::length) ++unread_cut;
    }
  }
}

void RunCounts::add(const FinishedLine& line, bool reads_calls) {
  for (const engine::RequestOutput& output : line.outputs) {
    prompt_tokens += static_cast<uint64_t>(output.prompt_tokens);
    cached_tokens += static_cast<uint64_t>(output.cached_tokens);
    if (line.fields.constraint) structured.answers += output.completions.size();
    for (const engine::Completion& completion : output.completions) {
      completion_tokens += completion.token_ids.size();
      const bool cut = completion.finish == engine::FinishReason::length;
      if (line.fields.constraint && cut) ++structured.cut;
    }
  }
  tools.add(line, reads_calls);
}

}  // namespace plimsoll::batch
