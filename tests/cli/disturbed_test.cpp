// Runs that the machine and its keepers disturb: long steps, hangs, stops, clocks that jump, and
// things that run out.
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <regex>

#include "cli/child.h"

using namespace plimsoll;
using test::Child;
using test::json_lines;
using test::Outcome;
using test::Scratch;
using test::seconds_of;
using test::shell;

namespace {

#ifdef PLIMSOLL_SANITIZED
constexpr int kSlower = 4;
#else
constexpr int kSlower = 1;
#endif

std::string seconds_times(double seconds) {
  return fmt::format("{}s", kSlower * seconds);
}

// One prompt of 3,000 tokens, in one step of about half a minute.
void write_long_step(const Scratch& scratch) {
  scratch.write(
      "model/config.json",
      R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 2048,
                    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 12,
                    "num_attention_heads": 8, "num_key_value_heads": 8, "rms_norm_eps": 1e-5,
                    "max_position_embeddings": 4096, "dtype": "bfloat16", "rope_theta": 10000.0,
                    "bos_token_id": 0, "eos_token_id": 3})");
  std::string ids = "1";
  for (int i = 1; i < 3000; ++i) ids += "," + std::to_string(i % 2000);
  scratch.write("in", "{\"prompt\":[" + ids + "],\"max_tokens\":1}\n");
}

std::vector<std::string> long_step(const std::string& grace) {
  return {"run",
          "model",
          "--load-format",
          "dummy",
          "--skip-tokenizer-init",
          "-i",
          "in",
          "-o",
          "out",
          "--threads",
          "1",
          "--max-num-batched-tokens",
          "4096",
          "--max-num-seqs",
          "1",
          "--grace",
          grace};
}

bool has_line_in_hand(const Scratch& scratch) {
  return scratch.read("out.running").starts_with("+1");
}

// Lines that keep the sample model at work for a while, in steps of a millisecond.
void write_busy(const Scratch& scratch, int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    text += R"({"prompt":"Enter the king","max_tokens":900,"ignore_eos":true})"
            "\n";
  }
  scratch.write("in", text);
}

}  // namespace

TEST_CASE("SIGTERM ends a run within its grace and a second, in the midst of a long step") {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.path("model"));
  write_long_step(scratch);
  Child run(scratch, long_step("0.3s"));
  run.until([&] { return has_line_in_hand(scratch); });
  run.signal(SIGTERM);
  int status = 0;
  const double seconds = seconds_of([&] { status = run.wait(); });
  INFO(scratch.read("stderr"));
  CHECK(status == 7);
  CHECK(seconds > 0.25);
  CHECK(seconds < 8);  // 1.3 where no other program runs; the step takes longer
  CHECK(scratch.read("out.part").empty());
}

TEST_CASE("a second SIGINT leaves at once") {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.path("model"));
  write_long_step(scratch);
  Child run(scratch, long_step("60s"));
  run.until([&] { return has_line_in_hand(scratch); });
  run.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // two at once are one
  run.signal(SIGINT);
  int status = 0;
  CHECK(seconds_of([&] { status = run.wait(); }) < 8);  // the grace is a minute
  CHECK(status == 130);
}

TEST_CASE("a step longer than --stall-limit ends the process, and its line does not get a third") {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.path("model"));
  write_long_step(scratch);
  std::vector<std::string> arguments = long_step("5s");
  arguments.insert(arguments.end(), {"--stall-limit", "0.3s"});
  for (int death = 1; death <= 2; ++death) {
    Child run(scratch, arguments);
    CHECK(run.wait() == 10);
    CHECK_THAT(scratch.read("stderr"), Catch::Contains("these lines were running: 1\n"));
    CHECK_THAT(scratch.read("out.running"), Catch::EndsWith("!\n"));
  }
  Child run(scratch, arguments);
  CHECK(run.wait() == 3);
  CHECK(json_lines(scratch.read("out"))[0]["error"]["code"] == "crashed");
}

TEST_CASE("a stopped process is no stalled one: SIGSTOP, SIGCONT", "[kills]") {
  const Scratch scratch;
  write_busy(scratch, 12);
  Child run(scratch, {"run", test::kModel, "-q", "-i", "in", "-o", "out", "--max-num-seqs", "4",
                      "--threads", "1", "--stall-limit", seconds_times(0.7)});
  run.until([&] { return !scratch.read("out.part").empty(); });
  run.signal(SIGSTOP);
  std::this_thread::sleep_for(kSlower * std::chrono::milliseconds(1500));
  REQUIRE(!scratch.has("out"));
  run.signal(SIGCONT);
  CHECK(run.wait() == 0);
  CHECK(json_lines(scratch.read("out")).size() == 12);
}

