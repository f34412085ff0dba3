// --max-num-seqs auto and --max-num-batched-tokens auto: limits of a step by the lengths of the
// input's lines.
#pragma once

#include <optional>
#include <string>

#include "batch/order/step_limits.h"
#include "batch/prompt_survey.h"
#include "cli/environment.h"
#include "engine/ranks/processes.h"
#include "files/input_file.h"
#include "launch/request.h"
#include "launch/resolve.h"

namespace plimsoll::cli {

/// How many tokens a step's fixed cost is worth where limits are chosen.
struct StepRates {
  std::optional<double> weight_rows;  // as measured; absent: by the ratio that is usual
  std::string said;                   // what the reason ends with
};

/// By the rates that `doctor` kept of the subject on this machine.
StepRates step_rates(const Environment& environment, const std::string& subject);

/// Why the open limits are what they are: by lengths (`chosen`), or else what they are, and why
/// not.
std::string reason_of(const launch::LaunchRequest& flags, const batch::InputLengths& lengths,
                      const StepRates& rates, const std::optional<batch::ChosenLimits>& chosen);

/// True where the flags leave a limit of a step open.
bool limits_are_open(const launch::LaunchRequest& flags);

/// The limits that the flags ask for, to be chosen by these rates.
batch::AskedLimits asked_limits(const launch::LaunchRequest& flags, const StepRates& rates);

/// Reads the beginning of the input, at most 16 MiB, and tokenizes its prompts as `survey` says,
/// whose slice is the run's; then rewinds the input. A large input's first lines stand for those of
/// the slice. Not looked at: an input that can be read once, and any with --max-model-len auto,
/// where limits would change the context and with it answers. Throws Error(input_unusable).
batch::InputLengths survey_lengths(const launch::LaunchRequest& flags, files::InputFile& input,
                                   batch::SurveyOptions survey);

/// What the open limits became, with the reason: "--max-num-seqs auto: 64 (...)".
std::string limits_text(const launch::LaunchRequest& flags, const batch::StepLimits& limits,
                        const std::string& reason);

/// Sets the limits that are open, of a launch whose memory is known; the other processes of the
/// launch (null: there are none) follow process 0, which alone calls `lengths_of`, with the context
/// of the launch. Limits without lengths: the most sequences of the whole context that fit, and the
/// default of tokens. Returns the reason. Throws Error(does_not_fit, input_unusable).
std::string settle_limits(const launch::LaunchRequest& flags, const StepRates& rates,
                          const std::function<batch::InputLengths(int64_t context)>& lengths_of,
                          const backend::Footprint& footprint, engine::Processes* processes,
                          launch::ResolvedLaunch& launch);

}  // namespace plimsoll::cli
