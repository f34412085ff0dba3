// The text of a plan is its JSON, in words: every number of one is in the other, and every part is
// explained.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <cctype>
#include <filesystem>
#include <set>

#include "cli/program.h"
#include "plan/report/report.h"

using namespace plimsoll;
using test::kConfigs;
using test::Scratch;
using test::shell;

namespace {

/// Runs of digits, with what stands between digits in numbers: "39.98", "1,024" is two.
std::set<std::string> numbers_in(const std::string& text) {
  std::set<std::string> numbers;
  for (size_t at = 0; at < text.size();) {
    if (!std::isdigit(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    size_t end = at;
    const auto digit = [&](size_t i) {
      return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]));
    };
    while (digit(end) || (end < text.size() && text[end] == '.' && digit(end + 1))) ++end;
    numbers.insert(text.substr(at, end - at));
    at = end;
  }
  return numbers;
}

/// All ways in which the text may write the JSON's numbers, and those that its strings hold.
void collect(const Json& json, std::set<std::string>& written) {
  if (json.is_string()) {
    written.merge(numbers_in(json.get<std::string>()));
  } else if (json.is_number_integer()) {
    const auto value = json.get<int64_t>();
    written.insert(std::to_string(value));
    written.merge(numbers_in(plan::readable_bytes(value)));
  } else if (json.is_number()) {
    for (const char* format : {"{:.0f}", "{:.1f}", "{:.2f}", "{:.4g}"}) {
      written.merge(numbers_in(fmt::format(fmt::runtime(format), json.get<double>())));
    }
  } else if (json.is_structured()) {
    for (const auto& [key, value] : json.items()) {
      collect(value, written);
      if (key != "hours") continue;
      for (const double unit : {60.0, 3600.0}) collect(value.get<double>() * unit, written);
    }
  }
}

void check_text(const Scratch& scratch, const std::string& arguments) {
  INFO(arguments);
  const auto json = shell(scratch, "plimsoll plan " + arguments + " --format json");
  REQUIRE((json.status == 0 || json.status == 6));
  const Json plan = parse_json<Json>(json.out);
  std::set<std::string> written;
  collect(plan, written);
  const auto text = shell(scratch, "COLUMNS=80 plimsoll plan " + arguments);
  for (const std::string& number : numbers_in(text.out)) {
    INFO(number << " in\n" << text.out);
    CHECK(written.contains(number));
  }
  std::istringstream lines(text.out);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 80);
    CHECK(line.find('\x1b') == std::string::npos);
  }
}

void check_explained(const Scratch& scratch, const std::string& arguments) {
  INFO(arguments);
  const Json plan =
      parse_json<Json>(shell(scratch, "plimsoll plan " + arguments + " --format json").out);
  std::string commands;
  for (const Json& part : plan["parts"]) {
    commands +=
        "plimsoll plan " + arguments + " --explain '" + part["name"].get<std::string>() + "'\n";
    CHECK(!part["formula"].get<std::string>().empty());
    CHECK(!part["source"].get<std::string>().empty());
  }
  const std::string text = shell(scratch, commands).out;
  size_t at = 0;
  for (const Json& part : plan["parts"]) {
    // "NAME: 1.00 GiB (1073741824 bytes)", formula, source: in the order of the parts.
    const std::string head = part["name"].get<std::string>() + ": ";
    INFO(head);
    REQUIRE(text.compare(at, head.size(), head) == 0);
    const std::string bytes = "(" + std::to_string(part["bytes"].get<int64_t>()) + " bytes)\n";
    CHECK(text.find(bytes, at) != std::string::npos);
    CHECK(text.find(part["formula"].get<std::string>(), at) != std::string::npos);
    for (int line = 0; line < 3; ++line) at = text.find('\n', at) + 1;
  }
  CHECK(at == text.size());
}

}  // namespace

TEST_CASE("every number of the text is in the JSON, within 80 columns and without colour") {
  const Scratch scratch;
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs)) {
    const std::string config = entry.path().string();
    check_text(scratch, config + " --engine vllm");
    check_text(scratch, config + " --engine vllm --gpu h100 --advise");
    check_text(scratch, config + " --engine vllm --vllm-version 0.8.5 --gpu 4090 -tp 2");
  }
  check_text(scratch, kConfigs + "/llama-2-70b.json --gpu h100 --gpus auto");
  check_text(scratch, kConfigs + "/llama-3.1-8b.json --gpu h100 --kv-cache-dtype fp8");
  check_text(scratch, kConfigs + "/llama-3.1-8b.json --gpu h100 --max-num-seqs auto");
  check_text(scratch, "$MODEL");
  scratch.write("in", "{\"prompt\":\"a b c\",\"max_tokens\":7}\n{\n\"d\"\n");
  check_text(scratch, "$MODEL -i in --tokens-per-second 3");
}

