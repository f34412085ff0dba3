#include "model/pipeline.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "base/trim.h"

namespace plimsoll::model {
namespace {

constexpr const char* kVariable = "VLLM_PP_LAYER_PARTITION";
constexpr int64_t kMostLayers = 4096;

std::vector<int64_t> equal_parts(int64_t layers, int64_t stages) {
  std::vector<int64_t> counts(static_cast<size_t>(stages), layers / stages);
  const int64_t left = layers % stages;
  for (int64_t from_end = 2; from_end <= left + 1; ++from_end) {
    ++counts[static_cast<size_t>(stages - from_end)];
  }
  return counts;
}

void check_partition(int64_t layers, int64_t stages, const std::vector<int64_t>& partition) {
  const auto shown = [&] { return fmt::format("{}", fmt::join(partition, ",")); };
  if (static_cast<int64_t>(partition.size()) != stages) {
    fail(ExitCode::usage, "{}={}: has {} numbers, expected one for each of {} pipeline stages",
         kVariable, shown(), partition.size(), stages);
  }
  const int64_t sum = std::accumulate(partition.begin(), partition.end(), int64_t{0});
  if (sum != layers) {
    fail(ExitCode::usage, "{}={}: has {} layers, the model has {}", kVariable, shown(), sum,
         layers);
  }
}

}  // namespace

std::vector<int64_t> parse_partition(const std::string& text) {
  std::vector<int64_t> counts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = trimmed(std::string_view(text).substr(begin, end - begin));
    int64_t count = -1;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (error != std::errc() || stop != word.data() + word.size() || count < 0 ||
        count > kMostLayers) {
      fail(ExitCode::usage,
           "{}={}: expected numbers of layers with commas between them, as in 3,4,3", kVariable,
           text);
    }
    counts.push_back(count);
    begin = end + 1;
  }
  return counts;
}

std::vector<int64_t> stage_ends(int64_t layers, int64_t stages,
                                const std::vector<int64_t>& partition) {
  if (stages > layers) {
    fail(ExitCode::usage, "--pipeline-parallel-size {}: the model has {} layers", stages, layers);
  }
  if (!partition.empty()) check_partition(layers, stages, partition);
  std::vector<int64_t> ends = partition.empty() ? equal_parts(layers, stages) : partition;
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  return ends;
}

StageLayers layers_of_stage(int64_t layers, int64_t stage, int64_t stages,
                            const std::vector<int64_t>& partition) {
  const std::vector<int64_t> ends = stage_ends(layers, stages, partition);
  const auto at = static_cast<size_t>(stage);
  return {stage == 0 ? 0 : ends[at - 1], ends[at]};
}

}  // namespace plimsoll::model
