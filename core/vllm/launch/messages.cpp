#include "vllm/launch/messages.h"

#include <cmath>

#include <fmt/format.h>

#include "base/amount.h"
#include "vllm/launch/engine_choice.h"

namespace plimsoll::vllm {

std::string format_gib(int64_t bytes) {
  const double gib = static_cast<double>(bytes) / static_cast<double>(kGiB);
  std::string text = fmt::format("{:.2f}", std::round(gib * 100) / 100);
  if (text.back() == '0') text.pop_back();
  return text;
}

namespace {

constexpr const char* kTry = "Try increasing `gpu_memory_utilization`";
constexpr const char* kSee =
    " See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.";

constexpr VllmVersion kEstimates{0, 8, 4};
constexpr VllmVersion kWholeEstimates{0, 9, 1};  // before: the number itself was left out
constexpr VllmVersion kPointsToDocs{0, 13, 0};
constexpr VllmVersion kShortNumbers{0, 14, 0};
constexpr VllmVersion kMentionsCpu{0, 22, 0};

std::string two_decimals(int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / static_cast<double>(kGiB));
}

}  // namespace

std::string no_memory_message(const VllmVersion& version) {
  return fmt::format(
      "No available memory for the cache blocks. {} when initializing the engine{}.{}", kTry,
      version >= kMentionsCpu ? " (this flag also controls CPU memory reservation on "
                                "the CPU backend, despite its name)"
                              : "",
      version >= kPointsToDocs ? kSee : "");
}

std::string no_length_message() {
  return fmt::format(
      "Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single "
      "token. {}.",
      kTry);
}

std::string too_long_message(const EngineArgs& args, int64_t max_model_len, int64_t needed,
                             int64_t available, int64_t estimate) {
  const VllmVersion& version = args.version;
  if (runs_first_engine(args)) {
    return fmt::format(
        "The model's max seq len ({}) is larger than the maximum number of tokens that can be "
        "stored in KV cache ({}). {} or decreasing `max_model_len` when initializing the engine.",
        max_model_len, estimate, kTry);
  }
  const bool short_numbers = version >= kShortNumbers;
  const char* unit = version < kEstimates ? "GB" : "GiB";
  std::string estimated = " ";
  if (version >= kEstimates && version < kWholeEstimates) {
    estimated = estimate > 0 ? " Based on the available memory,  " : "  ";
  } else if (version >= kWholeEstimates) {
    if (estimate > 0) {
      estimated += fmt::format(
          "Based on the available memory, the estimated maximum model length is {}.", estimate);
    }
    if (estimate > 0 || !short_numbers) estimated += " ";
  }
  return fmt::format(
      "To serve at least one request with the {} max seq len ({}), ({} {} KV cache is needed, "
      "which is larger than the available KV cache memory ({} {}).{}{}{} or decreasing "
      "`max_model_len` when initializing the engine.{}",
      version >= kMentionsCpu ? "model's" : "models's", max_model_len,
      short_numbers ? format_gib(needed) : two_decimals(needed), unit,
      short_numbers ? format_gib(available) : two_decimals(available), unit, estimated, kTry,
      version >= kMentionsCpu ? " (which also controls CPU memory on the CPU backend)" : "",
      version >= kPointsToDocs ? kSee : "");
}

std::string not_free_message(const VllmVersion& version, int64_t free, int64_t total,
                             double utilization, int64_t requested) {
  return fmt::format(
      "Free memory on device {}({}/{} GiB) on startup is less than desired GPU memory utilization "
      "({}, {} GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
      version >= kShortNumbers ? "cuda:0 " : "", format_gib(free), format_gib(total), utilization,
      format_gib(requested));
}

}  // namespace plimsoll::vllm
