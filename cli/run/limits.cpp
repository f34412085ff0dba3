#include "cli/run/limits.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "cli/measured_rates.h"
#include "launch/sequences.h"

namespace plimsoll::cli {
namespace {

// Tokenized in about a second.
constexpr uint64_t kMostBytes = uint64_t{16} << 20;

/// Why lengths are not looked at; empty: they are.
std::string not_looked(const launch::LaunchRequest& flags, const files::InputFile& input) {
  if (!input.is_regular()) return "the input is no file, and can be read once";
  if (flags.args.max_model_len == -1) return "--max-model-len auto is settled first";
  return "";
}

/// The schedule of a launch with these limits; nullopt where the engine would refuse it.
std::optional<engine::ScheduleShape> schedule_of(const launch::ResolvedLaunch& launch,
                                                 const batch::StepLimits& limits,
                                                 const backend::Footprint& footprint) {
  engine::EngineOptions options = launch.engine;
  options.max_num_seqs = limits.sequences;
  options.max_num_batched_tokens = limits.tokens;
  try {
    const engine::EngineLayout layout =
        engine::resolve_stages(launch.spec, launch.stage_views(), options, footprint).front();
    engine::EnginePlan plan;
    plan.max_num_seqs = layout.limits.sequences;
    plan.max_num_batched_tokens = layout.limits.batched_tokens;
    plan.num_kv_blocks = layout.num_blocks;
    plan.kv_dtype = layout.kv.dtype;
    return engine::shape_of_schedule(launch.spec, options, plan, std::ssize(launch.stages),
                                     footprint);
  } catch (const Error& error) {
    if (error.code() == ExitCode::does_not_fit || error.code() == ExitCode::usage)
      return std::nullopt;
    throw;
  }
}

bool asks_for_answers(const batch::PrefixIndex& index) {
  for (size_t line = 0; line < index.lines(); ++line) {
    if (!index.sequences(line).empty()) return true;
  }
  return false;
}

/// The value of process 0, which the others pass as 0 too.
int64_t of_first(engine::Processes* processes, int64_t value) {
  if (processes == nullptr) return value;
  const bool is_first = processes->process() == 0;
  return static_cast<int64_t>(processes->least(is_first ? static_cast<uint64_t>(value)
                                                        : std::numeric_limits<uint64_t>::max()));
}

}  // namespace

StepRates step_rates(const Environment& environment, const std::string& subject) {
  const KeptRates kept = kept_rates(rates_file(environment), subject);
  if (!kept.fault.empty())
    return {std::nullopt, fmt::format("; {}: plimsoll doctor measures anew", kept.fault)};
  if (!kept.rates)
    return {std::nullopt, "; by usual rates: plimsoll doctor measures this machine's"};
  return {kept.rates->weight_rows(),
          fmt::format("; by the rates that doctor measured on {}", kept.rates->day)};
}

bool limits_are_open(const launch::LaunchRequest& flags) {
  return flags.solve_sequences || flags.solve_tokens;
}

std::string reason_of(const launch::LaunchRequest& flags, const batch::InputLengths& lengths,
                      const StepRates& rates, const std::optional<batch::ChosenLimits>& chosen) {
  if (chosen) return chosen->reason + rates.said;
  std::string_view why = lengths.not_looked;
  if (lengths.index) {
    why = asks_for_answers(*lengths.index) ? "no limits that were tried fit"
                                           : "no line asks for an answer";
  }
  const char* what =
      flags.solve_sequences ? "as many as fit with their whole context" : "the default";
  return fmt::format("{}, because {}", what, why);
}

batch::AskedLimits asked_limits(const launch::LaunchRequest& flags, const StepRates& rates) {
  return {flags.solve_sequences,
          flags.solve_tokens,
          {flags.args.max_num_seqs, flags.args.max_num_batched_tokens},
          rates.weight_rows};
}

batch::InputLengths survey_lengths(const launch::LaunchRequest& flags, files::InputFile& input,
                                   batch::SurveyOptions survey) {
  batch::InputLengths lengths;
  lengths.not_looked = not_looked(flags, input);
  if (!lengths.not_looked.empty()) return lengths;
  // The slice may begin behind what is looked at.
  if (input.is_packed() || input.size() > kMostBytes) survey.slice.first = 0;
  survey.most_bytes = kMostBytes;
  survey.keeps_sequences = false;
  survey.image_fault = nullptr;       // it hangs on the limits
  survey.prompts.grammars = nullptr;  // they have no part in lengths
  batch::PrefixIndex& index = lengths.index.emplace(survey.block_size);
  survey.each = [&](const batch::SurveyedLine& line) { index.add_line(line.request); };
  lengths.shared_tokens = static_cast<uint64_t>(batch::survey_prompts(input, survey).shared_tokens);
  input.rewind();
  return lengths;
}

std::string limits_text(const launch::LaunchRequest& flags, const batch::StepLimits& limits,
                        const std::string& reason) {
  std::string text;
  if (flags.solve_sequences) text = fmt::format("--max-num-seqs auto: {}", limits.sequences);
  if (flags.solve_tokens) {
    text +=
        fmt::format("{}--max-num-batched-tokens auto: {}", text.empty() ? "" : ", ", limits.tokens);
  }
  return fmt::format("{} ({})", text, reason);
}

std::string settle_limits(const launch::LaunchRequest& flags, const StepRates& rates,
                          const std::function<batch::InputLengths(int64_t context)>& lengths_of,
                          const backend::Footprint& footprint, engine::Processes* processes,
                          launch::ResolvedLaunch& launch) {
  std::string reason;
  std::optional<batch::ChosenLimits> chosen;
  if (processes == nullptr || processes->process() == 0) {
    engine::EngineOptions smallest = launch.engine;
    const batch::AskedLimits asked = asked_limits(flags, rates);
    const batch::StepLimits least = batch::smallest_limits(asked);
    smallest.max_num_seqs = least.sequences;
    smallest.max_num_batched_tokens = least.tokens;
    const int64_t context =
        engine::resolve_stages(launch.spec, launch.stage_views(), smallest, footprint)
            .front()
            .max_model_len;
    const batch::InputLengths lengths = lengths_of(context);
    const auto launch_of = [&](const batch::StepLimits& limits) {
      return schedule_of(launch, limits, footprint);
    };
    if (lengths.index) {
      chosen = batch::choose_limits(*lengths.index, lengths.shared_tokens, asked, launch_of);
    }
    reason = reason_of(flags, lengths, rates, chosen);
  }
  const batch::StepLimits limits = chosen ? chosen->limits : batch::StepLimits{};
  const int64_t sequences = of_first(processes, limits.sequences);
  const int64_t tokens = of_first(processes, limits.tokens);
  if (flags.solve_tokens) launch.engine.max_num_batched_tokens = tokens;
  if (flags.solve_sequences) {
    launch.engine.max_num_seqs =
        sequences > 0 ? sequences : launch::most_sequences(launch, footprint);
  }
  return reason;
}

}  // namespace plimsoll::cli
