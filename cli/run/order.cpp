#include "cli/run/order.h"

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "base/error.h"
#include "batch/watch.h"
#include "cli/run/prompt_setup.h"
#include "engine/schedule_shape.h"
#include "files/names.h"

namespace plimsoll::cli {
namespace {

using batch::Order;

// Tokenized in some ten seconds.
constexpr uint64_t kMostLookedAt = uint64_t{256} << 20;
// An order takes some 200 bytes a line.
constexpr uint64_t kMostLines = 500'000;

}  // namespace

std::string bound_by_input(const files::InputFile& input) {
  if (!input.is_regular()) return "the input is no file, and can be read once";
  if (input.is_packed()) return "the input is packed, and can be read from its beginning alone";
  return "";
}

std::string bound_by_outputs(const RunOptions& options) {
  for (const std::string& path : {options.output, options.errors}) {
    if (!path.empty() && files::is_stream(path)) {
      return "answers leave in the input's order; -o FILE can hold them until they are complete";
    }
  }
  return "";
}

std::string not_worth_a_look(const files::InputFile& input, bool prefix_caching, uint64_t lines,
                             uint64_t done) {
  if (!prefix_caching) return "this launch has no prefix cache";
  if (lines <= done + 1) return "there is one line at most";
  if (lines > kMostLines) {
    return fmt::format("there are more than {} lines; --order prefix reads them all before the run",
                       kMostLines);
  }
  if (input.size() > kMostLookedAt) {
    return fmt::format("the input has more than {} MiB; --order prefix reads it all before the run",
                       kMostLookedAt >> 20);
  }
  return "";
}

void check_order(const RunOptions& options, const files::InputFile& input) {
  if (options.order != Order::prefix) return;
  std::string bound = bound_by_input(input);
  if (bound.empty()) bound = bound_by_outputs(options);
  if (!bound.empty()) fail(ExitCode::usage, "--order prefix: {}: {}", input.name(), bound);
}

batch::SurveyOptions run_survey(const RunOptions& options, const Launch& launch, int64_t context,
                                const ScannedInput& scanned) {
  batch::SurveyOptions survey =
      survey_options(options, launch.prompts, context, launch.resolved.spec.vocab_size,
                     std::make_shared<batch::ImageLoader>(launch.images));
  survey.slice = scanned.slice;
  survey.block_size = launch.resolved.engine.block_size;
  survey.keeps_sequences = false;
  return survey;
}

RunOrder choose_order(const RunOptions& options, const Launch& launch, files::InputFile& input,
                      const ScannedInput& scanned, const batch::DoneLines& done) {
  RunOrder order;
  order.choice.asked = options.order;
  order.choice.reason = "--order file";
  if (options.order == Order::file) return order;
  std::string& reason = order.choice.reason;
  reason = bound_by_input(input);
  if (reason.empty()) reason = bound_by_outputs(options);
  if (reason.empty() && options.order == Order::automatic) {
    reason = not_worth_a_look(input,
                              engine::shares_prefixes(launch.resolved.spec, launch.resolved.engine),
                              scanned.lines.value_or(0), done.ok + done.failed);
  }
  if (!reason.empty()) return order;

  const batch::Clock::time_point start = batch::Clock::now();
  const engine::EnginePlan& plan = launch.engine->plan();
  batch::SurveyOptions survey = run_survey(options, launch, plan.max_model_len, scanned);
  survey.prompts.grammars = nullptr;  // they have no part in an order
  const auto is_done = [&](uint64_t slot) {
    return done.at(slot) != batch::DoneLines::State::open;
  };
  survey.is_done = is_done;
  batch::LineIndex index(launch.resolved.engine.block_size);
  survey.each = [&](const batch::SurveyedLine& line) {
    index.add(line, is_done(line.place.ordinal - scanned.slice.first));
  };
  const std::optional<uint64_t> shared_tokens =
      batch::survey_prompts(input, survey).all_shared_tokens();
  input.rewind();
  const batch::Clock::time_point read = batch::Clock::now();
  const engine::ScheduleShape schedule =
      engine::shape_of_schedule(launch.resolved.spec, launch.resolved.engine, plan,
                                std::ssize(launch.resolved.stages), launch.backend->footprint());
  batch::ChosenLines chosen = batch::choose_order(options.order, index.prompts, schedule,
                                                  shared_tokens, batch::Forecasts::deciding);
  order.choice = std::move(chosen.choice);
  order.choice.survey_seconds = std::chrono::duration<double>(read - start).count();
  order.choice.choose_seconds = std::chrono::duration<double>(batch::Clock::now() - read).count();
  if (order.choice.used == Order::file) return order;
  index.arrange(chosen.order);
  order.lines = std::move(index.order);
  return order;
}

}  // namespace plimsoll::cli
