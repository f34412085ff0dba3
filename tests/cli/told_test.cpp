// What commands tell people: progress on a terminal, how a run goes on and ends, what is written
// into shards; and what a launcher's or a user's variables make of a run.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cli/environment.h"
#include "cli/measured_rates.h"
#include "cli/program.h"
#include "cli/run/device.h"
#include "cli/run/fleet.h"
#include "cli/run/options.h"
#include "cli/run/order.h"
#include "cli/run/status.h"
#include "cli/run/talk.h"
#include "cli/shard/progress.h"
#include "cli/terminal.h"
#include "cli/variable.h"

using namespace plimsoll;
using namespace std::chrono_literals;
using Catch::Contains;
using cli::Environment;
using cli::RunOptions;
using test::Outcome;
using test::Scratch;
using test::shell;
using testing::Variable;

namespace {

/// What a process writes to its standard error, which is a terminal of 77 columns.
std::string on_terminal(const std::function<void()>& act) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(master >= 0);
  REQUIRE((grantpt(master) == 0 && unlockpt(master) == 0));
  const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  REQUIRE(slave >= 0);
  const winsize size{.ws_row = 20, .ws_col = 77, .ws_xpixel = 0, .ws_ypixel = 0};
  REQUIRE(ioctl(slave, TIOCSWINSZ, &size) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(slave, STDERR_FILENO);
    act();
    _exit(0);
  }
  close(slave);
  std::string text;
  std::array<char, 512> bytes{};
  for (ssize_t count = 0; (count = read(master, bytes.data(), bytes.size())) > 0;)
    text.append(bytes.data(), static_cast<size_t>(count));
  waitpid(child, nullptr, 0);
  close(master);
  return text;
}

Environment terminal_that_is(bool dumb) {
  Environment environment;
  environment.dumb_terminal = dumb;
  return environment;
}

}  // namespace

TEST_CASE("progress is drawn over on a terminal, unless it is dumb or somebody says otherwise") {
  using batch::ProgressMode;
  const auto mode = [](const std::string& asked, bool quiet = false, bool dumb = false) {
    RunOptions options;
    options.progress = asked;
    options.quiet = quiet;
    return cli::progress_mode(options, terminal_that_is(dumb));
  };
  // The test's own standard error may be anything.
  CHECK(mode("bar") == ProgressMode::bar);
  CHECK(mode("lines") == ProgressMode::lines);
  CHECK(mode("none") == ProgressMode::none);
  CHECK(mode("bar", true) == ProgressMode::none);
  CHECK(mode("auto", false, true) == ProgressMode::lines);
  Environment narrow;
  narrow.columns = 50;
  const std::string said = on_terminal([&] {
    const bool all = mode("auto") == ProgressMode::bar &&
                     mode("auto", false, true) == ProgressMode::lines &&
                     mode("auto", true) == ProgressMode::none &&
                     cli::terminal_width(Environment{}) == 77 && cli::terminal_width(narrow) == 50;
    cli::write_error_stream(all ? "as said" : "otherwise");
  });
  CHECK(said == "as said");
}

