// Runs of lines and flags drawn at random, gone on with under changed flags: they answer, refuse
// and leave the files that they did when tests/data/digests/runs.txt was written (README there).
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "cli/drawn_runs.h"
#include "like_cases.h"

using namespace plimsoll;
using namespace plimsoll::testing;
using test::Scratch;

namespace {

using Words = std::vector<std::string>;

const std::string kTool =
    R"({"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"x":)"
    R"({"enum":[1,22]}},"required":["x"]}}})";

const Words& lines_to_draw() {
  static const Words lines = {
      R"("Enter")",
      R"({"prompt":"To be, or not"})",
      R"({"id":"a","prompt":["To be","Exit"],"n":2,"max_tokens":3})",
      R"({"id":"b","prompt":"ROMEO:","echo":true,"max_tokens":2,"temperature":0})",
      R"({"id":"c","prompt":"ROMEO:","stop":"e","include_stop_str_in_output":true})",
      R"({"id":"d","prompt":"To be","stop":["o","r"],"min_tokens":2})",
      R"({"id":"a","prompt":"an id that may be taken"})",
      R"({"id":"e","prompt_token_ids":[5,6,7],"return_token_ids":true,"seed":3})",
      R"({"id":"f","prompt":"x","logit_bias":{"300":100},"max_tokens":2})",
      R"({"id":"g","prompt":"x","allowed_token_ids":[300,301],"bad_words":["the"]})",
      R"({"id":"h","prompt":"x","structured_outputs":{"choice":["yes","no"]}})",
      R"({"id":"i","prompt":"x","structured_outputs":{"regex":"[ab]{3}"},"n":2})",
      R"({"id":"j","prompt":"x","response_format":{"type":"json_object"},"max_tokens":4})",
      R"({"id":"k","prompt":"x","guided_json":{"type":"object","properties":{"a":{"type":"boolean"}},)"
      R"("required":["a"],"additionalProperties":false},"max_tokens":40})",
      R"({"id":"l","prompt":"x","guided_json":{"$ref":"#/nowhere"}})",
      R"({"id":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":3})",
      R"({"id":"n","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}],)"
      R"("chat_template":"{{ messages[1].content }}<think>","max_tokens":4})",
      R"({"id":"o","messages":[{"role":"user","content":"hi"}],"tools":[)" + kTool +
          R"(],"tool_choice":"required","max_tokens":40,"chat_template":"{{ tools }}"})",
      R"({"id":"p","messages":[{"role":"user","content":"hi"}],"tools":[)" + kTool +
          R"(],"tool_choice":{"type":"function","function":{"name":"f"}},"max_tokens":30,)"
          R"("chat_template":"x"})",
      R"({"id":"q","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}],)"
      R"("continue_final_message":true,"add_generation_prompt":false,"max_tokens":2,)"
      R"("chat_template":"{% for m in messages %}{{ m.content }}{% endfor %}"})",
      R"({"custom_id":"r","method":"POST","url":"/v1/completions","body":{"model":"m","prompt":"x",)"
      R"("max_tokens":2}})",
      R"({"custom_id":"s","method":"POST","url":"/v1/chat/completions","body":{"messages":)"
      R"([{"role":"user","content":"hi"}],"max_tokens":2,"chat_template":"y"}})",
      R"({"custom_id":"t","method":"GET","url":"/v1/completions","body":{"prompt":"x"}})",
      R"({"custom_id":"u","url":"/v1/embeddings","body":{"input":"x"}})",
      R"({"prompt":"x","temprature":1,"max_tokens":1})",
      R"({"prompt":"x","max_tokens":-1})",
      R"({"prompt":""})",
      R"({"prompt":7})",
      R"({"prompt":"x","max_tokens":2000})",
      R"({"prompt":"a long one: Enter three Witches and a Ghost; thunder, lightning, rain; and so on, )"
      R"(to the end of the scene and the beginning of the next one, where nobody speaks.","max_tokens":4})",
      R"({"prompt":"x","truncate_prompt_tokens":3,"truncation_side":"right"})",
      R"({"id":7,"prompt":"a number for an id"})",
      R"({broken)",
      "\xff\xfe",
      "[1]",
      "",
      "   "};
  return lines;
}

