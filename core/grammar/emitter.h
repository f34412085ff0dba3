// From sets of JSON values to the rules of a grammar.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "grammar/lowering.h"
#include "grammar/rules.h"

namespace plimsoll::grammar {

class Emitter {
 public:
  Emitter(Sets& sets, const SchemaOptions& options);

  /// The grammar of a set. Throws TooLarge, and Error(input_unusable) naming `uniqueItems` where
  /// that cannot be enforced.
  std::string grammar_of(SetId root);
  /// The set that is being written.
  [[nodiscard]] SetId at_work() const { return at_work_; }

 private:
  std::string rule_of(SetId id);
  std::string any_value();
  void write_values(SetId id, const std::string& rule);
  std::string numbers(const NumberSet& set);
  std::string text(const StringPart& part);
  std::string array(const ArrayShape& shape);
  std::string plain_array(const ArrayShape& shape);
  std::string counted_array(const ArrayShape& shape);
  std::string unique_array(const ArrayShape& shape);
  std::string object(const ObjectShape& shape);
  std::vector<KeyClass> undeclared(const ObjectShape& shape);
  std::string entries(const std::vector<KeyClass>& others, const KeyClass* wanted);
  static void declare_few(std::vector<KeyClass>& others, ObjectShape& shape);
  std::vector<std::string> ends_of_object(const ObjectShape& shape, uint64_t cap);
  std::string key(const std::string& name);
  std::string member(const Property& property);
  std::string bracketed(char open, const std::string& inside, char close) const;
  [[nodiscard]] std::string repeated(const std::string& what, uint64_t least, uint64_t most) const;

  Sets& sets_;
  const SchemaOptions& options_;
  Rules rules_;
  std::map<SetId, std::string> names_;
  std::deque<SetId> todo_;
  SetId at_work_ = kAny;
  std::string any_;
  std::vector<std::pair<NumberSet, std::string>> numbers_;
  // Between tokens, with whitespace: `space` may be nothing.
  std::string space_, comma_, colon_;
  // Entries of the object at work that are undeclared, or counted by themselves.
  struct Some {
    std::string rule;
    bool needed;  // must be there
  };
  std::string entry_;
  std::vector<Some> some_;
};

}  // namespace plimsoll::grammar
