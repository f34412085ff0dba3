// What of a model's generation_config.json counts for `plimsoll run`.
#include <catch2/catch.hpp>
#include <string>

#include "cli/program.h"

using namespace plimsoll;
using test::json_lines;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

/// Answers of at most five tokens, each of them 300 or each 301, by a copy of the model.
std::vector<Json> answers(const Scratch& scratch, const std::string& flags) {
  scratch.write("in",
                "{\"prompt\":\"To be\",\"max_tokens\":5,\"allowed_token_ids\":[300]}\n"
                "{\"prompt\":\"To be\",\"max_tokens\":5,\"allowed_token_ids\":[301]}\n");
  const Outcome outcome = shell(scratch, "plimsoll run model -q -i in" + flags);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  std::vector<Json> lines = json_lines(outcome.out);
  REQUIRE(lines.size() == 2);
  return lines;
}

}  // namespace

TEST_CASE("without the model's sampling values its end tokens end answers all the same") {
  const Scratch scratch;
  REQUIRE(shell(scratch, "cp -r $MODEL model").status == 0);
  scratch.write("model/generation_config.json", R"({"eos_token_id":[3,300],"max_new_tokens":2})");
  struct Row {
    const char* flags;
    int64_t most;  // tokens of an answer
  };
  for (const Row& row : {Row{"", 2}, Row{" --generation-config vllm", 5}}) {
    INFO(row.flags);
    const auto lines = answers(scratch, row.flags);
    CHECK(lines[0]["choices"][0]["finish_reason"] == "stop");
    CHECK(lines[0]["usage"]["completion_tokens"] == 1);
    CHECK(lines[1]["choices"][0]["finish_reason"] == "length");
    CHECK(lines[1]["usage"]["completion_tokens"] == row.most);
  }
}

TEST_CASE("a named folder's end tokens and limits take the place of the model's") {
  const Scratch scratch;
  REQUIRE(shell(scratch, "cp -r $MODEL model; mkdir other").status == 0);
  scratch.write("model/generation_config.json", R"({"eos_token_id":[3,301],"max_new_tokens":4})");
  scratch.write("other/generation_config.json", R"({"eos_token_id":[3,300],"max_new_tokens":2})");
  struct Row {
    const char* flags;
    int64_t ended, cut;  // the line whose token is an end, and the tokens of the other one
  };
  for (const Row& row :
       {Row{"", 1, 4}, Row{" --generation-config auto", 1, 4},
        Row{" --generation-config vllm", 1, 5}, Row{" --generation-config other", 0, 2}}) {
    INFO(row.flags);
    const auto lines = answers(scratch, row.flags);
    const Json &ended = lines[static_cast<size_t>(row.ended)],
               &cut = lines[static_cast<size_t>(1 - row.ended)];
    CHECK(ended["choices"][0]["finish_reason"] == "stop");
    CHECK(ended["usage"]["completion_tokens"] == 1);
    CHECK(cut["choices"][0]["finish_reason"] == "length");
    CHECK(cut["usage"]["completion_tokens"] == row.cut);
  }
}
