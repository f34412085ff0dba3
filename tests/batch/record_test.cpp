// Records read back: those that a run wrote are not looked into, and are read as all others.
#include "batch/files/record.h"

#include <catch2/catch.hpp>

using namespace plimsoll;
using namespace plimsoll::batch;

namespace {

std::string shown(const std::optional<Record>& record) {
  if (!record) return "none";
  return record->id.value_or("-") + " " + std::to_string(record->line.value_or(0)) +
         (record->failed ? " failed " : " ") + record->code;
}

}  // namespace

TEST_CASE("a run's own record is read as a whole one, and is none where it is cut") {
  struct Row {
    std::string text, shown;
  };
  for (
      const Row& row : {
          Row{R"({"id":"a","choices":[{"index":0,"text":"x \"]}, \\","logprobs":{"a":[1,{}]}}],)"
              R"("usage":{"id":7},"error":null})",
              "a 0 "},
          Row{R"({"id":"\u00e4\"\\","choices":[],"usage":null,"error":null})", "ä\"\\ 0 "},
          Row{R"({"id":"17","token_ids":[1,2,3]})", "17 0 "},
          Row{R"({"id":"17","token_ids":[[1],[]]})", "17 0 "},
          Row{R"({"id":"a","token_ids":null,"error":{"code":"bad_field","message":"}","line":3}})",
              "a 3 failed bad_field"},
          Row{R"({"id":null,"choices":[],"usage":null,"error":{"code":"c","message":"","line":9}})",
              "- 9 failed c"},
          Row{R"({"id":"r","custom_id":"a","response":{"status_code":200,"request_id":"q",)"
              R"("body":{"id":"x","status_code":7,"choices":[{"text":"{"}]}},"error":null})",
              "a 0 "},
          Row{R"({"id":"r","custom_id":"a","response":{"status_code":400,"request_id":"q",)"
              R"("body":{"error":{"message":"m"}}},"error":null})",
              "a 0 failed invalid_request"},
          Row{R"({"id":"r","custom_id":null,"response":null,"error":{"code":"c","line":1}})",
              "- 1 failed c"},
          Row{R"({"custom_id":"a","response":{"status_code":200,"response":{"response":7}}})",
              "a 0 "},
          Row{R"({"id":"a","choices":[]})", "a 0 "},
          Row{R"({"id":"a"})", "none"},
          Row{R"({"id":7,"choices":[]})", "none"},
          Row{R"({"custom_id":"a","response":{"body":{"status_code":200}},"error":null})", "none"},
          Row{R"({"id":"a","choices":[]}})", "none"},
          Row{R"([{"id":"a","choices":[]}])", "none"},
          Row{"{}", "none"},
      }) {
    INFO(row.text);
    CHECK(shown(read_record(row.text)) == row.shown);
    CHECK(shown(read_own_record(row.text)) == row.shown);
    for (size_t cut = 0; row.shown != "none" && cut < row.text.size(); ++cut) {
      INFO("cut at " << cut);
      CHECK(shown(read_own_record(row.text.substr(0, cut))) == "none");
    }
  }
}
