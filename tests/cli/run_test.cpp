// Answers of `plimsoll run`, line by line, with the sample model.
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "cli/program.h"

using namespace plimsoll;
using test::json_lines;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

// One answer each, by id.
std::map<std::string, Json> by_id(const std::string& text) {
  std::map<std::string, Json> lines;
  for (const Json& line : json_lines(text)) {
    const Json& id = line.contains("custom_id") ? line["custom_id"] : line["id"];
    lines[id.is_string() ? id.get<std::string>() : ""] = line;
  }
  return lines;
}

Json run_line(const std::string& line, const std::string& flags = "") {
  const Scratch scratch;
  scratch.write("in", line + "\n");
  const Outcome outcome = shell(scratch, "plimsoll run $MODEL -q -i in " + flags);
  INFO(outcome.err);
  REQUIRE((outcome.status == 0 || outcome.status == 3));
  return json_lines(outcome.out).at(0);
}

std::set<std::string> keys(const Json& object) {
  std::set<std::string> names;
  for (const auto& [key, value] : object.items()) names.insert(key);
  return names;
}

using KeySet = std::set<std::string>;

}  // namespace

TEST_CASE("a plain answer, literally") {
  const Scratch scratch;
  const Outcome outcome =
      shell(scratch,
            "echo '{\"id\":\"x\",\"prompt\":\"To be\",\"max_tokens\":1,\"temperature\":0}' | "
            "plimsoll run $MODEL -q");
  CHECK(outcome.status == 0);
  CHECK(outcome.err.empty());
  const Json line = json_lines(outcome.out).at(0);
  const std::string text = line["choices"][0]["text"].dump();
  CHECK(outcome.out ==
        "{\"id\":\"x\",\"choices\":[{\"index\":0,\"text\":" + text +
            ",\"finish_reason\":\"length\",\"stop_reason\":null,\"logprobs\":null}],\"usage\":{"
            "\"prompt_tokens\":2,\"completion_tokens\":1,\"total_tokens\":3},\"error\":null}\n");
}

TEST_CASE("a chat completion of a batch line") {
  const Json line = run_line(
      R"({"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m",)"
      R"("messages":[{"role":"user","content":"Who comes?"}],"max_tokens":6,"temperature":0,)"
      R"("logprobs":true,"top_logprobs":3,"return_token_ids":true,"prompt_logprobs":1}})",
      "--served-model-name sample");
  CHECK(keys(line) == KeySet{"id", "custom_id", "response", "error"});
  CHECK(line["id"].get<std::string>().starts_with("batch_req_"));
  CHECK(line["response"]["status_code"] == 200);
  const Json& body = line["response"]["body"];
  CHECK(keys(body) == KeySet{"id", "object", "created", "model", "choices", "usage",
                             "prompt_logprobs", "prompt_token_ids"});
  CHECK(body["object"] == "chat.completion");
  CHECK(body["model"] == "sample");
  CHECK(body["created"] == 0);
  const Json& choice = body["choices"].at(0);
  CHECK(keys(choice) ==
        KeySet{"index", "message", "logprobs", "finish_reason", "stop_reason", "token_ids"});
  CHECK(choice["message"]["role"] == "assistant");
  const size_t tokens = body["usage"]["completion_tokens"].get<size_t>();
  CHECK(choice["token_ids"].size() == tokens);
  REQUIRE(choice["logprobs"]["content"].size() == tokens);
  std::string joined;
  for (const Json& token : choice["logprobs"]["content"]) {
    CHECK(keys(token) == KeySet{"token", "logprob", "bytes", "top_logprobs"});
    CHECK(token["top_logprobs"].size() == 3);
    // Greedy: the chosen one is the best.
    CHECK(token["top_logprobs"][0]["token"] == token["token"]);
    CHECK(token["top_logprobs"][0]["logprob"] >= token["top_logprobs"][1]["logprob"]);
    for (const Json& byte : token["bytes"]) joined += static_cast<char>(byte.get<int>());
  }
  CHECK(joined.starts_with(choice["message"]["content"].get<std::string>()));
  CHECK(body["prompt_logprobs"].size() == body["prompt_token_ids"].size());
  CHECK(body["prompt_logprobs"][0].is_null());
  const std::string second = std::to_string(body["prompt_token_ids"][1].get<int>());
  CHECK(keys(body["prompt_logprobs"][1][second]) == KeySet{"logprob", "rank", "decoded_token"});
}

