// Savings of the order by prefixes: the scheduler and the KV cache over lines of which only hashes
// are known. Prints for caches of several sizes the prompt tokens that are computed, as a ratio to
// the least there is (each block of 16 tokens once), steps, and how long an 8B model's steps would
// take on a card of 141 GB: weights read once a step, products by their roof; then the time that
// order and forecasts take.
//   order [--lines N] [--heads N] [--head-tokens N]    lines with one of N system prompts, shuffled
//   order --trace FILE    JSONL with input_length, output_length and hash_ids of 512 tokens each
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <CLI/CLI.hpp>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "batch/order/schedule_forecast.h"
#include "bench/support/card_costs.h"

namespace plimsoll::testing {
namespace {

using batch::BuiltRequest;
using batch::PrefixIndex;
using batch::ScheduleForecast;
using text::TokenId;

constexpr int64_t kBlock = 16;
constexpr int64_t kTraceBlock = 512;
constexpr int64_t kStepTokens = 8192;
constexpr int64_t kSequences = 256;

struct Options {
  int64_t lines = 2000;
  int64_t heads = 20;
  int64_t head_tokens = 1500;
  std::string trace;
  bool order_alone = false;
};

class Input {
 public:
  void add(std::vector<TokenId> prompt, int64_t answer) {
    longest_ = std::max(longest_, std::ssize(prompt) + answer);
    BuiltRequest request;
    request.prompts.push_back({.text = "", .parts = {std::move(prompt)}});
    engine::SamplingParams sampling;
    sampling.max_tokens = answer;
    sampling.ignore_eos = true;
    request.sampling.push_back(sampling);
    index.add_line(&request);
  }
  /// Prompt tokens that must be computed: each block that prompts begin with once. Of a prompt of
  /// whole blocks the last one is computed for its token's logits, and not counted here again.
  [[nodiscard]] double least() const {
    std::unordered_set<uint64_t> blocks;  // by the hash of all tokens up to their end
    int64_t behind = 0;                   // tokens behind the last whole block
    for (size_t line = 0; line < index.lines(); ++line) {
      for (const batch::IndexedSequence& sequence : index.sequences(line)) {
        const int64_t whole = index.hash_count(sequence);
        for (int64_t at = 0; at < whole; ++at) blocks.insert(index.hash(sequence, at));
        behind += sequence.prompt - whole * index.span();
      }
    }
    return static_cast<double>(std::ssize(blocks) * index.span() + behind);
  }
  [[nodiscard]] int64_t longest() const { return longest_; }

  PrefixIndex index{kBlock};

 private:
  int64_t longest_ = 0;
};

void add_shuffled(const Options& options, Input& input) {
  std::mt19937 random(1);
  std::vector<int64_t> heads(static_cast<size_t>(options.lines));
  for (size_t i = 0; i < heads.size(); ++i) heads[i] = static_cast<int64_t>(i) % options.heads;
  std::shuffle(heads.begin(), heads.end(), random);
  for (const int64_t head : heads) {
    std::vector<TokenId> prompt(static_cast<size_t>(options.head_tokens),
                                static_cast<TokenId>(head));
    for (auto own = 20 + random() % 60; own > 0; --own) {
      prompt.push_back(static_cast<TokenId>(1000 + random() % 30000));
    }
    input.add(std::move(prompt), 16 + static_cast<int64_t>(random() % 100));
  }
}

void add_trace(const std::string& path, Input& input) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Json row = parse_json<Json>(line);
    std::vector<TokenId> prompt(row["input_length"].get<size_t>());
    for (size_t i = 0; i < prompt.size(); ++i) {
      prompt[i] = row["hash_ids"][i / kTraceBlock].get<TokenId>();
    }
    if (!prompt.empty()) input.add(std::move(prompt), row["output_length"].get<int64_t>());
  }
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void print(double least, const char* order, const ScheduleForecast& forecast) {
  const auto computed = static_cast<double>(forecast.prompt_tokens - forecast.cached_tokens);
  const double tokens = computed + static_cast<double>(forecast.completion_tokens);
  const double seconds = static_cast<double>(forecast.steps) * kWeights / kBytesPerSecond +
                         tokens * kTokenFlops / kFlops;
  fmt::print("  {:6} {:7.3f} of the least, {:8} steps, {:6} preemptions, {:8.1f} s at most\n",
             order, computed / least, forecast.steps, forecast.preemptions, seconds);
}

void run(const Options& options) {
  Input input;
  options.trace.empty() ? add_shuffled(options, input) : add_trace(options.trace, input);
  std::vector<uint32_t> as_read(input.index.lines());
  std::iota(as_read.begin(), as_read.end(), 0);
  const double least = input.least();
  auto begin = std::chrono::steady_clock::now();
  const std::vector<uint32_t> ordered = input.index.prefix_order();
  fmt::print("{} lines, {} prompt tokens, at least {:.0f} of them computed; ordered in {:.2f} s\n",
             input.index.lines(), input.index.prompt_tokens(), least, seconds_since(begin));
  if (options.order_alone) return;
  const int64_t one = input.longest() / kBlock + 1;  // blocks of the longest line
  for (const int64_t blocks : {2 * one, 4 * one, 16 * one, 64 * one}) {
    engine::ScheduleShape launch;
    launch.cache = {.blocks = blocks, .block_size = kBlock, .windows = {0}};
    launch.limits = {
        .sequences = kSequences, .tokens = kStepTokens, .admission = engine::Admission::forecast};
    begin = std::chrono::steady_clock::now();
    const ScheduleForecast file = forecast_schedule(input.index, as_read, launch);
    const ScheduleForecast prefix = forecast_schedule(input.index, ordered, launch);
    fmt::print("{} blocks; both forecasts in {:.2f} s\n", blocks, seconds_since(begin));
    print(least, "file", file);
    print(least, "prefix", prefix);
  }
}

}  // namespace
}  // namespace plimsoll::testing

int main(int argc, char** argv) {
  plimsoll::testing::Options options;
  CLI::App app("what the order by prefixes saves");
  app.add_option("--lines", options.lines);
  app.add_option("--heads", options.heads, "system prompts");
  app.add_option("--head-tokens", options.head_tokens, "of each");
  app.add_option("--trace", options.trace, "a trace in place of these lines");
  app.add_flag("--order-alone", options.order_alone, "no forecasts");
  CLI11_PARSE(app, argc, argv);
  plimsoll::testing::run(options);
  return 0;
}
