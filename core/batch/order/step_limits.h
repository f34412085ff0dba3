// --max-num-seqs auto and --max-num-batched-tokens auto: limits of a step, chosen by the lengths of
// an input's lines and by the KV blocks that a launch with such limits has.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "batch/order/prefix_index.h"
#include "engine/schedule_shape.h"

namespace plimsoll::batch {

/// Limits of a step.
struct StepLimits {
  int64_t sequences = 0;  // running at once; 0: the launch's default
  int64_t tokens = 0;     // computed in one step; 0: the launch's default

  bool operator==(const StepLimits&) const = default;
};

/// Which limits the flags leave open, and the values of the others.
struct AskedLimits {
  bool sequences_open = false;
  bool tokens_open = false;
  StepLimits given;                        // those that are not open; the open ones are 0
  std::optional<double> step_tokens = {};  // as measured, in place of a launch's own
};

/// The smallest limits that are looked at: of a launch that has the most room for the KV cache.
StepLimits smallest_limits(const AskedLimits& asked);

/// The schedule of a launch with these limits; nullopt where it is refused or does not fit.
using LaunchOfLimits = std::function<std::optional<engine::ScheduleShape>(const StepLimits&)>;

/// Time and concurrency of an input under a schedule, estimated in closed form.
struct LimitsEstimate {
  double cost = 0;        // of all steps, in tokens: the time in which so many are computed
  double steps = 0;       // of each replica
  double concurrent = 0;  // sequences that run at once in each replica, on average
};

/// Estimates a run of the index's lines. `shared_tokens`: of their prompts, which come from the
/// prefix cache where the launch has one. A step costs its tokens and the launch's `step_tokens`.
LimitsEstimate estimate_limits(const PrefixIndex& index, uint64_t shared_tokens,
                               const engine::ScheduleShape& launch);

/// The beginning of an input, tokenized for the lengths of its lines.
struct InputLengths {
  std::optional<PrefixIndex> index;  // absent: not looked at
  uint64_t shared_tokens = 0;        // of its prompts, in whole blocks that lines share
  std::string not_looked;            // why not
};

struct ChosenLimits {
  StepLimits limits;   // with the values that the launch made of defaults
  std::string reason;  // a sentence's end, after the names of the limits
};

/// Chooses the smallest limits whose estimated cost is within 2 % of the least of all that fit, so
/// that no memory is taken for limits that save nothing. nullopt where the index has no sequences,
/// or no launch fits.
std::optional<ChosenLimits> choose_limits(const PrefixIndex& index, uint64_t shared_tokens,
                                          const AskedLimits& asked,
                                          const LaunchOfLimits& launch_of);

}  // namespace plimsoll::batch
