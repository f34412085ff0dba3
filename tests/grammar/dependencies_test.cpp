// What a property asks of the object that has it, in the words of each draft.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "reference/recognizer.h"

using namespace plimsoll;

namespace {

struct DependencyRow {
  std::string draft, keywords;
  std::vector<const char*> taken, refused;
};

const std::vector<DependencyRow> kDependencyRows = {
    {"2020-12",
     R"("dependentRequired":{"a":["b","c"]})",
     {"{}", R"({"b":1})", R"({"a":1,"b":1,"c":1})"},
     {R"({"a":1})", R"({"a":1,"b":1})"}},
    {"2020-12",
     R"("dependentSchemas":{"a":{"required":["b"]}})",
     {"{}", R"({"b":1})", R"({"a":1,"b":2})"},
     {R"({"a":1})", R"({"a":1,"c":1})"}},
    {"2020-12",
     R"("dependentSchemas":{"a":{"properties":{"b":{"type":"string"}}}})",
     {R"({"b":1})", R"({"a":1})", R"({"a":1,"b":"x"})"},
     {R"({"a":1,"b":1})"}},
    {"2020-12",
     R"("dependentSchemas":{"a":true,"b":false})",
     {"{}", R"({"a":1})", R"({"c":1})"},
     {R"({"b":1})", R"({"a":1,"b":1})"}},
    {"2020-12",
     R"("dependentRequired":{"a":["b"]},"dependentSchemas":{"b":{"required":["c"]}})",
     {"{}", R"({"c":1})", R"({"a":1,"b":1,"c":1})", R"({"b":1,"c":1})"},
     {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"}},
    {"2019-09",
     R"("dependentSchemas":{"a":{"maxProperties":1}})",
     {"{}", R"({"a":1})", R"({"b":1,"c":1})"},
     {R"({"a":1,"b":1})"}},
    {"7",
     R"("dependencies":{"a":["b"],"b":{"required":["c"]},"c":true})",
     {"{}", R"({"c":1})", R"({"a":1,"b":1,"c":1})"},
     {R"({"a":1})", R"({"a":1,"c":1})", R"({"b":1})", R"({"a":1,"b":1})"}},
    {"4",
     R"("dependencies":{"a":["b","c"],"b":{"maxProperties":2}})",
     {"{}", R"({"b":1})", R"({"b":1,"c":1})"},
     {R"({"a":1})", R"({"a":1,"b":1})", R"({"a":1,"b":1,"c":1})"}},
    {"3",
     R"("dependencies":{"b":["c"]})",
     {"{}", R"({"a":1})", R"({"b":1,"c":1})"},
     {R"({"b":1})", R"({"a":1,"b":1})"}},
    {"3",
     R"("dependencies":{"a":"b","b":{"properties":{"c":{"required":true}}}})",
     {"{}", R"({"c":1})", R"({"a":1,"b":1,"c":1})", R"({"b":1,"c":1})"},
     {R"({"a":1})", R"({"a":1,"c":1})", R"({"b":1})", R"({"a":1,"b":1})"}},
};

std::string schema_of(const DependencyRow& row) {
  const bool numbered = row.draft.size() == 1;
  const std::string draft = numbered ? "http://json-schema.org/draft-0" + row.draft + "/schema#"
                                     : "https://json-schema.org/draft/" + row.draft + "/schema";
  return R"({"$schema":")" + draft + R"(","type":"object","properties":{"a":{},"b":{},"c":{}},)" +
         row.keywords + "}";
}

}  // namespace

TEST_CASE("objects have what their properties depend on, while they are written and as a whole") {
  for (const DependencyRow& row : kDependencyRows) {
    INFO(schema_of(row));
    const grammar::JsonSchema schema(schema_of(row));
    const testing::Recognizer recognizer(schema.ebnf({}));
    for (const bool taken : {true, false}) {
      for (const char* text : taken ? row.taken : row.refused) {
        INFO(text);
        CHECK(recognizer.accepts(text) == taken);
        CHECK(schema.refuse(text).empty() == taken);
      }
    }
  }
}
