// The pipeline as a whole, over a tiny model: what goes to which slot, and what is counted.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "batch/pipeline.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using Catch::Contains;

namespace {

/// A line whose answer ends within its reasoning: two tokens, then the one that ends it.
std::string reasoning_line() {
  const Json chat = {{"messages", {{{"role", "user"}, {"content", "a"}}}},
                     {"allowed_token_ids", {97, 98}},
                     {"logit_bias", {{"98", 100}}},
                     {"min_tokens", 2},
                     {"max_tokens", 9},
                     {"stop_token_ids", {98}},
                     {"structured_outputs", {{"regex", "c+"}}}};
  return chat.dump() + "\n";
}

std::string code_of(const Json& line) {
  return line["error"].is_null() ? "" : line["error"]["code"].get<std::string>();
}

}  // namespace

TEST_CASE("an answer that ends before its form begins fails its line alone") {
  Pipeline pipeline;
  pipeline.options.output.formats.reasoning = text::find_reasoning_format("deepseek_r1");
  const Json lines = pipeline.run(reasoning_line() + line_of(2));
  REQUIRE(lines.size() == 2);
  INFO(lines[0].dump());
  CHECK(code_of(lines[0]) == "invalid_answer");
  CHECK(code_of(lines[1]).empty());
  CHECK(pipeline.counts.failed == 1);
  CHECK(pipeline.counts.ok == 1);
}

TEST_CASE("every line has its slot, and is counted as answered or failed") {
  Pipeline pipeline;
  const Json lines = pipeline.run(line_of(2, R"(,"id":"a")") + "{broken\n" + line_of(3) + "\n" +
                                  line_of(1, R"(,"id":"a")") + line_of(1, R"(,"top_p":9)"));
  REQUIRE(lines.size() == 5);
  CHECK(code_of(lines[0]) == "");
  CHECK(lines[0]["id"] == "a");
  CHECK(code_of(lines[1]) == "bad_json");
  CHECK(code_of(lines[2]) == "");
  CHECK(lines[2]["usage"]["completion_tokens"] == 3);
  CHECK(code_of(lines[3]) == "duplicate_id");
  CHECK_THAT(lines[3]["error"]["message"].get<std::string>(), Contains("that of line 1 too"));
  CHECK(!code_of(lines[4]).empty());
  const RunCounts& counts = pipeline.counts;
  CHECK(counts.lines == 5);
  CHECK(counts.ok == 2);
  CHECK(counts.failed == 3);
  CHECK(counts.failed_by_code.at("bad_json") == 1);
  CHECK(counts.failed_by_code.at("duplicate_id") == 1);
  CHECK(counts.prompt_tokens == 6);
  CHECK(counts.completion_tokens == 5);
  CHECK(counts.ending == Ending::complete);
  CHECK(counts.abandoned == 0);
}

TEST_CASE("failures have an output of their own, and each slot its place in both") {
  Pipeline pipeline;
  pipeline.errors_apart = true;
  pipeline.run(line_of(1) + "{broken\n");
  CHECK(!pipeline.output.lines.at(0).empty());
  CHECK(pipeline.output.lines.at(1).empty());
  CHECK(pipeline.errors.lines.at(0).empty());
  CHECK_THAT(pipeline.errors.lines.at(1), Contains("bad_json"));
}

TEST_CASE("lines of earlier lives are passed over, and their ids stay taken") {
  Pipeline pipeline;
  DoneLines done;
  done.slots = {DoneLines::State::ok, DoneLines::State::open, DoneLines::State::failed};
  done.ok = done.failed = 1;
  done.failed_by_code["bad_json"] = 1;
  pipeline.options.done = &done;
  const Json lines = pipeline.run(line_of(1, R"(,"id":"a")") + line_of(1, R"(,"id":"a")") +
                                  "{broken\n" + line_of(2));
  CHECK(lines[0].is_null());
  CHECK(code_of(lines[1]) == "duplicate_id");
  CHECK(lines[2].is_null());
  CHECK(lines[3]["usage"]["completion_tokens"] == 2);
  CHECK(pipeline.counts.lines == 4);
  CHECK(pipeline.counts.resumed == 2);
  CHECK(pipeline.counts.ok == 2);
  CHECK(pipeline.counts.failed == 2);
  CHECK(pipeline.counts.failed_by_code.at("bad_json") == 1);
}

TEST_CASE("lines that were read on going on are not read again, and their ids stay taken") {
  Pipeline pipeline;
  IdRegister ids;
  LineHead head;
  head.number = 1;
  head.id = "a";
  (void)ids.take(head);
  DoneLines done;
  done.slots = {DoneLines::State::ok};
  done.batch = {true, false, true, true};
  done.ok = 1;
  pipeline.options.done = &done;
  pipeline.options.ids = &ids;
  const Json lines =
      pipeline.run("{whatever it is\n" + line_of(1, R"(,"id":"a")") + "{broken\n" + line_of(2));
  CHECK(lines[0].is_null());
  CHECK(code_of(lines[1]) == "duplicate_id");
  CHECK(code_of(lines[2]) == "bad_json");
  CHECK(lines[3]["usage"]["completion_tokens"] == 2);
  // The envelope of a broken line is that of the lines before it.
  done.slots.push_back(DoneLines::State::ok);
  done.batch[1] = true;
  pipeline.output.lines.clear();
  CHECK(pipeline.run("{x\n{x\n{broken\n")[2].contains("custom_id"));
}

