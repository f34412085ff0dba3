// Lines that have several records in a journal: which of them counts when the run goes on.
#include <catch2/catch.hpp>

#include "batch/run_life.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using test::Scratch;

namespace {

std::string answer(const std::string& text) {
  return "{\"id\":\"a\",\"choices\":[\"" + text + "\"],\"error\":null}\n";
}

std::string failure(const std::string& code) {
  return "{\"id\":\"a\",\"choices\":[],\"usage\":null,\"error\":{\"code\":\"" + code +
         "\",\"message\":\"m\",\"line\":1}}\n";
}

bool is_failure(const std::string& record) {
  return record.find("\"error\":null") == std::string::npos;
}

RunFilesOptions options_of(const Scratch& scratch, bool apart, Failed failed) {
  RunFilesOptions options;
  options.output = scratch.path("out");
  if (apart) options.errors = scratch.path("bad");
  options.job = {{"seed", 1}};
  options.notes = {{"errors", options.errors}};
  options.resume = {.max_line_bytes = 1 << 20, .slice = {}, .failed = failed};
  return options;
}

/// A life that gives the first of the two lines this record, and stops.
void live_once(const Scratch& scratch, bool apart, const std::string& record) {
  files::InputFile input = files::InputFile::open(scratch.path("in"));
  RunFiles files(options_of(scratch, apart, Failed::retry), &input);
  const bool failed = is_failure(record);
  files.output().put(0, failed && apart ? "" : record);
  if (apart) files.errors()->put(0, failed ? record : "");
  files.keep();
}

}  // namespace

TEST_CASE("of several failures of a line the last counts, and an answer before any of them") {
  struct Row {
    std::vector<std::string> records;
    size_t counts;
  };
  for (const Row& row : {Row{{failure("one")}, 0}, Row{{failure("one"), failure("two")}, 1},
                         Row{{failure("one"), failure("two"), failure("one")}, 2},
                         Row{{failure("one"), answer("x")}, 1},
                         Row{{failure("one"), failure("two"), answer("x")}, 2}}) {
    for (const bool apart : {false, true}) {
      const Scratch scratch;
      scratch.write("in", "{\"id\":\"a\",\"prompt\":\"x\"}\n{\"id\":\"b\",\"prompt\":\"x\"}\n");
      for (const std::string& record : row.records) live_once(scratch, apart, record);
      INFO(row.records.size() << " records, failures apart: " << apart);
      const std::string& last = row.records[row.counts];
      const bool failed = is_failure(last);
      files::InputFile input = files::InputFile::open(scratch.path("in"));
      RunFiles files(options_of(scratch, apart, Failed::keep), &input);
      CHECK(files.done().ok == (failed ? 0 : 1));
      CHECK(files.done().failed == (failed ? 1 : 0));
      if (failed) {
        const std::string code = last.find("two") == std::string::npos ? "one" : "two";
        CHECK(files.done().failed_by_code == std::map<std::string, uint64_t>{{code, 1}});
      }
      files.publish(failed ? 0 : 1, failed ? 1 : 0, 1);
      CHECK(scratch.read("out") == (failed && apart ? "" : last));
      if (apart) CHECK(scratch.read("bad") == (failed ? last : ""));
    }
  }
}
