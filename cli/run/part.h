// Which part of the input is this process's, and the names of its files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "cli/environment.h"

namespace plimsoll::cli {

struct RunOptions;

/// --part as given.
struct WantedPart {
  bool automatic = false;         // the scheduler's variables say which
  uint64_t index = 0;             // else
  std::optional<uint64_t> parts;  // automatic: those of the scheduler
};

/// "i/n" with i from 0 and below n, "auto" or "auto/n". Throws std::invalid_argument.
WantedPart parse_part(const std::string& text);

/// Index and number of parts. Throws Error(usage) when the variables do not say, or say what is not
/// among the parts.
std::pair<uint64_t, uint64_t> settle_part(const WantedPart& wanted,
                                          const std::optional<JobPlace>& place);

/// A file's name with {part} and {parts} (also {shard} and {nshards}) as numbers, "{part:05}" with
/// leading zeros. Throws Error(usage) where it has one and there is no part.
std::string fill_name(const std::string& name,
                      const std::optional<std::pair<uint64_t, uint64_t>>& part);

/// The part, and with it the names of what is written.
void settle_part(RunOptions& options, const Environment& environment);

}  // namespace plimsoll::cli
