// Numbers with units on the command line: counts, sizes, durations, parts.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll {

/// A count: "512", "40_960", "32k" (32,000), "32K" (32,768), "1.5m". Powers of 1000: k, m, g, and
/// KB, MB, GB; powers of 1024: K, M, G, T and KiB, MiB, GiB, TiB (vLLM's rule). Throws
/// std::invalid_argument saying what was expected.
int64_t parse_count(const std::string& text);
/// Bounds of a count, both included.
struct CountBounds {
  int64_t least = 1;
  int64_t most = std::numeric_limits<int64_t>::max();
};
int64_t parse_count(const std::string& text, CountBounds bounds);
/// Parses several counts: "1,2,4" or "[1, 2, 4]"; may be none.
std::vector<int64_t> parse_counts(const std::string& text);
/// Parses a size in bytes, with a count's units; a bare number is in units of `bare_unit` bytes.
uint64_t parse_size(const std::string& text, uint64_t bare_unit = 1);
/// Parses a size of at least `least` bytes that a signed number holds.
uint64_t parse_size(const std::string& text, uint64_t bare_unit, uint64_t least);
/// Parses a size of memory, of at least a byte. A bare number is bytes, and at least 64 KiB: less
/// is meant as GiB or MiB.
uint64_t parse_memory(const std::string& text);
/// Parses a number above 0 and at most 1.
double parse_share(const std::string& text);
/// Parses a duration in seconds: "90", "90s", "5m", "3h55m", "1d".
double parse_duration(const std::string& text);

}  // namespace plimsoll
