// Many short lines: what each costs the host, in time and in memory, must not depend on how many
// went before. A million of them: tests/bench/long_batch.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "cli/child.h"

using namespace plimsoll;
using test::Child;
using test::json_lines;
using test::Scratch;

namespace {

constexpr int64_t kManyLines = 16'000;

// One layer answers a token a line.
void write_model(const Scratch& scratch) {
  std::filesystem::create_directory(scratch.path("model"));
  scratch.write("model/config.json",
                R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128,
                    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
                    "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
                    "max_position_embeddings": 128, "dtype": "float32", "rope_theta": 10000.0,
                    "bos_token_id": 0, "eos_token_id": 3})");
}

struct Sample {
  double written = 0;    // bytes
  double seconds = 0;    // of the processor
  int64_t resident = 0;  // bytes
};

bool has_ended(pid_t pid) {
  siginfo_t ended{};
  return waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         ended.si_pid != 0;
}

// A sample of the process; nullopt while there is no journal.
std::optional<Sample> sample(pid_t pid, const std::string& journal) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::error_code missing;
  const auto written = std::filesystem::file_size(journal, missing);
  std::ifstream stat(folder + "/stat"), statm(folder + "/statm");
  std::string text;
  int64_t all = 0, resident = 0;
  if (missing || !std::getline(stat, text) || !(statm >> all >> resident)) return {};
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  for (int i = 0; i < 11; ++i) fields >> field;
  double user = 0, system = 0;
  fields >> user >> system;
  return Sample{.written = static_cast<double>(written),
                .seconds = (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK)),
                .resident = resident * sysconf(_SC_PAGESIZE)};
}

const Sample& nearest(const std::vector<Sample>& samples, double written) {
  return *std::ranges::min_element(
      samples, {}, [&](const Sample& one) { return std::abs(one.written - written); });
}

}  // namespace

TEST_CASE("the last lines of many take the time of the first, and no more memory") {
  const Scratch scratch;
  write_model(scratch);
  const std::string note(300, 'x');
  std::string text;
  for (int64_t i = 0; i < kManyLines; ++i) {
    text += "{\"id\":\"" + std::to_string(100'000 + i) + "\",\"prompt\":[1," +
            std::to_string(i % 90 + 10) + ",5],\"max_tokens\":1,\"metadata\":{\"note\":\"" + note +
            "\"}}\n";
  }
  scratch.write("in", text);
  const std::vector<std::string> arguments = {"run",
                                              "model",
                                              "--load-format",
                                              "dummy",
                                              "--skip-tokenizer-init",
                                              "-q",
                                              "-i",
                                              "in",
                                              "-o",
                                              "out",
                                              "--threads",
                                              "1",
                                              "--format",
                                              "ids",
                                              "--max-num-seqs",
                                              "256",
                                              "--cpu-kvcache-space",
                                              "16MiB",
                                              "--status-fd",
                                              "3"};
  Child run(scratch, arguments, [] { dup2(open("status", O_WRONLY | O_CREAT, 0600), 3); });
  std::vector<Sample> samples;
  while (!has_ended(run.pid())) {
    const auto now = sample(run.pid(), scratch.path("out.part"));
    if (now) samples.push_back(*now);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  REQUIRE(run.wait() == 0);
  const auto told = json_lines(scratch.read("status"));
  REQUIRE(told.size() > 2);
  CHECK(told.front()["done"] == 0);  // a sign of life before the first answer
  CHECK(told[told.size() - 2]["done"] == kManyLines);

  const auto all = static_cast<double>(scratch.read("out").size());
  const Sample& begin = nearest(samples, 0.05 * all);
  const Sample& third = nearest(samples, 0.35 * all);
  const Sample& two_thirds = nearest(samples, 0.65 * all);
  const Sample& end = nearest(samples, 0.95 * all);
  REQUIRE(begin.written < third.written);
  REQUIRE(third.written < two_thirds.written);
  REQUIRE(two_thirds.written < end.written);
  const auto seconds_a_byte = [](const Sample& from, const Sample& to) {
    return (to.seconds - from.seconds) / (to.written - from.written);
  };
  // Alike, as it is; twice is what another load of the machine may do.
  CHECK(seconds_a_byte(two_thirds, end) < 2 * seconds_a_byte(begin, third));
#ifndef PLIMSOLL_SANITIZED  // which keeps what was freed
  // Ids and places of records take 100 bytes a line; the lines themselves have 360.
  CHECK(end.resident - third.resident < 250 * kManyLines * 6 / 10);
#endif
}