TEST_CASE("a text completion of a batch line, with echo and several prompts") {
  const Json line = run_line(
      R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":["To be","My lord"],)"
      R"("temperature":0,"logprobs":2,"echo":true,"max_tokens":3,"n":2}})");
  const Json& body = line["response"]["body"];
  CHECK(body["object"] == "text_completion");
  REQUIRE(body["choices"].size() == 4);
  CHECK(body["usage"]["completion_tokens"] == 12);
  for (size_t i = 0; i < 4; ++i) {
    const Json& choice = body["choices"][i];
    CHECK(choice["index"] == i);
    CHECK(choice["text"].get<std::string>().starts_with(i < 2 ? "To be" : "My lord"));
    const Json& logprobs = choice["logprobs"];
    CHECK(keys(logprobs) == KeySet{"text_offset", "token_logprobs", "tokens", "top_logprobs"});
    const size_t count = logprobs["tokens"].size();
    CHECK(logprobs["token_logprobs"].size() == count);
    CHECK(logprobs["top_logprobs"].size() == count);
    CHECK(logprobs["text_offset"].size() == count);
    CHECK(logprobs["token_logprobs"][0].is_null());
    CHECK(logprobs["top_logprobs"][0].is_null());
    std::string joined;
    for (const Json& token : logprobs["tokens"]) joined += token.get<std::string>();
    CHECK(joined == choice["text"]);
  }
  // OpenAI's default where a completions line does not say.
  const Json plain = run_line(
      R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"To","ignore_eos":true}})");
  CHECK(plain["response"]["body"]["usage"]["completion_tokens"] == 16);
}

TEST_CASE("echo of the prompt alone") {
  const Json line = run_line(R"({"prompt":"To be","max_tokens":0,"echo":true,"logprobs":1})");
  CHECK(line["choices"][0]["text"] == "To be");
  CHECK(line["choices"][0]["logprobs"]["tokens"].size() == 2);
  CHECK(line["usage"]["completion_tokens"] == 0);
}

TEST_CASE("stops, lengths and token ids") {
  const Json stopped = run_line(
      R"({"prompt":"To be, or not","temperature":0,"stop":["\n"],"return_token_ids":true})");
  CHECK(stopped["choices"][0]["finish_reason"] == "stop");
  CHECK(stopped["choices"][0]["stop_reason"] == "\n");
  CHECK(stopped["choices"][0]["text"].get<std::string>().find('\n') == std::string::npos);
  CHECK(stopped["choices"][0]["token_ids"].size() == stopped["usage"]["completion_tokens"]);
  CHECK(stopped["choices"][0]["prompt_token_ids"].size() == stopped["usage"]["prompt_tokens"]);
  const Json ids = run_line(R"({"prompt_token_ids":[5,6,7],"max_tokens":4,"ignore_eos":true})",
                            "--skip-tokenizer-init --format ids");
  CHECK(keys(ids) == KeySet{"id", "token_ids"});
  CHECK(ids["token_ids"].size() == 4);
  const Json text = run_line(R"({"prompt":"x"})", "--skip-tokenizer-init");
  CHECK(text["error"]["code"] == "bad_field");
  CHECK_THAT(text["error"]["message"].get<std::string>(), Catch::Contains("prompt_token_ids"));
  const Json capped =
      run_line(R"({"prompt":"x","ignore_eos":true,"max_tokens":50})", "--max-tokens 7");
  CHECK(capped["usage"]["completion_tokens"] == 7);
}

