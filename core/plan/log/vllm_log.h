// What a log of vLLM says of a launch's memory, and how a plan compares with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan_result.h"

namespace plimsoll::plan {

/// The figures of one rank's log, in GiB as they are printed; absent: the log does not say.
struct VllmLog {
  std::string version;  // "0.24.0"; empty: not said
  std::optional<double> weights;
  std::optional<double> consumed;    // weights, non-torch and what torch keeps (0.27 and later)
  std::optional<double> activation;  // from 0.27 on with the graphs' estimate
  std::optional<double> non_torch;
  std::optional<double> graphs_estimated;
  std::optional<double> graphs_taken;
  std::optional<double> available;  // for the KV cache
  std::optional<int64_t> blocks;
  std::optional<int64_t> tokens;
  std::optional<double> concurrency;
  std::optional<double> free_at_start;
  std::optional<double> total;
  std::optional<double> utilization;
  /// True: compiled graphs came from the cache; false: they were compiled in this boot.
  std::optional<bool> warm;
  /// Whether FlashInfer's kernels draw tokens.
  std::optional<bool> flashinfer;
  /// Whether the first of vLLM's engines (V0) runs, of releases that have two.
  std::optional<bool> first_engine;
};

/// True for a text that has a line of vLLM about its memory.
bool is_vllm_log(std::string_view text);

/// Reads the lines of every release from 0.5 on. Of several ranks' lines the first counts, of the
/// KV cache the least.
VllmLog read_vllm_log(std::string_view text);

/// How one part of a plan compares with the log.
struct LoggedPart {
  std::string part;
  std::string unit;  // "GiB", "blocks", "tokens", "requests"
  double logged = 0;
  double planned = 0;
  double low = 0;  // edges of the plan; equal to `planned` where it is exact
  double high = 0;
  [[nodiscard]] bool is_inside() const;
};

struct LogCheck {
  std::vector<LoggedPart> parts;
  std::vector<std::string> causes;  // assumptions that the log contradicts
  bool inside = true;               // every part lies inside its bounds
};

LogCheck check_log(const VllmLog& log, const PlanResult& plan);

/// The check as lines of text, at last a row of CSV for a report, with its header.
std::vector<std::string> log_table(const LogCheck& check, const VllmLog& log,
                                   const PlanResult& plan);

}  // namespace plimsoll::plan
