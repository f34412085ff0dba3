// A plan in the formats that the command prints.
#pragma once

#include <string>
#include <vector>

#include "plan/plan_result.h"

namespace plimsoll::plan {

/// Version of the JSON's layout; a key may be added under the same version, none is removed.
inline constexpr int kSchemaVersion = 1;

/// vLLM's class name of a KV kind, which the JSON carries: "FullAttentionSpec".
std::string kind_name(KvKind kind);

/// "fits", "may fit" (at the middle of the bounds, not at their worst edge), "does not fit", "does
/// not launch".
std::string verdict_name(const PlanResult& result);

/// One JSON object, with a line feed at the end. Keys that do not apply are left out.
std::string to_json(const PlanResult& result);

/// Text of at most `columns` columns, without colour.
std::string to_text(const PlanResult& result, int columns);

/// One page that needs nothing else: breakdown, heat map, sliders that recompute in the page.
std::string to_html(const PlanResult& result);

/// The engine's arguments that the plan resolved, as one line to paste.
std::string to_args(const PlanResult& result);

/// The lines about memory that the engine will log, and why it ends where it does.
std::string to_log(const PlanResult& result);

/// The formula of one part with its numbers and their sources. Throws Error(usage) listing the
/// parts for an unknown name; a prefix that fits one part alone is enough.
std::string explain_part(const PlanResult& result, const std::string& name);

/// Differences of two plans that were printed as JSON. Throws Error(usage) for a file that is not a
/// plan.
std::string diff_plans(const std::string& before, const std::string& after);

/// "39.98 GiB", "512 MiB", "96 B".
std::string readable_bytes(int64_t bytes);
/// Gain and saving of a change: "longest context 4096 -> 8192; saves 2.00 GiB".
std::string gain_text(const Suggestion& suggestion);

}  // namespace plimsoll::plan