TEST_CASE("chats: parts, templates, continued messages") {
  const auto prompt = [](const std::string& fields, const std::string& flags = "") {
    return run_line("{\"max_tokens\":1,\"echo\":true,\"return_token_ids\":true," + fields + "}",
                    flags);
  };
  const auto ids = [&](const std::string& fields, const std::string& flags = "") {
    const Json line = prompt(fields, flags);
    INFO(line.dump());
    return line["choices"].at(0)["prompt_token_ids"];
  };
  const std::string chat = R"("messages":[{"role":"user","content":"a\nb"}])";
  const Json usual = ids(chat);
  CHECK(ids(R"("messages":[{"role":"user","content":[{"type":"text","text":"a"},)"
            R"({"type":"text","text":"b"}]}])") == usual);
  CHECK(ids(chat + R"(,"add_generation_prompt":false)") != usual);
  CHECK(ids(chat + R"(,"chat_template":"{{ messages[0].content }}")") ==
        ids(chat, "--chat-template '{{ messages[0][\"content\"] }}'"));
  CHECK(ids(chat + R"(,"chat_template":"{{ word }}","chat_template_kwargs":{"word":"hey"})") ==
        ids(chat + R"(,"chat_template":"hey")"));
  const Json image = prompt(R"("messages":[{"role":"user","content":[{"type":"image_url"}]}])");
  CHECK(image["error"]["code"] == "bad_field");
  const Json role = prompt(R"("messages":[{"role":"judge","content":"x"}])");
  CHECK(role["error"]["code"] == "template_error");
  CHECK_THAT(role["error"]["message"].get<std::string>(),
             Catch::Contains("Only system, user and assistant roles are known: judge"));
  const Json continued = prompt(
      R"("messages":[{"role":"user","content":"x"},{"role":"assistant","content":"My lord"}],)"
      R"("continue_final_message":true)");
  CHECK(continued["choices"][0]["text"].get<std::string>().starts_with("My lord"));
}

TEST_CASE("a bad line costs that line, wherever it stands") {
  for (int bad = 1; bad <= 3; ++bad) {
    const Scratch scratch;
    std::string input;
    for (int i = 1; i <= 3; ++i) {
      input += i == bad ? "{\"prompt\":\n" : "{\"prompt\":\"To\",\"max_tokens\":2}\n";
    }
    scratch.write("in", input);
    const Outcome outcome = shell(scratch, "plimsoll run $MODEL -i in -o out --report report");
    CHECK(outcome.status == 3);
    const std::vector<Json> lines = json_lines(scratch.read("out"));
    REQUIRE(lines.size() == 3);
    for (int i = 1; i <= 3; ++i) {
      const Json& line = lines[static_cast<size_t>(i - 1)];
      CHECK(line["id"] == std::to_string(i));
      CHECK(line["error"].is_null() == (i != bad));
    }
    const Json& failed = lines[static_cast<size_t>(bad - 1)];
    CHECK(failed["error"]["code"] == "bad_json");
    CHECK(failed["error"]["line"] == bad);
    const Json report = parse_json<Json>(scratch.read("report"));
    CHECK(report["lines"]["failed_by_code"]["bad_json"] == 1);
    CHECK(report["exit_status"] == 3);
  }
}

TEST_CASE("failures of batch lines") {
  const Json refused = run_line(
      R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"x","temperature":-1}})");
  CHECK(refused["error"].is_null());
  CHECK(refused["response"]["status_code"] == 400);
  const Json& error = refused["response"]["body"]["error"];
  CHECK(error["type"] == "invalid_request_error");
  CHECK(error["param"] == "temperature");
  CHECK(error["code"] == 400);
  const Json broken = run_line(R"({"custom_id":"a", )");
  CHECK(broken["custom_id"].is_null());
  CHECK(broken["response"].is_null());
  CHECK(broken["error"]["code"] == "bad_json");
}

TEST_CASE("later lines with a taken id fail; under --strict nothing runs") {
  const Scratch scratch;
  scratch.write("in", R"({"id":"x","prompt":"a","max_tokens":1})"
                      "\n"
                      R"({"id":"x","prompt":"b","max_tokens":1})"
                      "\n");
  const Outcome outcome = shell(scratch, "plimsoll run $MODEL -q -i in");
  CHECK(outcome.status == 3);
  CHECK(json_lines(outcome.out).at(0)["error"].is_null());
  CHECK(json_lines(outcome.out).at(1)["error"]["code"] == "duplicate_id");
  const Outcome strict = shell(scratch, "plimsoll run ./no-model -i in --strict -o out");
  CHECK(strict.status == 4);
  CHECK(!scratch.has("out.part"));
}

