// Order, speculation, limits of a step, ranks, parts and disturbances: every pair of their values
// occurs in a run, and each run's output has the bytes of the plain one. A disturbed run goes on
// with the flags of the next row.
#include <catch2/catch.hpp>
#include <set>
#include <tuple>

#include "cli/drafts.h"
#include "cli/program.h"

using namespace plimsoll;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

const std::string kPromptLookup =
    R"(--speculative-config '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":3}')";

const std::vector<std::vector<std::string>> kFactors = {
    {"", "-tp 2", "-pp 2", "-dp 2"},
    {"--order file", "--order prefix", "--order auto"},
    {"", kPromptLookup, test::drafting("draft")},
    {"--max-num-seqs 1", "--max-num-seqs 4", "--max-num-seqs auto"},
    {"", "--max-num-batched-tokens 16", "--max-num-batched-tokens auto"},
    {"whole", "killed", "stopped"},
    {"one", "parts"}};
constexpr size_t kRanks = 0, kSpeculation = 2, kDisturbance = 5, kOutput = 6;

using Row = std::vector<size_t>;                          // a value of each factor
using Pair = std::tuple<size_t, size_t, size_t, size_t>;  // a factor and its value, and another

/// False for a draft model on ranks that share the model, which is refused.
bool may_be(size_t factor, size_t value, size_t other, size_t other_value) {
  const bool shared = factor == kRanks && (value == 1 || value == 2);
  return !(shared && other == kSpeculation && other_value == 2);
}

Pair pair_of(size_t a, size_t value, size_t b, size_t other) {
  return a < b ? Pair{a, value, b, other} : Pair{b, other, a, value};
}

/// Rows in which each pair occurs that may be: each begins with a pair that is left and takes the
/// values with which most others are gone.
std::vector<Row> rows_of_pairs() {
  std::set<Pair> left;
  for (size_t a = 0; a < kFactors.size(); ++a)
    for (size_t b = a + 1; b < kFactors.size(); ++b)
      for (size_t i = 0; i < kFactors[a].size(); ++i)
        for (size_t j = 0; j < kFactors[b].size(); ++j)
          if (may_be(a, i, b, j)) left.insert({a, i, b, j});
  constexpr size_t kOpen = 99;
  std::vector<Row> rows;
  while (!left.empty()) {
    Row row(kFactors.size(), kOpen);
    const auto [a, value, b, other] = *left.begin();
    row[a] = value;
    row[b] = other;
    for (size_t factor = 0; factor < row.size(); ++factor) {
      if (row[factor] != kOpen) continue;
      int most = -1;
      size_t best = 0;
      for (size_t i = 0; i < kFactors[factor].size(); ++i) {
        int gone = 0;
        for (size_t set = 0; set < row.size(); ++set) {
          if (row[set] == kOpen) continue;
          const Pair pair = pair_of(factor, i, set, row[set]);
          const auto& [low, x, high, y] = pair;
          if (!may_be(low, x, high, y)) gone = -100;
          gone += static_cast<int>(left.count(pair));
        }
        if (gone <= most) continue;
        most = gone;
        best = i;
      }
      row[factor] = best;
    }
    for (size_t x = 0; x < row.size(); ++x)
      for (size_t y = x + 1; y < row.size(); ++y) left.erase({x, row[x], y, row[y]});
    rows.push_back(row);
  }
  return rows;
}

std::string flags_of(const Row& row) {
  std::string flags;
  for (size_t factor = 0; factor < kDisturbance; ++factor)
    flags += " " + kFactors[factor][row[factor]];
  return flags;
}

/// Lines that share beginnings, that repeat themselves, that are drawn, scored, constrained, or
/// broken.
std::string unlike_lines() {
  std::string lines;
  for (int i = 0; i < 8; ++i) {
    std::string ids;
    for (int token = 0; token < 40; ++token) ids += std::to_string(300 + i % 2 * 50 + token) + ",";
    lines += "{\"prompt_token_ids\":[" + ids + std::to_string(400 + i) +
             "],\"max_tokens\":" + std::to_string(3 + i) + ",\"temperature\":0.8}\n";
  }
  return lines +
         R"({"prompt":"To be, or not to be","max_tokens":24,"temperature":0,"ignore_eos":true})"
         "\n{broken\n"
         R"({"prompt":"my lord, my lord, my","max_tokens":16,"temperature":0.6,"logprobs":2})"
         "\n"
         R"({"prompt":["Enter","Exit"],"n":2,"seed":5,"max_tokens":6})"
         "\n"
         R"({"prompt":"one","max_tokens":24,"structured_outputs":{"regex":"(ab ){10}"}})"
         "\n"
         R"({"prompt":"O","max_tokens":12,"ignore_eos":true})"
         "\n";
}

}  // namespace

TEST_CASE("no pair of order, speculation, limits, ranks, parts and kills changes a byte",
          "[kills]") {
  const Scratch scratch;
  scratch.write("in", unlike_lines());
  test::write_draft(scratch, "draft", {{"num_hidden_layers", 1}});
  const std::string run = "run $MODEL -q -i in --threads 1";
  REQUIRE(shell(scratch, "plimsoll " + run + " -o plain").status == 3);
  const std::vector<Row> rows = rows_of_pairs();
  CHECK(rows.size() < 20);
  uint64_t resumed = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::string flags = flags_of(row), then = flags_of(rows[(i + 1) % rows.size()]);
    const std::string& disturbance = kFactors[kDisturbance][row[kDisturbance]];
    const bool parts = kFactors[kOutput][row[kOutput]] == "parts";
    INFO(flags << ", " << disturbance << (parts ? ", in parts" : ""));
    const std::string to = parts ? " --part 0/2 -o first" : " -o out";
    std::string script = "rm -f out out.* first first.* second second.* report; ";
    if (disturbance != "whole") {
      const std::string file = parts ? "first" : "out";
      script += "\"$PROGRAM\" " + run + flags + to +
                " --grace 0s & for i in $(seq 3000); do test -s " + file + ".part -o -e " + file +
                " && break; sleep 0.002; done; kill -" +
                (disturbance == "killed" ? "KILL" : "TERM") + " $!; wait $!; ";
    }
    script +=
        "plimsoll " + run + (disturbance == "whole" ? flags : then) + to + " --report report; ";
    if (parts) {
      script += "plimsoll " + run + flags +
                " --part 1/2 -o second; "
                "plimsoll run -q --merge first second -o out; ";
    }
    const Outcome outcome = shell(scratch, script + "cmp plain out");
    INFO(outcome.err);
    CHECK(outcome.status == 0);
    if (scratch.has("report"))
      resumed += parse_json<Json>(scratch.read("report"))["lines"]["resumed"].get<uint64_t>();
  }
  CHECK(resumed > 0);
}