TEST_CASE("every part is explained") {
  const Scratch scratch;
  check_explained(scratch, kConfigs + "/qwen2.5-vl-3b.json --engine vllm --gpu h100");
  check_explained(scratch, kConfigs + "/llama-2-70b.json --engine plimsoll --gpu h100 -tp 4");
  check_explained(scratch, "$MODEL");
  const auto none = shell(scratch, "plimsoll plan $MODEL --explain nothing");
  CHECK(none.status == 2);
  CHECK_THAT(none.err, Catch::Contains("kv cache"));
}

TEST_CASE("flags that ask for two answers, or about one that is not asked for, are refused") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  struct Row {
    const char* command;
    const char* said;
  };
  const Row rows[] = {
      {"plan $MODEL --explain weights --format json", "--explain: prints text alone"},
      {"run $MODEL -i in --dry-run --explain weights --format json",
       "--explain: prints text alone"},
      {"plan --gpu list --format json", "--gpu list: prints text alone"},
      {"plan --diff a b --format html", "--diff: prints text alone"},
      {"plan --check a --format json", "--check: prints text alone"},
      {"plan $MODEL --diff a b", "--diff: compares two files"},
      {"plan $MODEL --engine all --explain weights", "--explain: goes with the plan of one engine"},
      {"plan $MODEL --engine all --advise", "--advise: goes with the plan of one engine"},
      {"plan $MODEL --rate 5", "add -i"},
      {"plan $MODEL --engine sglang --gpu h100 --rate none", "add -i"},
      {"plan $MODEL --free-memory after=3", "--free-memory: has no effect on a plan of our own"},
      {"plan $MODEL --engine vllm --engine-args '{\"tp\":2}'", "has no effect on a plan of vLLM"},
      {"plan $MODEL --engine-version 0.9", "--engine-version: has no effect"},
      {"plan $MODEL --engine all --engine-version 0.9", "--engine-version: of which engine?"},
      {"plan $MODEL --engine sglang --gpu h100 --free-memory before=6,after=22", "swapped?"},
      {"plan $MODEL --gpu h100 --reserved-memory 2", "is 2GiB meant?"},
      {"plan $MODEL --gpu-total-memory 24", "is 24GiB meant?"},
      {"plan $MODEL --available-kv-memory 5", "is 5GiB meant?"},
      {"plan $MODEL --gpu h100,a100", "with --engine llamacpp alone"}};
  for (const Row& row : rows) {
    INFO(row.command);
    const auto refused = shell(scratch, std::string("plimsoll ") + row.command);
    CHECK(refused.status == 2);
    CHECK(refused.out == "");
    CHECK_THAT(refused.err, Catch::Contains(row.said));
  }
}

TEST_CASE("a plan of vLLM names our own engine's flags, which it does not heed") {
  const Scratch scratch;
  const std::string plan = "plimsoll plan " + kConfigs + "/opt-13b.json --engine vllm --gpu h100 ";
  CHECK_THAT(shell(scratch, plan + "--threads 4 --cpu-isa avx2").out,
             Catch::Contains("without effect on vLLM: --threads, --cpu-isa"));
  CHECK_THAT(shell(scratch, plan + "--gpu-memory 60GiB --reserved-memory 2GiB").out,
             !Catch::Contains("without effect"));
}

TEST_CASE("no engine's launch fits on more cards than are at hand") {
  const Scratch scratch;
  const std::string plan =
      "plimsoll plan " + kConfigs + "/llama-3.1-8b.json --gpu h100 --gpus 2 --engine ";
  for (const char* launch :
       {"vllm -tp 4", "sglang --tp 4", "lmdeploy --tp 4", "tensorrt-llm --tp_size 4"}) {
    INFO(launch);
    const auto refused = shell(scratch, plan + launch);
    CHECK(refused.status == 6);
    CHECK_THAT(refused.out,
               Catch::Contains("4 GPUs are needed") && Catch::Contains("and 2 are at hand"));
  }
}
