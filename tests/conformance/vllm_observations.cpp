// The plan of vLLM against logs of real launches: a table of what was logged and what is planned,
// with the errors in percent. Rows whose flags are not complete are left out.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "golden.h"
#include "plan/vllm_plan.h"
#include "skipped.h"
#include "vllm_config.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

using Row = std::map<std::string, std::string>;

std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

std::vector<Row> read_csv(const fs::path& file) {
  std::istringstream stream(testing::read_file(file));
  std::string line;
  std::getline(stream, line);
  const std::vector<std::string> names = csv_fields(line);
  std::vector<Row> rows;
  while (std::getline(stream, line)) {
    const std::vector<std::string> fields = csv_fields(line);
    Row row;
    for (size_t i = 0; i < names.size() && i < fields.size(); ++i) row[names[i]] = fields[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

double number(const Row& row, const char* key) {
  std::string text = row.at(key);
  std::erase(text, ',');
  return text.empty() ? 0.0 : std::strtod(text.c_str(), nullptr);
}

vllm::EngineArgs arguments(const Row& row) {
  vllm::EngineArgs args;
  args.version = vllm::parse_version(row.at("vllm_version"));
  args.tensor_parallel = std::max<int64_t>(1, static_cast<int64_t>(number(row, "tp")));
  args.gpu_memory_utilization = number(row, "gpu_memory_utilization");
  args.max_model_len = static_cast<int64_t>(number(row, "max_model_len"));
  const std::string& flags = row.at("other_flags");
  if (row.at("max_num_seqs").find("default") == std::string::npos)
    args.max_num_seqs = static_cast<int64_t>(number(row, "max_num_seqs"));
  if (row.at("max_num_batched_tokens").find("default") == std::string::npos) {
    args.max_num_batched_tokens = static_cast<int64_t>(number(row, "max_num_batched_tokens"));
  }
  if (!row.at("dtype").empty()) args.dtype = row.at("dtype");
  if (row.at("quantization").find("online") != std::string::npos) args.quantization = "fp8";
  if (row.at("kv_cache_dtype") == "fp8") args.kv_cache_dtype = "fp8";
  args.enforce_eager = row.at("enforce_eager") == "True";
  const size_t block = flags.find("--block-size=");
  if (block != std::string::npos) args.block_size = std::atoll(flags.c_str() + block + 13);
  if (flags.find("--no-enable-prefix-caching") != std::string::npos) args.prefix_caching = false;
  return args;
}

struct Errors {
  std::vector<double> percents;
  void add(double ours, double logged) {
    percents.push_back(100.0 * std::abs(ours - logged) / logged);
  }
  [[nodiscard]] double median() {
    if (percents.empty()) return 0;
    std::sort(percents.begin(), percents.end());
    return percents[percents.size() / 2];
  }
  [[nodiscard]] double worst() const {
    return percents.empty() ? 0 : *std::max_element(percents.begin(), percents.end());
  }
};

struct Totals {
  Errors weights, activation, cache;
};

double gib(int64_t bytes) {
  return static_cast<double>(bytes) / 1073741824.0;
}

void run_row(const Row& row, const fs::path& data, Totals& totals) {
  fs::path file;
  for (const char* folder : {"configs", "configs_derived", "configs_from_docs"}) {
    const fs::path candidate = data / folder / (row.at("config") + ".json");
    if (fs::exists(candidate)) file = candidate;
  }
  if (file.empty()) return;
  const Json config = test::vllm_config(file);
  const hardware::Gpu& gpu = hardware::find_gpu(row.at("gpu"));
  const plan::PlanResult result = plan::plan_vllm({config, file.string()}, arguments(row), &gpu);
  std::string line =
      fmt::format("{:>3} {:7} {:46.46}", row.at("id"), row.at("vllm_version"), row.at("config"));
  const auto compare = [&](const char* key, double ours, Errors& errors) {
    const double logged = number(row, key);
    if (logged <= 0) {
      line += fmt::format(" {:>8} {:>8} {:>6}", "-", fmt::format("{:.2f}", ours), "");
      return;
    }
    errors.add(ours, logged);
    line +=
        fmt::format(" {:8.2f} {:8.2f} {:+5.1f}%", logged, ours, 100.0 * (ours - logged) / logged);
  };
  compare("weights_gib", gib(result.weights_bytes), totals.weights);
  compare("activation_peak_gib", gib(result.activation_peak_bytes), totals.activation);
  if (number(row, "num_gpu_blocks") > 0)
    compare("num_gpu_blocks", static_cast<double>(result.num_gpu_blocks), totals.cache);
  else if (number(row, "kv_tokens") > 0)
    compare("kv_tokens", static_cast<double>(result.kv_tokens), totals.cache);
  else
    compare("max_concurrency", result.max_concurrency, totals.cache);
  fmt::print("{}\n", line);
}

TEST_CASE("vLLM's plan of launches that were logged") {
  const auto data = testing::data_with("vllm_observations.csv");
  if (!data) return testing::skip("no observations (PLIMSOLL_GOLDEN)");
  Totals totals;
  fmt::print("{:>3} {:7} {:46} {:>24} {:>24} {:>24}\n", "id", "version", "config",
             "weights GiB: log, plan", "activation: log, plan", "blocks or tokens");
  for (const Row& row : read_csv(*data / "vllm_observations.csv")) run_row(row, *data, totals);
  fmt::print(
      "median and worst error: weights {:.2f} {:.2f}, activation {:.2f} {:.2f}, cache {:.2f} "
      "{:.2f} percent\n",
      totals.weights.median(), totals.weights.worst(), totals.activation.median(),
      totals.activation.worst(), totals.cache.median(), totals.cache.worst());
  for (const Errors* each : {&totals.weights, &totals.activation, &totals.cache}) {
    CHECK(!each->percents.empty());
  }
  CHECK(totals.weights.median() <= 0.5);
  CHECK(totals.weights.worst() <= 1.5);
  CHECK(totals.activation.median() <= 2.0);
  CHECK(totals.activation.worst() <= 3.0);
  CHECK(totals.cache.median() <= 1.0);
  CHECK(totals.cache.worst() <= 3.0);
}

/// Logged peaks of launches that the table of observations does not hold: vLLM 0.19.0 on an H100,
/// 8192 batched tokens, 1024 sequences.
struct LoggedPeak {
  const char* config;
  int64_t ranks;
  double gib;
};
constexpr LoggedPeak kLoggedPeaks[] = {
    {"Qwen__Qwen3-8B", 1, 2.21},
    {"microsoft__phi-4", 1, 1.52},
    {"Qwen__Qwen2.5-72B", 2, 2.29},
    {"mistralai__Mixtral-8x7B-v0.1", 2, 1.21},
    {"Qwen__Qwen3-30B-A3B", 1, 2.68},
    {"openai__gpt-oss-20b", 2, 2.87},
    {"meta-llama__Llama-4-Scout-17B-16E-Instruct", 4, 3.19},
};

TEST_CASE("peaks of activation in logs beside the table") {
  const auto data = testing::data_with("configs");
  if (!data) return testing::skip("no configs (PLIMSOLL_GOLDEN)");
  int compared = 0;
  for (const LoggedPeak& logged : kLoggedPeaks) {
    fs::path file;
    for (const char* folder : {"configs", "configs_from_docs"}) {
      const fs::path candidate = *data / folder / (std::string(logged.config) + ".json");
      if (fs::exists(candidate)) file = candidate;
    }
    if (file.empty()) continue;
    vllm::EngineArgs args;
    args.version = {0, 19, 0};
    args.tensor_parallel = logged.ranks;
    args.gpu_memory_utilization = 0.95;
    args.max_model_len = 8192;
    const Json config = test::vllm_config(file);
    const plan::PlanResult result =
        plan::plan_vllm({config, file.string()}, args, &hardware::find_gpu("H100-80GB"));
    const double ours = gib(result.activation_peak_bytes);
    fmt::print("{:46} {} ranks: logged {:.2f}, planned {:.2f} GiB\n", logged.config, logged.ranks,
               logged.gib, ours);
    CHECK(std::abs(ours - logged.gib) <= 0.02 * logged.gib + 0.005);
    ++compared;
  }
  CHECK(compared >= 2);
}

}  // namespace
}  // namespace plimsoll
