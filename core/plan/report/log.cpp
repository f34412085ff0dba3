// A plan as the lines that the engine will log.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/vllm/version.h"
#include "plan/report/report.h"
#include "vllm/launch/messages.h"

namespace plimsoll::plan {
namespace {

/// 1234567 as "1,234,567".
std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<size_t>(at), 1, ',');
  return text;
}

/// The lines of the release: worker/gpu_worker.py and core/kv_cache_utils.py of vllm/v1; of the
/// first engine, vllm/executor.
std::string vllm_lines(const PlanResult& result) {
  using model::VllmVersion;
  constexpr VllmVersion kNamesDevice{0, 7, 0}, kSaysMemory{0, 9, 2};
  constexpr VllmVersion kShortNumbers{0, 14, 0}, kOneLine{0, 28, 0};
  constexpr int64_t kSwapSpace = int64_t{4} << 30;
  if (!result.has_kv) return "";
  const VllmVersion version = model::parse_version(result.version);
  const std::string concurrency =
      fmt::format("Maximum concurrency for {} tokens per request: {:.2f}x\n",
                  result.first_engine ? std::to_string(result.launched_model_len())
                                      : grouped(result.launched_model_len()),
                  result.max_concurrency);
  const bool refused = !result.reason.empty();
  if (result.first_engine) {
    return fmt::format("# {} blocks: {}, # CPU blocks: {}\n{}",
                       version < kNamesDevice ? "GPU" : "cuda", result.num_gpu_blocks,
                       kSwapSpace / std::max<int64_t>(1, result.bytes_per_block),
                       refused ? "" : concurrency);
  }
  std::string text;
  if (version >= kSaysMemory) {
    text =
        fmt::format("Available KV cache memory: {} GiB\n",
                    version < kShortNumbers
                        ? fmt::format("{:.2f}", static_cast<double>(result.kv_cache_bytes) / 0x1p30)
                        : vllm::format_gib(result.kv_cache_bytes));
  }
  if (refused) return text;  // vLLM stops before it sizes the cache
  return text +
         fmt::format("GPU KV cache size: {} tokens{}", grouped(result.kv_tokens),
                     version < kOneLine ? "\n" : ", ") +
         concurrency;
}

}  // namespace

std::string to_log(const PlanResult& result) {
  std::string text;
  if (result.other_engine == nullptr) {
    if (result.engine == "vllm") text = vllm_lines(result);
  } else {
    const engines::Answer& answer = *result.other_engine;
    for (const std::string& line : answer.log.empty() ? answer.says : answer.log)
      text += line + "\n";
  }
  return result.reason.empty() ? text : text + result.reason + "\n";
}

}  // namespace plimsoll::plan
