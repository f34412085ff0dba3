#include "model/vllm/classes.h"

#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/csv.h"

namespace plimsoll::model {
namespace {

std::optional<VllmVersion> version_of(const std::string& field) {
  return field.empty() ? std::nullopt : std::optional(parse_version(field));
}

ClassStages stages_of(std::string_view word) {
  using enum ClassStages;
  constexpr auto kWords =
      std::to_array<std::pair<std::string_view, ClassStages>>({{"", some},
                                                               {"tied_everywhere", tied_everywhere},
                                                               {"untied", untied},
                                                               {"broken", broken},
                                                               {"no_tensors", no_tensors}});
  for (const auto& [name, stages] : kWords) {
    if (name == word) return stages;
  }
  throw std::logic_error("classes.csv: unknown stages");
}

/// Empty: all releases; "none"; "0.14.0": since that one; "-0.27.0": before that one.
Releases releases_of(const std::string& field) {
  if (field.empty()) return {.since = {0, 0, 0}};
  if (field == "none") return {.since = {1, 0, 0}};
  if (field.starts_with('-')) return {.since = {0, 0, 0}, .until = parse_version(field.substr(1))};
  return {.since = parse_version(field)};
}

}  // namespace

bool KnownClass::gone(const VllmVersion& version) const {
  return last && version >= VllmVersion{last->major, last->minor + 1, 0};
}

bool KnownClass::lacks(const Releases& having, const VllmVersion& version) const {
  return version >= first && !gone(version) && !having.hold(version);
}

std::optional<KnownClass> find_class(std::string_view architecture) {
  const std::string_view table = vllm_classes_text();
  const size_t at = table.find("\n" + std::string(architecture) + ",");
  if (architecture.empty() || at == std::string_view::npos) return std::nullopt;
  const std::vector<std::string> fields =
      csv_fields(table.substr(at + 1, table.find('\n', at + 1) - at - 1));
  KnownClass known{.first = parse_version(fields.at(1)),
                   .last = version_of(fields.at(2)),
                   .in_transformers = version_of(fields.at(3)),
                   .stages = stages_of(fields.at(4)),
                   .second_runner = version_of(fields.at(5))};
  if (!fields.at(6).empty()) known.largest_graph = std::stoll(fields.at(6));
  known.all_states = fields.at(7) == "all";
  known.wrapped = version_of(fields.at(8));
  known.pipeline = releases_of(fields.at(9));
  known.adapters = releases_of(fields.at(10));
  if (const std::string& since = fields.at(11); !since.empty()) {
    known.v1_if_asked = parse_version(since.substr(0, since.find('/')));
    known.v1 = parse_version(since.substr(since.find('/') + 1));
  }
  return known;
}

bool lacks_stages(std::string_view architecture, const VllmVersion& version) {
  const auto known = find_class(architecture);
  return known && known->lacks(known->pipeline, version);
}

ClassStages class_stages(std::string_view architecture) {
  const auto known = find_class(architecture);
  return known ? known->stages : ClassStages::some;
}

int64_t largest_graph(std::string_view architecture) {
  return find_class(architecture).value_or(KnownClass{}).largest_graph;
}

bool loads_stages(std::string_view architecture, bool tied) {
  const ClassStages stages = class_stages(architecture);
  if (stages == ClassStages::broken || stages == ClassStages::no_tensors) return false;
  return !tied || (stages != ClassStages::tied_everywhere && stages != ClassStages::untied);
}

}  // namespace plimsoll::model
