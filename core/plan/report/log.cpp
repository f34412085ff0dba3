// A plan as the lines that the engine will log.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/report/report.h"

namespace plimsoll::plan {
namespace {

/// 1234567 as "1,234,567".
std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<size_t>(at), 1, ',');
  return text;
}

std::string vllm_lines(const PlanResult& result) {
  std::string text;
  if (result.has_kv) {
    text += fmt::format("Available KV cache memory: {:.2f} GiB\n",
                        static_cast<double>(result.kv_cache_bytes) / 0x1p30);
    text += fmt::format("GPU KV cache size: {} tokens\n", grouped(result.kv_tokens));
    text += fmt::format("Maximum concurrency for {} tokens per request: {:.2f}x\n",
                        grouped(result.launched_model_len()), result.max_concurrency);
  }
  return text;
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
