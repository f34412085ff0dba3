// The part of the input that this process takes, and the names of its files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "cli/environment.h"

namespace plimsoll::cli {

struct RunOptions;

/// Value of --part.
struct WantedPart {
  bool automatic = false;         // the scheduler's variables state the part
  uint64_t index = 0;             // where not automatic
  std::optional<uint64_t> parts;  // automatic: the scheduler's number where absent
};

/// Parses "i/n" with i from 0 and below n, "auto" or "auto/n". Throws std::invalid_argument.
WantedPart parse_part(const std::string& text);

/// Resolves index and number of parts. Throws Error(usage) when the variables do not state them, or
/// state an index outside the parts.
std::pair<uint64_t, uint64_t> resolve_part(const WantedPart& wanted,
                                           const std::optional<JobPlace>& place);

/// Fills a file's name: {part} and {parts} (also {shard} and {nshards}) become numbers, "{part:05}"
/// and "{part:05d}" one with leading zeros. Throws Error(usage) where the name has a field and
/// there is no part.
std::string fill_name(const std::string& name,
                      const std::optional<std::pair<uint64_t, uint64_t>>& part);

/// Resolves the part in `options`, and the names of written files that contain it.
void resolve_part(RunOptions& options, const Environment& environment);

}  // namespace plimsoll::cli