TEST_CASE("unknown fields: a warning once, or the line under --strict") {
  const Scratch scratch;
  scratch.write("in",
                "{\"prompt\":\"a\",\"max_tokens\":1,\"temprature\":0}\n"
                "{\"prompt\":\"b\",\"max_tokens\":1,\"temprature\":0}\n");
  const Outcome outcome = shell(scratch, "plimsoll run $MODEL -i in --report r");
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.err, Catch::Contains("temprature") && Catch::Contains("temperature?"));
  CHECK(outcome.err.find("temprature") == outcome.err.rfind("temprature"));
  CHECK(parse_json<Json>(scratch.read("r"))["lines"]["unknown_fields"]["temprature"] == 2);
  CHECK(shell(scratch, "plimsoll run $MODEL -i in --strict").status == 3);
}

TEST_CASE("the first failed lines of a pipe are told why") {
  const Scratch scratch;
  const Outcome outcome = shell(
      scratch, "for i in 1 2 3 4 5; do echo '{broken'; done | plimsoll run $MODEL --progress none");
  CHECK(outcome.status == 3);
  CHECK_THAT(outcome.err, Catch::Contains("line 1, column 2") && Catch::Contains("line 3,") &&
                              !Catch::Contains("line 4,"));
  const Outcome array =
      shell(scratch, "printf '[\n{\"prompt\":\"a\"}\n]\n' | plimsoll run $MODEL -q -o out");
  CHECK(array.status == 4);
  CHECK_THAT(array.err, Catch::Contains("jq -c '.[]' FILE"));
}

TEST_CASE("prompts longer than the context") {
  std::string words;
  for (int i = 0; i < 200; ++i) words += "word" + std::to_string(i) + " ";
  const std::string prompt = "{\"prompt\":\"" + words + "\",\"max_tokens\":4,\"ignore_eos\":true}";
  const std::string chat = R"({"messages":[{"role":"user","content":")" + words +
                           R"("}],"max_tokens":4,"ignore_eos":true})";
  const std::string flags = "--max-model-len 64 --temperature 0 --long-prompt ";
  const Json failed = run_line(prompt, flags + "error");
  CHECK(failed["error"]["code"] == "context_too_long");
  for (const char* policy : {"truncate-left", "truncate-right"}) {
    const Json line = run_line(prompt, flags + policy);
    CHECK(line["usage"]["prompt_tokens"] == 60);
    CHECK(line["usage"]["completion_tokens"] == 4);
    CHECK(line["usage"]["dropped_prompt_tokens"] > 0);
  }
  const Json split = run_line(prompt, flags + "split --split-overlap 8");
  CHECK(split["usage"]["completion_tokens"].get<int>() % 4 == 0);
  CHECK(split["usage"]["completion_tokens"] > 4);
  CHECK(split["choices"][0]["text"].get<std::string>().find("\n\n") != std::string::npos);
  const Json split_chat = run_line(chat, flags + "split --split-overlap 0");
  CHECK(split_chat["error"].is_null());
  CHECK(split_chat["usage"]["completion_tokens"] > 4);
  const Json cut =
      run_line("{\"prompt\":\"" + words + "\",\"max_tokens\":1,\"truncate_prompt_tokens\":5}");
  CHECK(cut["usage"]["prompt_tokens"] == 5);
}