TEST_CASE("progress of shards has bytes, rate and the time that is left") {
  const auto shown = [](bool quiet, bool dumb) {
    return on_terminal([=] {
      using Clock = std::chrono::steady_clock;
      const auto before = Clock::now();
      cli::ByteProgress progress(4'000'000'000, quiet, terminal_that_is(dumb));
      const auto started = Clock::now();
      progress.show(500'000'000);  // too soon
      std::this_thread::sleep_for(1100ms);
      const std::chrono::duration<double> least = Clock::now() - started;
      progress.show(1'000'000'000);
      const std::chrono::duration<double> most = Clock::now() - before;
      progress.show(2'000'000'000);  // too soon after it
      progress.finish();
      cli::write_error_stream(fmt::format("{} {}", least.count(), most.count()));
    });
  };
  const std::string said = shown(false, false);
  INFO(said);
  std::smatch parts;
  REQUIRE(std::regex_match(said, parts,
                           std::regex("\r\x1b\\[K1\\.00 of 4\\.00 GB, ([0-9]+) MB/s, 0:([0-9]+) "
                                      "left\r\x1b\\[K([0-9.]+) ([0-9.]+)")));
  const double rate = std::stod(parts[1]), left = std::stod(parts[2]);
  const double least = std::stod(parts[3]), most = std::stod(parts[4]);
  CHECK(rate <= 1000 / least + 0.5);
  CHECK(rate >= 1000 / most - 0.5);
  CHECK(left <= 3 * most);
  CHECK(left > 3 * least - 1);  // whole seconds
  const std::regex figures("[0-9.]+ [0-9.]+");
  CHECK(std::regex_match(shown(true, false), figures));
  CHECK(std::regex_match(shown(false, true), figures));  // a line comes every ten seconds
}

TEST_CASE("a run that ends early says with what it ended, and whether the same command goes on") {
  const Scratch scratch;
  const std::string run =
      "mkfifo open; exec 3<>open; plimsoll run $MODEL -i open --max-tokens 2 --time-limit 0.5s ";
  const Outcome nothing = shell(scratch, run + "-o out");
  CHECK(nothing.status == 7);
  CHECK_THAT(nothing.err, Contains("stopped early (") &&
                              Contains(") before the first line was finished\n") &&
                              !Contains("goes on"));
  const std::string fed = "rm -f open; " + run.substr(0, run.find("plimsoll")) +
                          "echo '\"a\"' >&3; " + run.substr(run.find("plimsoll"));
  const Outcome printed = shell(scratch, fed);
  CHECK(printed.status == 7);
  CHECK_THAT(printed.err, Contains("; the finished lines are in ") && !Contains("goes on"));
  // A line that failed is finished, too.
  std::string broken = fed;
  broken.replace(broken.find("\"a\""), 3, "7");
  CHECK_THAT(shell(scratch, broken + "--overwrite -o out").err,
             Contains("; the finished lines are in out.part"));
  const Outcome kept = shell(scratch, fed + "--overwrite -o out");
  CHECK(kept.status == 7);
  CHECK_THAT(kept.err,
             Contains("; the finished lines are in out.part, and the same command goes on\n"));
}

TEST_CASE("a line that was cut short is dropped, which is told with its length") {
  const Scratch scratch;
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "{\"prompt\":\"a\",\"max_tokens\":2}\n";
  scratch.write("in", lines);
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
  const std::string run = "plimsoll run $MODEL -i in -o out --order file";
  REQUIRE(shell(scratch, "(ulimit -f 4; " + run + " -q)").status == 9);
  const std::string part = scratch.read("out.part");
  const std::string rest = "{\"id\":\"rest";
  const size_t whole = part.rfind('\n') + 1;
  scratch.write("out.part", part.substr(0, whole) + rest);
  const Outcome again = shell(scratch, run);
  INFO(again.err);
  CHECK(again.status == 0);
  CHECK_THAT(again.err, Contains("plimsoll: 11 bytes of a line that was cut short were dropped\n"));
  CHECK(scratch.read("out") == scratch.read("whole"));
}

TEST_CASE("metrics are there from the beginning, and a descriptor that is not open is refused") {
  const Scratch scratch;
  RunOptions options;
  options.metrics_file = scratch.path("m.prom");
  cli::StatusSink sink(options);
  CHECK_FALSE(scratch.has("m.prom"));
  sink.begin(scratch.path("out"));
  const std::string first = scratch.read("m.prom");
  CHECK_THAT(first, Contains("plimsoll_lines_done{output=\"" + scratch.path("out") + "\"} 0\n"));
  batch::ProgressSample sample;
  sample.done = 3;
  sink.publish(sample);
  CHECK_THAT(scratch.read("m.prom"), Contains("} 3\n"));
  options.metrics_file = scratch.path("none/m.prom");
  cli::StatusSink nowhere(options);
  CHECK_THROWS_AS(nowhere.begin("out"), Error);
  options.status_fd = 999;
  CHECK_THROWS_WITH(cli::StatusSink(options),
                    "--status-fd 999: is not open; redirect it: 999>status.jsonl");
}

TEST_CASE("flags of text are refused beside --skip-tokenizer-init, names of shards without them") {
  struct Row {
    const char *flags, *told;
  };
  const Scratch scratch;
  for (const Row& row :
       {Row{"--skip-tokenizer-init --chat-template '{{ x }}'", "excludes --tokenizer and --chat"},
        Row{"--skip-tokenizer-init --stop x", "excludes --stop, which is text"},
        Row{"--skip-tokenizer-init --structured-outputs '{}'", "excludes --structured-outputs"},
        Row{"--file-pattern x", "--file-pattern: names shards; give --load-format sharded_state"},
        Row{"--load-format dummy --file-pattern x", "--file-pattern: names shards"},
        Row{"--generation-config none", "--generation-config none: is neither auto, vllm, nor"}}) {
    INFO(row.flags);
    const Outcome outcome = shell(scratch, std::string("plimsoll run m ") + row.flags);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains(row.told));
  }
}

TEST_CASE("a number that cannot share a copy's ranks is told which could") {
  vllm::EngineArgs args;
  const auto refusal = [&](int count) {
    return cli::sharing_refusal(args, {.process = 0, .count = count, .variable = "PMI_SIZE"});
  };
  CHECK(refusal(1).empty());
  CHECK(refusal(2) ==
        "PMI_SIZE is 2: 2 processes cannot share the one rank of -tp 1 and -pp 1; 1 would do, and "
        "--part auto makes each a run of its own");
  args.tensor_parallel = 4;
  args.pipeline_parallel = 3;
  for (const int fits : {1, 2, 3, 4, 6, 12}) CHECK(refusal(fits).empty());
  CHECK(refusal(5) ==
        "PMI_SIZE is 5: 5 processes cannot share the 12 ranks of -tp 4 and -pp 3; 1, 2, 3, 4, 6, "
        "12 would do, and --part auto makes each a run of its own");
  args.data_parallel = 2;  // processes have shares of every copy
  CHECK_THAT(refusal(24), Contains("-pp 3 (each has a share of all -dp copies); 1, 2, 3,"));
}

TEST_CASE("all that a launcher started share a run, unless each has a part of its own") {
  RunOptions options;
  Environment environment;
  const auto follows = [&](int process, int count) {
    environment.mpi = {.process = process, .count = count, .variable = {}};
    const bool shares = cli::sharing_processes(options, environment) == count && count > 1;
    const bool is_follower = cli::is_follower(environment, options);
    CHECK(is_follower == (shares && process > 0));
    return is_follower;
  };
  CHECK_FALSE(cli::is_follower(environment, options));
  CHECK(cli::sharing_processes(options, environment) == 1);
  CHECK(follows(1, 2));
  CHECK_FALSE(follows(0, 2));
  CHECK_FALSE(follows(0, 1));
  options.wanted_part = cli::parse_part("auto");
  CHECK_FALSE(follows(1, 2));
  options.launch.args.tensor_parallel = 2;
  CHECK_FALSE(follows(1, 2));
  options.wanted_part = cli::parse_part("0/3");  // a part with ranks to share
  CHECK(follows(1, 2));
  options.launch.args.tensor_parallel = 1;
  CHECK_FALSE(follows(1, 2));
  options.launch.args.pipeline_parallel = 2;
  CHECK(follows(1, 2));
}

TEST_CASE("cards of one name and unlike sizes are of unlike kinds") {
  vllm::EngineArgs args;
  args.tensor_parallel = 2;
  std::vector<backend::DeviceInfo> cards(
      2, {.index = 0, .name = "H100", .compute_capability = 90, .processors = 132});
  cards[1].index = 1;
  cli::DeviceChoice choice;
  CHECK_NOTHROW(cli::take_cards(args, cards, choice));
  cards[1].processors = 114;
  CHECK_THROWS_WITH(cli::take_cards(args, cards, choice), Contains("ranks take cards of one kind"));
}

TEST_CASE("lines that are done already leave nothing to order") {
  const Scratch scratch;
  const auto input = files::InputFile::open(scratch.write("in", "\"a\"\n"));
  CHECK(cli::not_worth_a_look(input, true, 5, 3).empty());
  CHECK_THAT(cli::not_worth_a_look(input, true, 5, 4), Contains("one line"));
}

TEST_CASE("rates of a card are kept under the catalogue's name, where it has the card") {
  CHECK(cli::card_subject("NVIDIA H100 80GB HBM3") == cli::card_subject("h100"));
  CHECK(cli::card_subject("h100") != cli::card_subject("h200"));
  CHECK(cli::card_subject("Card 9 of nobody") == "Card 9 of nobody");
  Environment environment;
  CHECK(cli::rates_file(environment).empty());
  environment.cache = "/c";
  CHECK(cli::rates_file(environment) == "/c/rates.json");
}

TEST_CASE("caches and stores are where variables say, else below the home") {
  const Variable no_hub("HF_HUB_CACHE", ""), no_face("HF_HOME", "");
  const Variable home("HOME", "/h");
  {
    const Variable cache("XDG_CACHE_HOME", ""), models("OLLAMA_MODELS", "");
    const Environment found = cli::read_environment();
    CHECK(found.cache == "/h/.cache/plimsoll");
    CHECK(found.stores.hub == "/h/.cache/huggingface/hub");
    CHECK(found.stores.ollama == "/h/.ollama/models");
    CHECK(found.stores.home == "/h");
    const Variable homeless("HOME", "");
    CHECK(cli::read_environment().cache.empty());
    CHECK(cli::read_environment().stores.ollama.empty());
  }
  const Variable cache("XDG_CACHE_HOME", "/x"), models("OLLAMA_MODELS", "/o");
  const Environment found = cli::read_environment();
  CHECK(found.cache == "/x/plimsoll");
  CHECK(found.stores.hub == "/x/huggingface/hub");
  CHECK(found.stores.ollama == "/o");
}

TEST_CASE("vLLM's variables count, move nothing, or are named as unknown, in their order") {
  using cli::VllmVariable;
  for (const auto& [name, kind] : {std::pair{"VLLM_USE_V1", VllmVariable::read},
                                   {"VLLM_PP_LAYER_PARTITION", VllmVariable::read},
                                   {"VLLM_USE_V1_OTHER", VllmVariable::unknown},
                                   {"VLLM_LOGGING_LEVEL", VllmVariable::unmoved},
                                   {"VLLM_PORT", VllmVariable::unmoved},
                                   {"VLLM_MADE_UP", VllmVariable::unknown}}) {
    INFO(name);
    CHECK(cli::vllm_variable(name) == kind);
  }
  const Variable second("VLLM_MADE_UP_B", "1"), first("VLLM_MADE_UP_A", "1"),
      unmoved("VLLM_LOGGING_LEVEL", "DEBUG"), other("NOT_VLLM_MADE_UP", "1");
  CHECK(cli::read_environment().unknown ==
        std::vector<std::string>{"VLLM_MADE_UP_A", "VLLM_MADE_UP_B"});
}

TEST_CASE("the time of templates is the stated one in UTC, whatever the zone") {
  const Variable zone("TZ", "Asia/Tokyo");
  tzset();
  Environment environment;
  environment.source_date_epoch = 86'400 + 3600 * 20 + 61;  // 2 January 1970, 20:01:01
  const std::tm stated = cli::template_time(environment);
  CHECK(stated.tm_year == 70);
  CHECK(stated.tm_mday == 2);
  CHECK(stated.tm_hour == 20);
  CHECK(stated.tm_min == 1);
  CHECK(stated.tm_sec == 1);
}

TEST_CASE("each of vLLM's variables comes to the field that the plan asks") {
  const Variable graphs("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0"),
      sampler("VLLM_USE_FLASHINFER_SAMPLER", "1"), engine("VLLM_USE_V1", "2"),
      runner("VLLM_USE_V2_MODEL_RUNNER", "3"), length("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "4"),
      space("VLLM_CPU_KVCACHE_SPACE", "5"), partition("VLLM_PP_LAYER_PARTITION", "6,7");
  const Environment found = cli::read_environment();
  CHECK(found.estimate_graphs == 0);
  CHECK(found.flashinfer_sampler == 1);
  CHECK(found.second_engine == 2);
  CHECK(found.second_runner == 3);
  CHECK(found.allow_long == 4);
  CHECK(found.kv_cache_space == "5");
  CHECK(found.layer_partition == "6,7");
  for (const char* name :
       {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "VLLM_USE_FLASHINFER_SAMPLER", "VLLM_USE_V1",
        "VLLM_USE_V2_MODEL_RUNNER", "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "VLLM_MM_INPUT_CACHE_GIB"}) {
    INFO(name);
    const Variable off(name, "0");
    CHECK(cli::read_environment().fault.empty());
  }
}
