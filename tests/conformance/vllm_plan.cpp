// The plan of vLLM against what vLLM 0.32.0's own classes said of real configs: parameter bytes,
// kinds of cache, groups, blocks, concurrency and the estimated length, to the byte. Prints a table
// of the rows that differ. PLIMSOLL_ROWS=all prints the differences of every row.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "golden.h"
#include "plan/report/report.h"
#include "plan/vllm_plan.h"
#include "skipped.h"
#include "vllm_config.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using vllm::KvKind;

std::multiset<std::string> kinds_of(const Json& row) {
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

std::multiset<std::string> kinds_of(const plan::PlanResult& result) {
  std::multiset<std::string> kinds;
  for (const vllm::KvKindCount& kind : result.kv_kinds) {
    const bool windowed =
        kind.spec.kind == KvKind::sliding || kind.spec.kind == KvKind::sliding_latent;
    kinds.insert(fmt::format("{} {} {} {} x{}", plan::kind_name(kind.spec.kind),
                             kind.spec.block_size, kind.spec.page.value(),
                             windowed ? kind.spec.window : 0, kind.layers));
  }
  return kinds;
}

vllm::EngineArgs arguments(const Json& row) {
  vllm::EngineArgs args;
  args.version = {0, 32, 0};
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
  args.async_scheduling = given.value("async_scheduling", true);
  if (given.contains("enable_prefix_caching"))
    args.prefix_caching = given["enable_prefix_caching"].get<bool>();
  return args;
}

fs::path find_config(const fs::path& golden, const std::string& name) {
  for (const char* folder :
       {"data/configs", "data/configs_from_docs", "data/configs_derived", "configs"}) {
    const fs::path file = golden / ".." / folder / (name + ".json");
    if (fs::exists(file)) return file;
  }
  return {};
}

/// Differences of one row, "" when it agrees.
std::string compare(const Json& row, const plan::PlanResult& result) {
  std::string text;
  const auto number = [&](const char* key, int64_t ours) {
    if (!row.contains(key)) return;
    const auto theirs = row[key].get<int64_t>();
    if (theirs != ours)
      text += fmt::format(" {} {} (theirs {}, {:+})", key, ours, theirs, ours - theirs);
  };
  number("parameter_bytes", result.parameter_bytes);
  number("buffer_bytes", result.buffer_bytes);
  number("max_model_len", result.max_model_len);
  number("max_num_seqs", result.max_num_seqs);
  number("max_num_batched_tokens", result.max_num_batched_tokens);
  if (row.contains("dtype") && row["dtype"] != result.dtype) text += " dtype " + result.dtype;
  if (kinds_of(row) != kinds_of(result)) {
    text += fmt::format(" kinds [{}] (theirs [{}])", fmt::join(kinds_of(result), ", "),
                        fmt::join(kinds_of(row), ", "));
  }
  if (!row.contains("num_blocks")) return text;
  number("block_size", result.block_size);
  number("num_blocks", result.num_gpu_blocks);
  number("estimated_max_model_len", result.estimated_max_model_len);
  if (row.contains("auto_max_model_len") || result.auto_max_model_len != 0) {
    const int64_t theirs = row.value("auto_max_model_len", int64_t{0});
    if (theirs != result.auto_max_model_len)
      text += fmt::format(" auto {} (theirs {})", result.auto_max_model_len, theirs);
  }
  if (row.value("verdict", "") != (result.auto_max_model_len != 0 ? result.reason : ""))
    text += " verdict: " + result.reason;
  const auto sizes = row["group_sizes"].get<std::vector<int64_t>>();
  if (sizes != result.group_sizes)
    text += fmt::format(" groups [{}] (theirs [{}])", fmt::join(result.group_sizes, ","),
                        fmt::join(sizes, ","));
  if (std::abs(row["max_concurrency"].get<double>() - result.max_concurrency) > 0.00006) {
    text += fmt::format(" concurrency {:.4f} (theirs {})", result.max_concurrency,
                        row["max_concurrency"].dump());
  }
  return text;
}

struct Tally {
  int rows = 0;
  int equal = 0;
  std::map<std::string, std::string> first_difference;  // by config
};

void run_row(const fs::path& golden, const Json& row, const hardware::Gpu& gpu, Tally& tally) {
  const auto name = row["config"].get<std::string>();
  const fs::path file = find_config(golden, name);
  if (file.empty()) return;
  ++tally.rows;
  const Json config = test::vllm_config(file);
  std::string difference;
  try {
    const plan::PlanResult result = plan::plan_vllm({config, "config.json"}, arguments(row), &gpu);
    difference = row.contains("refused") ? " not refused" : compare(row, result);
  } catch (const Error& error) {
    if (!row.contains("refused") || error.code() != ExitCode::usage)
      difference = fmt::format(" refused: {}", error.what());
  }
  if (difference.empty()) {
    ++tally.equal;
    return;
  }
  const char* all = std::getenv("PLIMSOLL_ROWS");
  const std::string line = fmt::format("tp {} {}{}", row["tensor_parallel_size"].get<int64_t>(),
                                       row.contains("args") ? row["args"].dump() : "", difference);
  if (all != nullptr) fmt::print("{:50} {}\n", name, line);
  tally.first_difference.emplace(name, line);
}

void run_file(const char* file) {
  const auto golden = testing::golden_with(std::string("vllm_plan/") + file);
  if (!golden) return testing::skip("no golden results (PLIMSOLL_GOLDEN)");
  const std::string text = testing::read_maybe_xz(*golden / "vllm_plan" / file);
  const hardware::Gpu& gpu = hardware::find_gpu("H100-80GB");
  Tally tally;
  size_t from = 0;
  while (from < text.size()) {
    const size_t end = std::min(text.find('\n', from), text.size());
    if (end > from)
      run_row(*golden, parse_json<Json>(std::string_view(text).substr(from, end - from)), gpu,
              tally);
    from = end + 1;
  }
  fmt::print("{}: {} of {} rows equal; {} configs differ\n", file, tally.equal, tally.rows,
             tally.first_difference.size());
  for (const auto& [name, line] : tally.first_difference) fmt::print("  {:46} {}\n", name, line);
  CHECK(tally.rows > 0);
  CHECK(tally.equal == tally.rows);
}

TEST_CASE("vLLM's plan of real configs", "[vllm_plan]") {
  run_file("vllm_plan.jsonl.xz");
}
TEST_CASE("vLLM's plan with other engine arguments", "[variants]") {
  run_file("variants.jsonl.xz");
}

}  // namespace
}  // namespace plimsoll