TEST_CASE("a slice is answered alone, and duplicates before it count") {
  Pipeline pipeline;
  pipeline.options.slice = {1, 2};
  const Json lines = pipeline.run(line_of(1, R"(,"id":"a")") + line_of(2) +
                                  line_of(3, R"(,"id":"a")") + line_of(4));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["usage"]["completion_tokens"] == 2);
  CHECK(code_of(lines[1]) == "duplicate_id");
  CHECK(pipeline.counts.lines == 2);
  Pipeline none;
  none.options.slice = {1, 0};
  CHECK(none.run(line_of(1) + line_of(1)).empty());
}

TEST_CASE("lines that ask for a form are counted, and those whose form is refused") {
  Pipeline pipeline;
  const std::string form = R"(,"guided_json":{"type":"boolean"})";
  std::string long_line = R"({"prompt":[1)";
  for (int i = 0; i < 80; ++i) long_line += ",1";
  long_line += "]" + form + "}\n";
  const Json lines = pipeline.run(line_of(1, form) + line_of(1, R"(,"guided_json":{"type":"no"})") +
                                  long_line + line_of(1));
  CHECK(code_of(lines[0]) == "");
  CHECK(!code_of(lines[1]).empty());
  CHECK(!code_of(lines[2]).empty());  // longer than the context: its form is good
  CHECK(pipeline.counts.structured.lines == 3);
  CHECK(pipeline.counts.structured.refused == 1);
  CHECK(pipeline.counts.structured.answers == 1);
}

TEST_CASE("prompts of one line draw random numbers of their own, the same in every run") {
  const std::string line = R"({"id":"x","prompt":[[1,2],[1,2]],"ignore_eos":true,"temperature":1,)"
                           R"("max_tokens":24,"return_token_ids":true})"
                           "\n";
  Pipeline first, second;
  const Json choices = first.run(line)[0]["choices"];
  REQUIRE(choices.size() == 2);
  CHECK(choices[0]["token_ids"] != choices[1]["token_ids"]);
  CHECK(second.run(line_of(1) + line)[1]["choices"] == choices);
}

TEST_CASE("a sample says what runs, what waits and how far the run is") {
  Pipeline pipeline;
  pipeline.options.total_lines = 4;
  std::vector<ProgressSample> samples;
  pipeline.on_answer = [&](const Runner& runner, uint64_t) { samples.push_back(runner.sample()); };
  pipeline.run("{broken\n" + line_of(1) + line_of(6) + line_of(6));
  REQUIRE(samples.size() == 4);
  CHECK(pipeline.output.order.front() == 0);
  CHECK(samples[0].running + samples[0].waiting == 0);
  const ProgressSample& first = samples[1];  // of the line with one token
  CHECK(first.total == 4u);
  CHECK(first.done == 1);
  CHECK(first.failed == 1);
  CHECK(first.running == 2);
  CHECK(first.waiting == 0);
  CHECK(first.tokens_in == 9);
  CHECK(first.kv_use == Approx(2.0 / 64).margin(1.0 / 64));
  CHECK(first.before == 0);
  CHECK(*first.fraction > 1.0 / 4);
  CHECK(*first.fraction < 3.0 / 4);
  CHECK(samples[3].done == 3);
}

TEST_CASE("a line that may have killed the process runs alone, and fails after two deaths") {
  for (const int deaths : {1, 2}) {
    INFO(deaths);
    Pipeline pipeline;
    const std::string notes = pipeline.scratch.path("out");
    for (int death = 0; death < deaths; ++death) {
      InFlight before(notes);
      before.begin(2);
      before.mark_crash();
    }
    InFlight noted(notes);
    REQUIRE(noted.deaths(2) == deaths);
    pipeline.options.in_flight = &noted;
    const Json lines = pipeline.run(line_of(6) + line_of(4) + line_of(1));
    CHECK(pipeline.output.order == std::vector<uint64_t>{0, 1, 2});
    CHECK(code_of(lines[1]) == (deaths == 2 ? "crashed" : ""));
    CHECK(code_of(lines[2]) == "");
  }
}

TEST_CASE("a run that is told to stop finishes what runs and reads no more") {
  Pipeline pipeline;
  pipeline.sequences = 1;
  pipeline.on_answer = [&](const Runner&, uint64_t slot) { pipeline.stop = slot == 0; };
  std::string input;
  for (int i = 0; i < 20; ++i) input += line_of(2);
  pipeline.run(input);
  CHECK(pipeline.counts.ending == Ending::stopped);
  CHECK(pipeline.counts.ok >= 1);
  CHECK(pipeline.counts.lines < 20);
  CHECK(pipeline.counts.ok + pipeline.counts.abandoned == pipeline.counts.lines);
}

