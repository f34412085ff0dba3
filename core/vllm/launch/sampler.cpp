#include "vllm/launch/sampler.h"

#include <algorithm>

#include <fmt/format.h>

#include "vllm/launch/machine.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kTritonFilter{0, 17, 0};  // before: a sort
constexpr VllmVersion kSecondPass{0, 33, 0};

/// Bytes of a logit that a sort takes beyond FlashInfer's kernels: 36 in place of 12.
constexpr int64_t kSorting = 24;

/// cuBLAS's workspace, where it is made while vLLM measures.
int64_t measured_workspace(const EngineArgs& args, const hardware::Gpu* gpu) {
  return has_early_cublas(args) ? 0 : gemm_workspace(gpu);
}

/// Logits sorted for top-k and top-p: values, indices, probabilities, sums.
PlanPart sorting_sampler(const Step& s, Amount hidden_rows, int64_t workspace) {
  const Amount bytes = s.rows * s.vocabulary * (s.element + 36) + hidden_rows + workspace;
  PlanPart part{"sampler", bytes.value(),
                fmt::format("{} rows x {} tokens x ({} + 36) B (logits sorted for top-k and top-p) "
                            "+ hidden states {} B + {} MiB",
                            s.rows.value(), s.vocabulary.value(), s.element, hidden_rows.value(),
                            workspace / kMiB),
                "vLLM before 0.17"};
  part.less = (s.rows * s.vocabulary * kSorting).value();
  return part;
}

}  // namespace

PlanPart first_runner_sampler(const EngineArgs& args, const Step& s, const hardware::Gpu* gpu) {
  const Amount hidden_rows = s.tokens * s.hidden * s.element + s.rows * s.hidden * s.element * 2;
  const int64_t workspace = measured_workspace(args, gpu);
  const bool flashinfer = samples_with_flashinfer(args, gpu);
  if (args.version < kTritonFilter && !flashinfer) {
    PlanPart part = sorting_sampler(s, hidden_rows, workspace);
    part.either = depends_on_install(args);
    if (!part.either) part.less = 0;
    return part;
  }
  const int64_t copy = s.element == kFloat32 ? 0 : kFloat32;
  const int64_t processors = gpu != nullptr && gpu->processors > 0 ? gpu->processors : 132;
  const Amount buffer =
      flashinfer ? Amount{0} : std::min(Amount{processors}, s.rows) * s.vocabulary * kFloat32;
  const Amount bytes =
      s.rows * s.vocabulary * (s.element + copy + 8) + hidden_rows + buffer + workspace;
  PlanPart part{
      "sampler", bytes.value(),
      fmt::format(
          "{} rows x {} tokens x ({} + {} + 4 + 4) B (logits, float32 copy, {}) + hidden "
          "states {} B{} + {} MiB",
          s.rows.value(), s.vocabulary.value(), s.element, copy,
          flashinfer ? "masked logits, probabilities" : "probabilities, noise", hidden_rows.value(),
          flashinfer ? "" : fmt::format(" + top-k buffer {} B", buffer.value()), workspace / kMiB),
      flashinfer ? "FlashInfer's sampler, first model runner"
                 : "vLLM 0.17 and later, first model runner"};
  part.either = depends_on_install(args);
  if (part.either) part.more = (s.rows * s.vocabulary * kSorting).value();
  return part;
}

PlanPart second_runner_sampler(const EngineArgs& args, const Step& s, const hardware::Gpu* gpu) {
  const Amount hidden = (s.tokens + s.rows) * s.hidden * s.element;
  if (args.version < kSecondPass) {
    return {"sampler", (s.rows * s.vocabulary * s.element + hidden).value(),
            fmt::format("{} rows x {} tokens x {} B (logits; sampling is fused) + ({} + {}) rows x "
                        "{} x {} B",
                        s.rows.value(), s.vocabulary.value(), s.element, s.tokens.value(),
                        s.rows.value(), s.hidden.value(), s.element),
            "vLLM's second model runner"};
  }
  const bool flashinfer = samples_with_flashinfer(args, gpu);
  // A float32 copy, and of FlashInfer's kernels masked logits and probabilities.
  const int64_t beside = flashinfer ? 12 : 4;
  return {"sampler", (s.rows * s.vocabulary * (s.element + beside) + hidden).value(),
          fmt::format("{} rows x {} tokens x ({} + {}) B (logits, float32 copy{}) + ({} + {}) rows "
                      "x {} x {} B",
                      s.rows.value(), s.vocabulary.value(), s.element, beside,
                      flashinfer ? ", masked logits, probabilities" : "", s.tokens.value(),
                      s.rows.value(), s.hidden.value(), s.element),
          "vLLM 0.33 and later, second model runner: a pass with all sampling parameters"};
}

Amount sampler_state(const Step& step, int64_t max_num_seqs) {
  constexpr int64_t kTables = 18048;  // bytes a sequence: allowed, biased, bad and stop tokens
  const Amount mask = ceil_div(step.vocabulary, 32) * kFloat32;
  return Amount{max_num_seqs} * (step.vocabulary * kFloat32 + mask + kTables);
}

}  // namespace plimsoll::vllm
