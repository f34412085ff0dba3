// Savings of admission by forecast: the scheduler over lines that are numbers alone, on the KV
// blocks of an 8B model in bf16 on a card of 141 GB. Prints preemptions and tokens that were
// computed again, and how long the steps would take: weights read once a step, products and the
// cache's reads by their roofs.
//   admission [--blocks N] [--sequences N] [--draft N --acceptance P]
// With --draft every decoding sequence has so many proposed tokens, each right with the chance P;
// how many of them a step computes is the scheduler's rule.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <deque>
#include <random>
#include <vector>

#include "bench/support/card_costs.h"
#include "engine/scheduler.h"
#include "engine/speculation/speculation.h"

namespace plimsoll::testing {
namespace {

using engine::Admission;
using engine::Piece;
using engine::Sequence;

constexpr int64_t kBlock = 16;
constexpr int64_t kStepTokens = 8192;

struct Options {
  int64_t blocks = 56000;
  int64_t sequences = 1024;
  int64_t draft = 0;
  double acceptance = 0;
};

/// A line's lengths in tokens: its prompt, its limit, its answer.
struct Line {
  int64_t prompt, limit, answer;
  bool ends_at_limit;
};

struct Trace {
  const char* name;
  std::vector<Line> lines;
};

std::vector<Trace> traces() {
  std::vector<Trace> all;
  all.push_back({"1000/1000, ignore_eos", std::vector<Line>(4000, {1000, 1000, 1000, true})});
  all.push_back({"1000/1000, end unknown", std::vector<Line>(4000, {1000, 1000, 1000, false})});
  std::mt19937 random(1);
  const auto lognormal = [&](double median, double spread, int64_t most) {
    const double u = static_cast<double>(random()) / 4294967296.0;
    const double v = static_cast<double>(random()) / 4294967296.0;
    const double normal = std::sqrt(-2 * std::log(u + 1e-12)) * std::cos(6.283185307179586 * v);
    return std::clamp<int64_t>(static_cast<int64_t>(median * std::exp(spread * normal)), 1, most);
  };
  Trace mixed{"mixed: prompts about 400, answers about 300, limit 4096", {}};
  Trace reasoning{"reasoning: prompts about 300, answers about 2500, limit 16384", {}};
  for (int i = 0; i < 6000; ++i) {
    mixed.lines.push_back({lognormal(400, 1.2, 8000), 4096, lognormal(300, 1.1, 4096), false});
    if (i % 3 != 0) continue;
    reasoning.lines.push_back(
        {lognormal(300, 0.8, 4000), 16384, lognormal(2500, 0.9, 16384), false});
  }
  all.push_back(std::move(mixed));
  all.push_back(std::move(reasoning));
  return all;
}

struct Outcome {
  uint64_t preemptions = 0;
  int64_t steps = 0;
  int64_t again = 0;  // tokens computed beyond once each
  double seconds = 0;
};

constexpr engine::TokenId kRight = 1, kWrong = 2;

/// Gives a sequence whose step has ended the tokens that were drawn, `answer` in all; true when it
/// has them.
bool take_tokens(const Options& options, int64_t answer, std::mt19937& random, Sequence& sequence) {
  do {
    const bool right = static_cast<double>(random()) / 4294967296.0 < options.acceptance;
    sequence.output.push_back(right ? kRight : kWrong);
    if (std::ssize(sequence.output) >= answer) return true;
  } while (engine::verify_draft(sequence, sequence.output.back()));
  const int64_t most = answer - std::ssize(sequence.output) - 1;
  sequence.draft.assign(static_cast<size_t>(std::clamp<int64_t>(most, 0, options.draft)), kRight);
  return false;
}

Outcome simulate(const Trace& trace, const Options& options, Admission admission) {
  engine::KvCache cache({options.blocks, kBlock, {0}, false});
  engine::Scheduler scheduler(cache, {options.sequences, kStepTokens, admission});
  std::deque<Sequence> sequences;
  std::deque<std::vector<engine::TokenId>> prompts;
  for (const Line& line : trace.lines) {
    Sequence& sequence = sequences.emplace_back();
    sequence.serial = sequences.size() - 1;
    sequence.prompt = prompts.emplace_back(static_cast<size_t>(line.prompt), 1);
    sequence.max_length = line.prompt + line.limit;
    sequence.ends_at_limit = line.ends_at_limit;
    scheduler.add(sequence);
  }
  std::mt19937 random(2);
  Outcome outcome;
  int64_t computed = 0, wanted = 0;
  for (size_t done = 0; done < sequences.size();) {
    const std::vector<Piece> pieces = scheduler.schedule();
    ++outcome.steps;
    double tokens = 0, read = 0;
    for (const Piece& piece : pieces) {
      tokens += static_cast<double>(piece.count);
      read += static_cast<double>(piece.end()) * kTokenBytes;
      computed += piece.count;
    }
    outcome.seconds += std::max(kWeights / kBytesPerSecond, tokens * kTokenFlops / kFlops) +
                       read / kBytesPerSecond;
    scheduler.commit();
    for (const Piece& piece : pieces) {
      Sequence& sequence = *piece.sequence;
      if (piece.end() < sequence.length()) continue;
      if (!take_tokens(options, trace.lines[sequence.serial].answer, random, sequence)) continue;
      wanted += sequence.length() - 1;
      scheduler.finish(sequence);
      ++done;
    }
  }
  outcome.preemptions = scheduler.preemptions();
  outcome.again = computed - wanted;
  return outcome;
}

void run(const Options& options) {
  for (const Trace& trace : traces()) {
    fmt::print("{}\n", trace.name);
    for (const auto& [name, admission] : {std::pair{"next step", Admission::next_step},
                                          std::pair{"forecast", Admission::forecast}}) {
      const Outcome o = simulate(trace, options, admission);
      fmt::print("  {:10} {:6} preemptions, {:9} tokens computed again, {:6} steps, {:7.1f} s\n",
                 name, o.preemptions, o.again, o.steps, o.seconds);
    }
  }
}

}  // namespace
}  // namespace plimsoll::testing

int main(int argc, char** argv) {
  plimsoll::testing::Options options;
  CLI::App app("what admission by forecast saves");
  app.add_option("--blocks", options.blocks, "KV blocks of 16 tokens");
  app.add_option("--sequences", options.sequences, "that run at once");
  app.add_option("--draft", options.draft, "tokens proposed for a sequence");
  app.add_option("--acceptance", options.acceptance, "chance that a proposed token is right");
  CLI11_PARSE(app, argc, argv);
  plimsoll::testing::run(options);
  return 0;
}