const Words kRunFlags = {"--max-tokens 3",
                         "--max-tokens 5",
                         "--min-tokens 2",
                         "--temperature 0",
                         "--temperature 0.7",
                         "--seed 7",
                         "--top-p 0.5",
                         "--top-k 3",
                         "--min-p 0.2",
                         "--repetition-penalty 1.3",
                         "--presence-penalty 1",
                         "--frequency-penalty 1",
                         "--logprobs 2",
                         "--max-logprobs 1",
                         "--stop e",
                         "--stop th --stop ' '",
                         "--ignore-eos",
                         "--chat-template t.jinja",
                         "--chat-template-kwargs '{\"loud\":true}'",
                         "--tool-call-parser hermes",
                         "--tool-call-parser none",
                         "--reasoning-parser deepseek_r1",
                         "--reasoning-parser qwen3",
                         "--long-prompt truncate-left",
                         "--long-prompt truncate-right",
                         "--long-prompt split",
                         "--long-prompt split --split-overlap 2",
                         "--served-model-name other",
                         "--structured-outputs form.json",
                         "--skip 1",
                         "--limit 2",
                         "--part 0/2",
                         "--part 1/2",
                         "--order file",
                         "--order prefix",
                         "--max-line-bytes 100",
                         "--strict",
                         "--retry-failed",
                         "--overwrite",
                         "--errors bad",
                         "--errors bad",
                         "--errors worse",
                         "--format ids",
                         "--fsync each",
                         "--max-model-len 40",
                         "--max-num-seqs 1",
                         "--max-num-batched-tokens 16",
                         "--generation-config vllm",
                         "--generation-config other",
                         "--tokenizer $MODEL",
                         "--tokenizer none",
                         "--skip-tokenizer-init",
                         "--dry-run >/dev/null",
                         "--deterministic",
                         "--no-enable-prefix-caching",
                         "--kv-cache-memory 300KiB",
                         "--dtype float16",
                         "--quantization fp8",
                         "-i other",
                         "-tp 2"};

const Words kPlaces = {"",
                       "",
                       "",
                       "",
                       "SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_MIN=2 SLURM_ARRAY_TASK_MAX=3 "
                       "SLURM_ARRAY_TASK_COUNT=2 ",
                       "JOB_COMPLETION_INDEX=1 ",
                       "SOURCE_DATE_EPOCH=86400 "};

std::string drawn_lines(Draw& draw) {
  std::string text = draw.below(8) == 0 ? "\xef\xbb\xbf" : "";
  for (size_t count = draw.below(7); count > 0; --count) text += draw.of(lines_to_draw()) + "\n";
  text += draw.of(lines_to_draw());
  return draw.below(3) == 0 ? text : text + "\n";
}

void write_files(const Scratch& scratch, Draw& draw) {
  scratch.write("in", drawn_lines(draw));
  scratch.write("other", drawn_lines(draw));
  scratch.write("form.json", R"({"enum":["red","green"]})");
  scratch.write("t.jinja",
                "{% if messages[0].role == 'tool' %}{{ raise_exception('no') }}{% endif %}"
                "{{ 'LOUD' if loud }}{{ messages[-1].content }}:");
  std::filesystem::create_directory(scratch.path("other.d"));
  scratch.write("other.d/generation_config.json", R"({"eos_token_id":[3,300],"top_k":2})");
}

const std::set<std::string> kGiven = {"in",    "other", "form.json", "t.jinja", "other.d",
                                      "cache", ".out",  ".err",      ".script"};

}  // namespace

TEST_CASE("runs drawn at random answer, refuse and leave what they did") {
  Digests digests("runs");
  for (int seed = 0; seed < testing::times(200, 60); ++seed) {
    const std::string name = fmt::format("{:03}", seed);
    Draw draw(name);
    const Scratch scratch;
    write_files(scratch, draw);
    Words flags;
    for (size_t count = draw.below(6); count > 0; --count) flags.push_back(draw.of(kRunFlags));
    std::vector<Answered> all = {{"in", scratch.read("in")}, {"other", scratch.read("other")}};
    for (size_t lives = 2 + draw.below(2); lives > 0; --lives) {
      all.push_back(asked(
          scratch,
          fmt::format("{}plimsoll run $MODEL -q --cpu-isa portable -i in -o out --report report {}",
                      draw.of(kPlaces), fmt::join(flags, " ")),
          kGiven));
      if (flags.empty() || draw.below(2) == 0) {
        flags.push_back(draw.of(kRunFlags));
      } else {
        flags.erase(flags.begin() + static_cast<std::ptrdiff_t>(draw.below(flags.size())));
      }
    }
    digests.compare(name, all);
  }
  digests.finish(testing::takes_all_cases());
}
