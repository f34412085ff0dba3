// The table of filters.
#include "text/jinja/filters/filters.h"

#include <unordered_map>

#include "text/jinja/filters/filter_table.h"

namespace plimsoll::text::jinja {

const Filter* find_filter(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, Filter> all;
    for (const auto filters : {text_filters(), value_filters(), sequence_filters(), order_filters(),
                               mapping_filters()}) {
      for (const NamedFilter& row : filters) all.emplace(row.name, Filter{row.apply});
    }
    return all;
  }();
  const auto at = table.find(name);
  return at == table.end() ? nullptr : &at->second;
}

}  // namespace plimsoll::text::jinja
