// From the keywords of a schema to sets of values.
#pragma once

#include <string>

#include "grammar/document.h"
#include "grammar/shapes.h"

namespace plimsoll::grammar {

/// Makes the expressions of a schema's parts when they are asked for. Throws Error(input_unusable)
/// where a keyword is malformed or cannot be enforced.
class Lowering {
 public:
  Lowering(const Schema& schema, const SchemaOptions& options)
      : schema_(schema),
        options_(options),
        sets_([this](const OrderedJson& part) { return lower(part); }) {}

  Sets& sets() { return sets_; }
  SetId root() { return sets_.schema(schema_.root); }

 private:
  SetId lower(const OrderedJson& part);
  const OrderedJson* find(const char* keyword);
  uint64_t count(const OrderedJson& value);
  [[noreturn]] void wrong(std::string_view why) const;

  Values scalars(const OrderedJson& part);
  void restrict_type(Values& own);
  void restrict_numbers(Values& own);
  void restrict_strings(Values& own);
  void restrict_arrays(Values& own);
  void restrict_objects(Values& own);
  void add_patterns(ObjectShape& shape);
  void add_property_names(ObjectShape& shape);
  void add_references(std::vector<SetId>& parts);
  void add_combinations(std::vector<SetId>& parts);
  void add_conditions(std::vector<SetId>& parts);
  void add_dependencies(std::vector<SetId>& parts);
  void add_unevaluated(std::vector<SetId>& parts);
  /// Adds what `part` says of properties and patterns; false where that depends on the value.
  bool gather(const OrderedJson& part, ObjectShape& known, int depth);
  SetId constant(const OrderedJson& value);
  SetId listed(const OrderedJson& values);
  SetId missing(const std::string& name);
  SetId has_all(const std::vector<std::string>& names);
  std::vector<SetId> schemas(const OrderedJson& list);
  std::vector<std::string> names(const OrderedJson& list);
  Decimal number(const OrderedJson& value);

  const Schema& schema_;
  const SchemaOptions& options_;
  Sets sets_;
  const OrderedJson* last_ = nullptr;  // the part at work
  std::string keyword_ = "schema";     // the keyword at work
};

}  // namespace plimsoll::grammar