TEST_CASE("the same bytes in any order, batch, chunk, part and cache") {
  const Scratch scratch;
  std::vector<std::string> lines;
  for (int i = 0; i < 24; ++i) {
    lines.push_back("{\"id\":\"" + std::to_string(i) + "\",\"prompt\":\"" +
                    std::string(i % 3 ? "Enter the king, with lords and attendants. " : "") +
                    "Speech " + std::to_string(i) + "\",\"max_tokens\":" +
                    std::to_string(4 + i % 9) + (i % 2 ? ",\"logprobs\":2" : "") + "}\n");
  }
  const auto joined = [&] {
    std::string text;
    for (const std::string& line : lines) text += line;
    return text;
  };
  scratch.write("in", joined());
  REQUIRE(shell(scratch, "plimsoll run $MODEL -i in -o out").status == 0);
  const std::string whole = scratch.read("out");
  REQUIRE(json_lines(whole).size() == 24);

  SECTION("twice") {
    CHECK(shell(scratch, "plimsoll run $MODEL -q -i in").out == whole);
    CHECK(shell(scratch, "plimsoll run $MODEL -q < in").out == whole);
  }
  SECTION("limits and caches") {
    for (const char* flags : {"--max-num-seqs 1", "--max-num-seqs 3 --no-enable-prefix-caching",
                              "--max-num-batched-tokens 5 --max-num-seqs 4",
                              "--num-gpu-blocks-override 66", "--threads 1"}) {
      INFO(flags);
      CHECK(shell(scratch, std::string("plimsoll run $MODEL -q -i in ") + flags).out == whole);
    }
  }
  SECTION("parts") {
    CHECK(shell(scratch, "for i in 0 1 2 3 4; do plimsoll run $MODEL -q -i in --part $i/5; done")
              .out == whole);
    CHECK(shell(scratch,
                "plimsoll run $MODEL -q -i in --limit 7; plimsoll run $MODEL -q -i in --skip 7")
              .out == whole);
  }
  SECTION("orders") {
    std::shuffle(lines.begin(), lines.end(), std::mt19937(7));
    scratch.write("shuffled", joined());
    const Outcome outcome = shell(scratch, "plimsoll run $MODEL -q -i shuffled");
    CHECK(by_id(outcome.out) == by_id(whole));
  }
}

TEST_CASE("empty inputs give empty outputs") {
  const Scratch scratch;
  scratch.write("blank", "\n  \n");
  scratch.write("cut", "\"To be\"");
  CHECK(shell(scratch, "plimsoll run $MODEL -i /dev/null -o out").status == 0);
  CHECK((scratch.has("out") && scratch.read("out").empty()));
  CHECK(shell(scratch, "plimsoll run $MODEL -q -i blank").out.empty());
  CHECK(json_lines(shell(scratch, "plimsoll run $MODEL -q -i cut --max-tokens 1").out).size() == 1);
  CHECK(shell(scratch, "plimsoll run $MODEL -i /dev/null --part 3/8").status == 2);
}

TEST_CASE("many lines at once: the report shows what the engine did") {
  const Scratch scratch;
  std::string input;
  for (int i = 0; i < 40; ++i) {
    input += "{\"prompt\":\"Enter the king, with all his lords and attendants, and many soldiers " +
             std::to_string(i) + "\",\"max_tokens\":24,\"ignore_eos\":true}\n";
  }
  scratch.write("in", input);
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o out --report r").status == 0);
  const Json report = parse_json<Json>(scratch.read("r"));
  CHECK(report["engine"]["peak_running"] >= 16);
  CHECK(report["lines"]["ok"] == 40);
  CHECK(report["tokens"]["completion"] == 40 * 24);
  CHECK(report["plan"]["total_bytes"] > 0);
  REQUIRE(shell(scratch,
                "plimsoll run $MODEL -q -i in -o out2 --report r --max-model-len 128 "
                "--num-gpu-blocks-override 20")
              .status == 0);
  const Json small = parse_json<Json>(scratch.read("r"));
  // Lines wait for room to their ends, which are known here.
  CHECK(small["engine"]["preemptions"] == 0);
  CHECK(small["engine"]["peak_running"] < report["engine"]["peak_running"]);
  CHECK(scratch.read("out") == scratch.read("out2"));
}

TEST_CASE("the tokenizer's end token ends an answer whatever the configs name") {
  const Scratch scratch;
  const std::string folder =
      "mkdir m && ln -s \"$MODEL\"/* m/ && rm m/config.json m/generation_config.json && "
      "sed 's/\"eos_token_id\": 3/\"eos_token_id\": 2047/' \"$MODEL/config.json\" >m/config.json "
      "&& ";
  scratch.write("in", R"({"messages":[{"role":"user","content":"Who comes?"}],"temperature":0})"
                      "\n");
  const Outcome usual = shell(scratch, "plimsoll run $MODEL -q -i in --max-tokens 300");
  const Outcome other = shell(scratch, folder + "plimsoll run m -q -i in --max-tokens 300");
  INFO(other.err);
  const Json line = json_lines(usual.out).at(0);
  CHECK(line["choices"][0]["finish_reason"] == "stop");
  CHECK(line["usage"]["completion_tokens"] < 300);
  CHECK(other.out == usual.out);
}
