// The filters by subject; filters.cpp puts them into one table.
#pragma once

#include <span>

#include "text/jinja/filters/filters.h"

namespace plimsoll::text::jinja {

struct NamedFilter {
  std::string_view name;
  Value (*apply)(Runtime& runtime, const Value& subject, const Args& args);
};

std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> value_filters();  // numbers and defaults
std::span<const NamedFilter> sequence_filters();
std::span<const NamedFilter> order_filters();    // sorting, grouping, extremes
std::span<const NamedFilter> mapping_filters();  // by way of other filters and tests

/// The text of a string, or str() of anything else (jinja2's soft_str: Markup stays Markup).
Value soft_string(Runtime& runtime, const Value& value);
/// The key that sorting by attribute compares: lower case for strings unless case matters.
Value fold_key(Runtime& runtime, const Value& value, bool case_sensitive);

}  // namespace plimsoll::text::jinja
