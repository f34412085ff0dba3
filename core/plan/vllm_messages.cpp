// What vLLM prints when memory does not suffice, word for word.
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "plan/amount.h"
#include "plan/vllm_plan.h"

namespace plimsoll::plan {

VllmVersion parse_version(const std::string& text) {
  VllmVersion version{0, 0, 0};
  const char* at = text.c_str();
  if (*at == 'v' || *at == 'V') ++at;
  int numbers = 0;
  for (int* part : {&version.major, &version.minor, &version.patch}) {
    int digits = 0;
    while (*at >= '0' && *at <= '9' && digits < 6) {
      *part = *part * 10 + (*at++ - '0');
      ++digits;
    }
    if (digits == 0) break;
    ++numbers;
    if (*at != '.') break;
    ++at;
  }
  if (numbers < 2) {
    fail(ExitCode::usage, "--vllm-version {}: expected a version such as 0.32.0", text);
  }
  return version;
}

std::string format_gib(int64_t bytes) {
  const double gib = static_cast<double>(bytes) / static_cast<double>(kGiB);
  std::string text = fmt::format("{:.2f}", std::round(gib * 100) / 100);
  if (text.back() == '0') text.pop_back();
  return text;
}

namespace {

constexpr const char* kSee =
    "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.";

/// The CPU backend's part of the advice came with its own budget.
bool mentions_cpu(const VllmVersion& version) {
  return version >= VllmVersion{0, 20, 0};
}

}  // namespace

std::string no_memory_message(const VllmVersion& version) {
  if (mentions_cpu(version)) {
    return fmt::format(
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine (this flag also controls CPU memory reservation on the CPU "
        "backend, "
        "despite its name). {}",
        kSee);
  }
  if (version >= VllmVersion{0, 11, 0}) {
    return fmt::format(
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine. {}",
        kSee);
  }
  return "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
         "initializing the engine.";
}

std::string too_long_message(const VllmVersion& version, int64_t max_model_len, int64_t needed,
                             int64_t available, int64_t estimate) {
  if (version < VllmVersion{0, 8, 0}) {
    return fmt::format(
        "The model's max seq len ({}) is larger than the maximum number of tokens that can be "
        "stored "
        "in KV cache ({}). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` "
        "when "
        "initializing the engine.",
        max_model_len, estimate);
  }
  const std::string estimated =
      estimate > 0 ? fmt::format(
                         "Based on the available memory, the estimated maximum model length "
                         "is {}. ",
                         estimate)
                   : "";
  const char* cpu =
      mentions_cpu(version) ? " (which also controls CPU memory on the CPU backend)" : "";
  return fmt::format(
      "To serve at least one request with the model's max seq len ({}), ({} GiB KV cache is "
      "needed, "
      "which is larger than the available KV cache memory ({} GiB). {}Try increasing "
      "`gpu_memory_utilization`{} or decreasing `max_model_len` when initializing the engine. {}",
      max_model_len, format_gib(needed), format_gib(available), estimated, cpu, kSee);
}

std::string not_free_message(int64_t free, int64_t total, double utilization, int64_t requested) {
  return fmt::format(
      "Free memory on device cuda:0 ({}/{} GiB) on startup is less than desired GPU memory "
      "utilization "
      "({}, {} GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
      format_gib(free), format_gib(total), utilization, format_gib(requested));
}

}  // namespace plimsoll::plan
