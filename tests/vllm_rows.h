// What vLLM's own classes said of a config, a JSON row each, beside a plan of it.
#pragma once

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json.h"
#include "plan/report/report.h"
#include "plan/vllm_plan.h"

namespace plimsoll::test {

inline std::multiset<std::string> kinds_of(const Json& row) {
  std::multiset<std::string> kinds;
  for (const Json& kind : row["kv_kinds"]) {
    const Json& window = kind["sliding_window"];
    kinds.insert(fmt::format("{} {} {} {} x{}", kind["kind"].get<std::string>(),
                             kind["block_size"].get<int64_t>(), kind["page_bytes"].get<int64_t>(),
                             window.is_null() ? 0 : window.get<int64_t>(),
                             kind["layers"].get<int64_t>()));
  }
  return kinds;
}

inline std::multiset<std::string> kinds_of(const plan::PlanResult& result) {
  std::multiset<std::string> kinds;
  for (const vllm::KvKindCount& kind : result.kv_kinds) {
    const bool windowed =
        kind.spec.kind == vllm::KvKind::sliding || kind.spec.kind == vllm::KvKind::sliding_latent;
    kinds.insert(fmt::format("{} {} {} {} x{}", plan::kind_name(kind.spec.kind),
                             kind.spec.block_size, kind.spec.page.value(),
                             windowed ? kind.spec.window : 0, kind.layers));
  }
  return kinds;
}

inline vllm::EngineArgs arguments(const Json& row) {
  vllm::EngineArgs args;
  args.version = vllm::parse_version(row.value("vllm_version", "0.32.0"));
  args.tensor_parallel = row["tensor_parallel_size"].get<int64_t>();
  args.available_kv = static_cast<int64_t>(row.value("available_gib", 40.0) * 1073741824.0);
  const Json given = row.value("args", Json::object());
  args.kv_cache_dtype = given.value("kv_cache_dtype", "auto");
  args.dtype = given.value("dtype", "auto");
  args.quantization = given.value("quantization", "");
  args.max_model_len = given.value("max_model_len", int64_t{0});
  args.max_num_seqs = given.value("max_num_seqs", int64_t{0});
  args.max_num_batched_tokens = given.value("max_num_batched_tokens", int64_t{0});
  args.block_size = given.value("block_size", int64_t{0});
  args.hybrid_kv = !given.value("disable_hybrid_kv_cache_manager", false);
  args.state_mode = given.value("mamba_cache_mode", "");
  args.async_scheduling = given.value("async_scheduling", true);
  if (given.contains("enable_prefix_caching"))
    args.prefix_caching = given["enable_prefix_caching"].get<bool>();
  return args;
}

/// Differences between a row and a plan, "" when they agree.
inline std::string compare(const Json& row, const plan::PlanResult& result) {
  std::string text;
  const auto number = [&](const char* key, int64_t ours, int64_t tolerance = 0) {
    if (!row.contains(key)) return;
    const auto theirs = row[key].get<int64_t>();
    if (std::abs(theirs - ours) > tolerance)
      text += fmt::format(" {} {} (theirs {}, {:+})", key, ours, theirs, ours - theirs);
  };
  // Scales of a few bytes a layer came and went with releases.
  const int64_t scales = row.contains("vllm_version") ? int64_t{1} << 16 : 0;
  number("parameter_bytes", result.parameter_bytes, scales);
  number("buffer_bytes", result.buffer_bytes, scales);
  number("max_model_len", result.max_model_len);
  number("max_num_seqs", result.max_num_seqs);
  number("max_num_batched_tokens", result.max_num_batched_tokens);
  if (row.contains("dtype") && row["dtype"] != result.dtype) text += " dtype " + result.dtype;
  if (row.contains("prefix_caching") && row["prefix_caching"] != result.prefix_caching.value())
    text += fmt::format(" prefix_caching {}", result.prefix_caching.value());
  if (!row.contains("vllm_version") && kinds_of(row) != kinds_of(result)) {
    text += fmt::format(" kinds [{}] (theirs [{}])", fmt::join(kinds_of(result), ", "),
                        fmt::join(kinds_of(row), ", "));
  }
  if (!row.contains("num_blocks")) return text;
  number("block_size", result.block_size);
  number("num_blocks", result.num_gpu_blocks);
  number("estimated_max_model_len", result.estimated_max_model_len);
  if (!row.contains("max_concurrency")) return text;
  if (row.contains("auto_max_model_len") || result.auto_max_model_len != 0) {
    const int64_t theirs = row.value("auto_max_model_len", int64_t{0});
    if (theirs != result.auto_max_model_len)
      text += fmt::format(" auto {} (theirs {})", result.auto_max_model_len, theirs);
  }
  if (!row.contains("vllm_version") &&
      row.value("verdict", "") != (result.auto_max_model_len != 0 ? result.reason : ""))
    text += " verdict: " + result.reason;
  const auto sizes = row["group_sizes"].get<std::vector<int64_t>>();
  if (sizes != result.group_sizes)
    text += fmt::format(" groups [{}] (theirs [{}])", fmt::join(result.group_sizes, ","),
                        fmt::join(sizes, ","));
  if (row.contains("max_concurrency") &&
      std::abs(row["max_concurrency"].get<double>() - result.max_concurrency) > 0.00006) {
    text += fmt::format(" concurrency {:.4f} (theirs {})", result.max_concurrency,
                        row["max_concurrency"].dump());
  }
  return text;
}

/// Differences of one row, refused rows included.
inline std::string differences(const Json& row, const Json& config) {
  const hardware::Gpu& gpu = hardware::find_gpu(row.value("gpu", "H100-80GB"));
  try {
    const plan::PlanResult result = plan::plan_vllm({config, "config.json"}, arguments(row), &gpu);
    if (row.contains("refused")) return result.refused ? "" : " not refused";
    return result.refused ? " refused: " + result.reason : compare(row, result);
  } catch (const Error& error) {
    const bool expected = row.contains("refused") && error.code() == ExitCode::usage;
    return expected ? "" : fmt::format(" refused: {}", error.what());
  }
}

}  // namespace plimsoll::test
