// Time of the host for a step of decodes while a device runs the one before: scheduling, building
// the batch, taking in the tokens. Budget: 100 us for scheduling and building 1,024 rows.
//   host_path [--sequences N] [--context N] [--steps N]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/batch_builder.h"
#include "engine/cache/kv_cache.h"
#include "engine/request_state.h"
#include "engine/scheduler.h"
#include "engine/test_device.h"

namespace plimsoll::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int64_t sequences = 1024;
  int64_t context = 2048;
  int64_t steps = 400;
};

constexpr int64_t kBlock = 16;

/// Sequences that decode, as the engine has them, over a device that takes no time.
class Host {
 public:
  explicit Host(const Options& options)
      : limits_{.batched_tokens = 8192,
                .sequences = options.sequences,
                .logits_rows = 256,
                .table_stride = options.context / kBlock + 64},
        cache_({(options.sequences + 1) * limits_.table_stride, kBlock, {0}, true}),
        scheduler_(cache_, {limits_.sequences, limits_.batched_tokens}),
        device_memory_(kArena),
        host_memory_(kArena),
        device_(memory::Arena::placing(device_memory_.data(), kArena)),
        host_(memory::Arena::placing(host_memory_.data(), kArena)),
        arrays_(device_, host_, {limits_, 1, true, 0}, footprint_),
        builder_(arrays_, limits_, footprint_, {options.sequences}),
        steps_(arrays_.slabs()) {
    std::mt19937 random(1);
    for (int64_t i = 0; i < options.sequences; ++i) {
      engine::Request request;
      request.key = std::to_string(i);
      request.sampling.max_tokens = 1 << 20;
      request.sampling.top_p = 0.95;
      request.sampling.ignore_eos = true;
      for (int64_t t = 0; t < options.context / 2 + i % (options.context / 4); ++t) {
        request.prompt.push_back(static_cast<engine::TokenId>(random() % 100'000));
      }
      engine::ChoiceContext context;
      context.max_tokens = 1 << 20;
      requests_.push_back(std::make_unique<engine::RequestState>(
          std::move(request), static_cast<uint64_t>(i), context));
      scheduler_.add(requests_.back()->leader().sequence());
    }
  }

  /// Schedules and builds a step; whether it has decodes alone.
  bool prepare() {
    engine::Step& step = steps_[slot_];
    const std::vector<engine::Piece>& pieces = scheduler_.schedule();
    builder_.build(pieces, slot_, step);
    scheduler_.commit();
    return std::ssize(step.drawn) == limits_.sequences;
  }

  /// Takes in the tokens of the step before, and lets those of this one be pending.
  void finish_step() {
    engine::Step& before = steps_[1 - slot_];
    for (const engine::WantedRow& row : before.drawn) {
      row.sequence->pending = -1;
      row.sequence->choice->accept(token_++ % 100'000);
      scheduler_.apply_token(*row.sequence);
    }
    engine::Step& step = steps_[slot_];
    for (size_t d = 0; d < step.drawn.size(); ++d) {
      step.drawn[d].sequence->pending = static_cast<int32_t>(d);
    }
    slot_ = 1 - slot_;
  }

 private:
  static constexpr size_t kArena = size_t{1} << 30;  // touched as far as it is used

  TestDeviceFootprint footprint_{backend::cpu_footprint(), {}};
  engine::StepLimits limits_;
  engine::KvCache cache_;
  engine::Scheduler scheduler_;
  memory::HostMemory device_memory_, host_memory_;
  memory::Arena device_, host_;
  engine::BatchArrays arrays_;
  engine::BatchBuilder builder_;
  std::vector<engine::Step> steps_;
  std::vector<std::unique_ptr<engine::RequestState>> requests_;
  size_t slot_ = 0;
  engine::TokenId token_ = 0;
};

void print(const char* what, std::vector<double> seconds, int64_t rows) {
  std::ranges::sort(seconds);
  const auto at = [&](double share) {
    return 1e6 * seconds[static_cast<size_t>(share * static_cast<double>(seconds.size() - 1))];
  };
  fmt::print("{:<22} {:7.1f} us at best, {:7.1f} in the middle, {:7.1f} at 95 %; {:.0f} ns a row\n",
             what, at(0), at(0.5), at(0.95), 1e3 * at(0.5) / static_cast<double>(rows));
}

void measure(const Options& options) {
  Host host(options);
  while (!host.prepare()) host.finish_step();
  host.finish_step();
  std::vector<double> preparing, finishing;
  for (int64_t step = 0; step < options.steps; ++step) {
    const auto start = Clock::now();
    host.prepare();
    const auto prepared = Clock::now();
    host.finish_step();
    const auto finished = Clock::now();
    preparing.push_back(std::chrono::duration<double>(prepared - start).count());
    finishing.push_back(std::chrono::duration<double>(finished - prepared).count());
  }
  fmt::print("{} sequences of about {} tokens\n", options.sequences, options.context);
  print("schedule and build", preparing, options.sequences);
  print("take in the tokens", finishing, options.sequences);
}

}  // namespace
}  // namespace plimsoll::testing

int main(int argc, char** argv) {
  using namespace plimsoll::testing;
  Options options;
  CLI::App app("Microseconds of the host for a step of decodes.");
  app.add_option("--sequences", options.sequences, "Sequences that decode");
  app.add_option("--context", options.context, "Their longest context");
  app.add_option("--steps", options.steps, "Steps measured");
  CLI11_PARSE(app, argc, argv);
  measure(options);
}
