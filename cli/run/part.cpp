#include "cli/run/part.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <stdexcept>
#include <string_view>

#include "base/error.h"
#include "cli/run/options.h"
#include "cli/terminal.h"

namespace plimsoll::cli {
namespace {

std::optional<uint64_t> whole_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "{part}", "{part:05}" or "{part:05d}" at the beginning of `text`: the number in its place, and
// the bytes that it takes in `text`.
struct Filled {
  std::string number;
  size_t length = 0;
};

std::optional<Filled> field_at(std::string_view text, std::string_view name, uint64_t value) {
  const size_t end = text.find('}');
  if (end == std::string_view::npos || !text.substr(1).starts_with(name)) return std::nullopt;
  std::string_view format = text.substr(1 + name.size(), end - 1 - name.size());
  if (format.starts_with(':') && format.ends_with('d')) format.remove_suffix(1);  // as in Python
  if (format.empty()) return Filled{std::to_string(value), end + 1};
  const auto width = format.starts_with(":0") ? whole_number(format.substr(2)) : std::nullopt;
  if (!width || *width < 1 || *width > 20) return std::nullopt;
  return Filled{fmt::format("{:0{}}", value, *width), end + 1};
}

}  // namespace

WantedPart parse_part(const std::string& text) {
  const size_t slash = text.find('/');
  const std::string_view first = std::string_view(text).substr(0, slash);
  WantedPart wanted;
  wanted.automatic = first == "auto";
  if (slash != std::string::npos) {
    wanted.parts = whole_number(std::string_view(text).substr(slash + 1));
  }
  const std::optional<uint64_t> index = wanted.automatic ? 0 : whole_number(first);
  const bool bare_auto = wanted.automatic && slash == std::string::npos;
  if (!bare_auto && (!index || !wanted.parts || *index >= *wanted.parts)) {
    throw std::invalid_argument(fmt::format(
        "expected i/n with i from 0 to n - 1, such as 0/8, or auto, or auto/n, found \"{}\"",
        text));
  }
  wanted.index = index.value_or(0);
  return wanted;
}

std::pair<uint64_t, uint64_t> resolve_part(const WantedPart& wanted,
                                           const std::optional<JobPlace>& place) {
  if (!wanted.automatic) return {wanted.index, *wanted.parts};
  if (!place) {
    fail(ExitCode::usage,
         "--part auto: none of JOB_COMPLETION_INDEX, SLURM_ARRAY_TASK_ID, SLURM_PROCID, "
         "OMPI_COMM_WORLD_RANK, PMI_RANK, RANK is set; give --part i/n");
  }
  // The scheduler's own number of the task counts where the number of parts is given, so that one
  // task of an array can be started again alone.
  const uint64_t index = wanted.parts ? place->id : place->id - place->first;
  const std::optional<uint64_t> parts = wanted.parts ? wanted.parts : place->count;
  if (!parts) {
    fail(ExitCode::usage,
         "--part auto: {} is {}, but nothing says of how many (ids may have gaps); give --part "
         "auto/n",
         place->variable, place->id);
  }
  if (index >= *parts) {
    fail(ExitCode::usage, "--part auto/{}: {} is {}; parts are numbered from 0 to {}", *parts,
         place->variable, place->id, *parts - 1);
  }
  return {index, *parts};
}

std::string fill_name(const std::string& name,
                      const std::optional<std::pair<uint64_t, uint64_t>>& part) {
  const auto [index, parts] = part.value_or(std::pair<uint64_t, uint64_t>());
  const std::array<std::pair<std::string_view, uint64_t>, 4> fields{
      {{"parts", parts}, {"part", index}, {"nshards", parts}, {"shard", index}}};
  std::string filled;
  for (size_t at = 0; at < name.size();) {
    std::optional<Filled> found;
    for (const auto& [field, value] : fields) {
      if (!found && name[at] == '{')
        found = field_at(std::string_view(name).substr(at), field, value);
    }
    if (found && !part) {
      fail(ExitCode::usage, "{}: is a name for parts; give --part i/n or --part auto", name);
    }
    filled += found ? found->number : std::string(1, name[at]);
    at += found ? found->length : 1;
  }
  return filled;
}

namespace {

// Throws for a field whose format fill_name() does not know: all parts would write the same file.
void refuse_unread_fields(const std::string& name) {
  for (const std::string field : {"part", "parts", "shard", "nshards"}) {
    const size_t at = name.find("{" + field + ":");
    if (at == std::string::npos) continue;
    fail(ExitCode::usage,
         "{}: {} is not understood; write {{{}}}, or {{{}:05}} for a number with leading zeros",
         name, name.substr(at, name.find('}', at) - at + 1), field, field);
  }
}

}  // namespace

void resolve_part(RunOptions& options, const Environment& environment) {
  if (options.wanted_part) {
    options.part = resolve_part(*options.wanted_part, environment.job_place);
    if (options.wanted_part->automatic && !options.quiet) {
      say(fmt::format("part {} of {}, as {} says", options.part->first, options.part->second,
                      environment.job_place->variable));
    }
  }
  for (std::string* name :
       {&options.output, &options.errors, &options.report, &options.metrics_file}) {
    *name = fill_name(*name, options.part);
    if (options.part) refuse_unread_fields(*name);
  }
}

}  // namespace plimsoll::cli