TEST_CASE("what a line asks in vain is told once") {
  Pipeline pipeline;
  pipeline.options.unknown_fields = UnknownFields::warn;
  pipeline.run(line_of(1, R"(,"colour":1,"model":"tiny")") +
               line_of(1, R"(,"colour":1,"model":"other")") + line_of(1, R"(,"model":"third")"));
  CHECK(pipeline.counts.unknown_fields.at("colour") == 2);
  CHECK_THAT(pipeline.notes, Contains("line 1: colour") && !Contains("line 2: colour"));
  CHECK_THAT(pipeline.notes, Contains("line 2 asks for model \"other\"; tiny answers it") &&
                                 !Contains("third") && !Contains("line 1 asks"));
}

TEST_CASE("lines in hand are named, up to twenty") {
  Pipeline pipeline;
  pipeline.sequences = 30;
  std::string named;
  pipeline.on_answer = [&](const Runner& runner, uint64_t slot) {
    if (slot == 0) named = runner.running();
  };
  std::string input = line_of(1);
  for (int i = 0; i < 21; ++i) input += line_of(3);
  pipeline.run(input);
  CHECK_THAT(named, Catch::StartsWith("2, 3, 4, ") && Catch::EndsWith(", 21 and others"));
}

TEST_CASE("tokens that are cut from prompts are counted, of every line") {
  Pipeline pipeline;
  pipeline.run(line_of(1, R"(,"truncate_prompt_tokens":2)") + line_of(1) +
               line_of(1, R"(,"truncate_prompt_tokens":1)"));
  CHECK(pipeline.counts.dropped_tokens == 1 + 2);
  CHECK(pipeline.counts.prompt_tokens == 2 + 3 + 1);
}

TEST_CASE("a line that has its record is not in hand any more, answered or failed") {
  Pipeline pipeline;
  pipeline.options.output.formats.reasoning = text::find_reasoning_format("deepseek_r1");
  const std::string notes = pipeline.scratch.path("out");
  {
    InFlight noted(notes);
    pipeline.options.in_flight = &noted;
    const Json lines = pipeline.run(line_of(2) + reasoning_line() + "{broken\n");
    CHECK(code_of(lines[1]) == "invalid_answer");
    CHECK(pipeline.counts.failed == 2);
    noted.begin(9);
    noted.mark_crash();
  }
  const InFlight after(notes);
  for (const uint64_t line : {1, 2, 3}) CHECK(after.deaths(line) == 0);
  CHECK(after.deaths(9) == 1);
}

TEST_CASE("a sample's share is of lines, or of bytes where they are not counted") {
  DoneLines done;
  done.slots = {DoneLines::State::ok, DoneLines::State::failed, DoneLines::State::failed};
  done.ok = 1;
  done.failed = 2;
  std::vector<ProgressSample> samples;
  const auto note = [&](const Runner& runner, uint64_t) { samples.push_back(runner.sample()); };
  Pipeline counted;
  counted.options.done = &done;
  counted.options.total_lines = 5;
  counted.on_answer = note;
  counted.run("{x\n{x\n{x\n" + line_of(1) + line_of(1));
  CHECK(samples.back().before == Approx(3.0 / 5));
  CHECK(samples.back().done == 4);  // the last line is counted behind its record
  samples.clear();
  Pipeline uncounted;
  uncounted.sequences = 1;
  uncounted.on_answer = note;
  std::string input;
  for (int i = 0; i < 20; ++i) input += std::string(size_t{32} << 10, ' ') + line_of(1);
  uncounted.run(input);
  REQUIRE(samples.size() == 20);
  CHECK(*samples.front().fraction > 0);
  CHECK(*samples.front().fraction < 0.5);
  CHECK(*samples.back().fraction == 1);
  CHECK(std::ranges::is_sorted(samples, {}, [](const auto& sample) { return *sample.fraction; }));
  CHECK(samples.back().before == 0);
}

TEST_CASE("each unknown field is told, with the line that has it first") {
  Pipeline pipeline;
  pipeline.run(line_of(1, R"(,"colour":1)") + line_of(1, R"(,"shape":1,"colour":1)"));
  CHECK(pipeline.counts.unknown_fields ==
        std::map<std::string, uint64_t>{{"colour", 2}, {"shape", 1}});
  CHECK_THAT(pipeline.notes, Contains("line 1: colour: ") && Contains("line 2: shape: "));
}

TEST_CASE("lines of earlier lives have their empty place in both outputs") {
  DoneLines done;
  done.slots = {DoneLines::State::ok, DoneLines::State::failed};
  done.ok = done.failed = 1;
  Pipeline pipeline;
  pipeline.options.done = &done;
  pipeline.errors_apart = true;
  pipeline.run(line_of(1) + "{broken\n" + line_of(1) + "{broken\n");
  for (const Slots* slots : {&pipeline.output, &pipeline.errors}) {
    REQUIRE(slots->lines.size() == 4);  // a stream waits for each of them
    for (const uint64_t slot : {0, 1}) CHECK(slots->lines.at(slot).empty());
  }
  CHECK(pipeline.output.lines.at(3).empty());
  CHECK(pipeline.errors.lines.at(2).empty());
}