TEST_CASE("a reader that takes nothing for a while is no stall") {
  const Scratch scratch;
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text += R"({"prompt":"Enter","max_tokens":60,"ignore_eos":true,"logprobs":5})"
            "\n";
  }
  scratch.write("in", text);
  const Outcome outcome =
      shell(scratch, "plimsoll run $MODEL -q -i in --stall-limit " + seconds_times(0.7) +
                         " | (sleep " + seconds_times(1.8) + "; cat > all); exit ${PIPESTATUS[0]}");
  CHECK(outcome.status == 0);
  const std::string all = scratch.read("all");
  CHECK(json_lines(all).size() == 40);
  CHECK(all.size() > (size_t{1} << 17));  // more than a pipe takes
}

TEST_CASE("a clock that jumps by a day and back changes no duration and no answer") {
  const Scratch scratch;
  write_busy(scratch, 6);
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
  const std::string clock = "LD_PRELOAD=" PLIMSOLL_BINARY_DIR "/tests/libjumping_clock.so";
  const Outcome outcome =
      shell(scratch, "ASAN_OPTIONS=verify_asan_link_order=0 " + clock +
                         " plimsoll run $MODEL -i in -o out --report r --progress lines "
                         "--time-limit 1h --stall-limit 1h");
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  CHECK(scratch.read("out") == scratch.read("whole"));
  CHECK_THAT(outcome.err, !Catch::Contains("cannot be preloaded"));
  CHECK(!std::regex_search(outcome.err, std::regex("-[0-9]")));
  const Json report = parse_json<Json>(scratch.read("r"));
  REQUIRE(report["seconds"].size() > 3);
  for (const auto& [name, seconds] : report["seconds"].items()) {
    INFO(name);
    CHECK(seconds >= 0);
    CHECK(seconds < 100);
  }
}

TEST_CASE("a folder that vanishes during the run is an output that cannot be written") {
  const Scratch scratch;
  const Outcome outcome =
      shell(scratch,
            "mkfifo pipe; mkdir d; plimsoll run $MODEL -q -i pipe -o d/out --max-tokens 1 & "
            "exec 3>pipe; while ! test -e d/out.part; do sleep 0.02; done; rm -r d; "
            "echo '\"a\"' >&3; exec 3>&-; wait $!");
  CHECK(outcome.status == 9);
  CHECK_THAT(outcome.err, Catch::Contains("d/out"));
}

TEST_CASE("a system that allows no threads, few files or little memory is named") {
  const Scratch scratch;
  write_busy(scratch, 2);
  Child alone(scratch, {"run", test::kModel, "-i", "in", "-o", "out", "--threads", "4"}, [] {
    const sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{std::size(rules), const_cast<sock_filter*>(rules)};
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // or it wants a thread of its own at the end
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  });
  CHECK(alone.wait() == 9);
  CHECK_THAT(scratch.read("stderr"), Catch::Contains("no more threads"));
#ifndef PLIMSOLL_SANITIZED  // which opens files of its own, and takes terabytes
  // Each limit of files, and of address space, ends in an answer.
  // How many are open already is the caller's affair.
  const Outcome few = shell(scratch, R"(for files in 4 5 6 7 8 9 10 16; do
(ulimit -n $files; plimsoll run $MODEL -q -i in -o few --max-tokens 1)
status=$?; echo $status; rm -f few*; case $status in 0|5|9|127) ;; *) exit 1 ;; esac
done)");
  INFO(few.out << few.err);
  CHECK(few.status == 0);
  CHECK_THAT(few.out, Catch::Contains("9\n") && Catch::EndsWith("0\n"));
  // The system ended the program before its first instruction where not even --version starts.
  const Outcome little =
      shell(scratch, R"(for mib in 30 36 42 48 60 90 95 110 130 150 200 600 1500; do
(ulimit -v $((mib * 1024)); plimsoll --version >/dev/null 2>&1 || exit 127
plimsoll run $MODEL -q -i in -o few --max-tokens 1 --threads 2)
status=$?; echo $status; rm -f few*; case $status in 0|6|9|127) ;; *) exit 1 ;; esac
done)");
  INFO(little.out << little.err);
  CHECK(little.status == 0);
  CHECK_THAT(little.out, Catch::Contains("6\n") && Catch::EndsWith("0\n"));
#endif
}
