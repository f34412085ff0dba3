// Each default of SGLang that changed with a release, before its date and at it.
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "engines/engine.h"
#include "engines/sglang/fraction.h"
#include "engines/sglang/releases.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

Answer ask_release(const char* version, std::vector<std::string> words,
                   const Json& changes = Json::object()) {
  Json config = read_json_file(std::string(PLIMSOLL_SOURCE_DIR) +
                               "/tests/data/engines/configs/meta-llama__Meta-Llama-3.1-8B.json");
  config.merge_patch(changes);
  Question question;
  question.config = &config;
  question.config_path = "config.json";
  question.words = std::move(words);
  question.version = version;
  question.gpu = &hardware::find_gpu("h100");
  return find_engine("sglang")->ask(question);
}

}  // namespace

TEST_CASE("defaults of every size of card change at their release and not before") {
  struct Row {
    Version version;
    int64_t mib, chunk, graphs, graphs_of_many;
  };
  const Row rows[] = {
      {{0, 4, 4}, 20479, 2048, 8, 80},      {{0, 5, 2}, 20479, 2048, 8, 80},
      {{0, 5, 3}, 20479, 2048, 8, 8},       {{0, 5, 23}, 20479, 2048, 8, 8},
      {{0, 4, 4}, 20480, 2048, 8, 80},      {{0, 5, 2}, 20480, 2048, 8, 80},
      {{0, 4, 6}, 24999, 2048, 8, 80},      {{0, 4, 6}, 25000, 8192, 160, 160},
      {{0, 5, 4}, 24999, 2048, 24, 80},     {{0, 4, 7}, 25000, 2048, 8, 80},
      {{0, 5, 3}, 20480, 2048, 16, 80},     {{0, 5, 4}, 20480, 2048, 24, 80},
      {{0, 5, 20}, 35839, 2048, 24, 80},    {{0, 5, 21}, 35839, 4096, 48, 160},
      {{0, 4, 4}, 35840, 8192, 160, 160},   {{0, 5, 2}, 61439, 8192, 160, 160},
      {{0, 5, 3}, 35840, 4096, 32, 160},    {{0, 5, 23}, 61439, 4096, 32, 160},
      {{0, 4, 4}, 61440, 8192, 160, 160},   {{0, 5, 2}, 163839, 8192, 160, 160},
      {{0, 5, 3}, 61440, 8192, 256, 512},   {{0, 5, 23}, 163839, 8192, 256, 512},
      {{0, 4, 6}, 163840, 8192, 160, 160},  {{0, 4, 7}, 163840, 16384, 160, 160},
      {{0, 5, 2}, 163840, 16384, 160, 160}, {{0, 5, 3}, 163840, 16384, 512, 512},
  };
  for (const Row& row : rows) {
    INFO(model::version_text(row.version) << " " << row.mib);
    const sglang::Tier tier = sglang::tier_of(row.version, row.mib);
    CHECK(tier.chunk == row.chunk);
    CHECK(tier.graphs == row.graphs);
    CHECK(tier.graphs_of_many == row.graphs_of_many);
  }
  for (const Version version : {Version{0, 4, 4}, Version{0, 5, 23}}) {
    const sglang::Tier unknown = sglang::tier_of(version, std::nullopt);
    CHECK(unknown.chunk == 4096);
    CHECK(unknown.graphs == 160);
    CHECK(unknown.graphs_of_many == 160);
  }
}

TEST_CASE("rules of SGLang's fraction change at their release and not before") {
  using Inputs = sglang::FractionInputs;
  using Change = std::function<void(Inputs&)>;
  const Change plain = [](Inputs&) {};
  const Change eight = [](Inputs& in) { in.tp = 8; };
  const Change prefill = [](Inputs& in) { in.prefill_sizes = 50; };
  const Change latent = [](Inputs& in) { in.prefill_sizes = 50, in.latent = true; };
  const Change drafts = [](Inputs& in) { in.speculation = "EAGLE"; };
  const Change deepep = [](Inputs& in) { in.deepep = true; };
  const Change off = [](Inputs& in) { in.decode_graphs = false; };
  struct Row {
    const char* name;
    const Change& change;
    Version last, first;  // of the old rule and of the new one
    int64_t mib;
    double before, after;
  };
  // Of 100000 MiB the reserve takes 512 + 1.5 x 8192 + 128 + 2 x 256 = 13440: 0.866.
  const Row rows[] = {
      {"large cards do not count ranks", eight, {0, 4, 5}, {0, 4, 6}, 98304, 0.81, 0.88},
      {"a reserve in GiB by the card", plain, {0, 4, 6}, {0, 4, 7}, 81920, 0.88, 0.875},
      {"a reserve in MiB", plain, {0, 5, 2}, {0, 5, 3}, 100000, 0.872, 0.866},
      {"a fourth of the chunk", prefill, {0, 5, 4}, {0, 5, 5}, 100000, 0.866, 0.845},
      {"an eighth of it", prefill, {0, 5, 5}, {0, 5, 6}, 100000, 0.845, 0.855},
      {"8 MiB a size", prefill, {0, 5, 7}, {0, 5, 8}, 100000, 0.855, 0.862},
      {"1536 MiB of a latent's", latent, {0, 5, 9}, {0, 5, 10}, 100000, 0.862, 0.85},
      {"4 GiB of drafts", drafts, {0, 5, 9}, {0, 5, 10}, 100000, 0.845, 0.825},
      {"none of drafts", drafts, {0, 5, 14}, {0, 5, 15}, 100000, 0.825, 0.866},
      {"2 GiB of DeepEP", deepep, {0, 5, 14}, {0, 5, 15}, 100000, 0.866, 0.845},
      {"no graphs, no reserve", off, {0, 5, 14}, {0, 5, 15}, 100000, 0.866, 0.871},
      // What stays as it was where the rest of a rule changes.
      {"2 GiB of drafts", drafts, {0, 5, 3}, {0, 5, 5}, 100000, 0.845, 0.845},
      {"2 GiB of drafts", drafts, {0, 5, 6}, {0, 5, 8}, 100000, 0.845, 0.845},
      {"graphs that are off", off, {0, 5, 3}, {0, 5, 5}, 100000, 0.866, 0.866},
      {"graphs that are off", off, {0, 5, 6}, {0, 5, 8}, 100000, 0.866, 0.866},
      {"1536 MiB of a latent's", latent, {0, 5, 15}, {0, 5, 21}, 100000, 0.85, 0.85},
      {"8 MiB a size", prefill, {0, 5, 15}, {0, 5, 21}, 100000, 0.862, 0.862},
      {"2 GiB of DeepEP", deepep, {0, 5, 15}, {0, 5, 21}, 100000, 0.845, 0.845},
      {"no graphs", off, {0, 5, 15}, {0, 5, 21}, 100000, 0.871, 0.871},
      {"no drafts", drafts, {0, 5, 15}, {0, 5, 21}, 100000, 0.866, 0.866},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Inputs inputs;
    inputs.card_mib = row.mib;
    inputs.chunk = 8192;
    inputs.max_prefill = 16384;
    inputs.largest_decode_graph = 256;
    row.change(inputs);
    inputs.version = row.last;
    CHECK(sglang::default_fraction(inputs) == Approx(row.before).epsilon(1e-9));
    inputs.version = row.first;
    CHECK(sglang::default_fraction(inputs) == Approx(row.after).epsilon(1e-9));
  }
}

TEST_CASE("the bounds of cards and graphs in SGLang's fraction are where it has them") {
  using Inputs = sglang::FractionInputs;
  const auto fraction = [](Version version, int64_t mib, auto change) {
    Inputs inputs;
    inputs.version = version;
    inputs.card_mib = mib;
    inputs.chunk = 8192;
    inputs.max_prefill = 16384;
    inputs.largest_decode_graph = 256;
    change(inputs);
    return sglang::default_fraction(inputs);
  };
  const auto plain = [](Inputs&) {};
  const auto is = [](double value) { return Approx(value).epsilon(1e-9); };
  // GiB: (gib - 2.8 - 0.1) / gib, then 10, 12.5 and 32 of it.
  CHECK(fraction({0, 4, 7}, 35 * 1024 - 1, plain) == is(0.917));
  CHECK(fraction({0, 4, 7}, 90 * 1024 - 1, plain) == is(0.889));
  CHECK(fraction({0, 4, 7}, 160 * 1024 - 1, plain) == is(0.922));
  // The floor of 10240 MiB is that of cards above 61440: 512 + 3072 + 128 + 512 = 4224 else.
  const auto small = [](Inputs& in) { in.chunk = 2047; };
  CHECK(fraction({0, 5, 15}, 61440, small) == is(0.931));
  CHECK(fraction({0, 5, 15}, 61441, small) == is(0.833));
  // 3 x 300 x 4 of four attention ranks; above 300 half as much more: 12928 + 2 x 300 + 3600.
  const auto graphs = [](int64_t largest) {
    return [=](Inputs& in) { in.attention_dp = 4, in.largest_decode_graph = largest; };
  };
  CHECK(fraction({0, 5, 15}, 100000, graphs(300)) == is(0.829));
  CHECK(fraction({0, 5, 15}, 100000, graphs(301)) == is(0.811));
  // A step of DeepEP without graphs, or with graphs that do not break, takes nothing more.
  CHECK(fraction({0, 5, 15}, 100000,
                 [](Inputs& in) { in.deepep = true, in.decode_graphs = false; }) == is(0.871));
  CHECK(fraction({0, 5, 15}, 100000, [](Inputs& in) {
          in.breakable_prefill = true, in.prefill_sizes = 50;
        }) == is(0.862));
  CHECK(fraction({0, 5, 15}, 100000, [](Inputs& in) { in.latent = true; }) == is(0.866));
  CHECK(fraction({0, 5, 15}, 0, plain) == is(0.88));  // a card of 0 MiB is not known
  // Standalone drafts take 6 GiB where any take some, and a card's reserve knows no n-grams.
  const auto asks = [](const char* algorithm) {
    return [=](Inputs& in) { in.speculation = algorithm; };
  };
  CHECK(fraction({0, 5, 1}, 100000, asks("STANDALONE")) == is(0.852));
  CHECK(fraction({0, 5, 2}, 100000, asks("STANDALONE")) == is(0.811));
  CHECK(fraction({0, 5, 3}, 100000, asks("STANDALONE")) == is(0.804));
  CHECK(fraction({0, 5, 15}, 100000, asks("STANDALONE")) == is(0.866));
  CHECK(fraction({0, 4, 4}, 81559, [](Inputs& in) { in.tp = 3; }) == is(0.87));
  CHECK(fraction({0, 4, 4}, 81559, [](Inputs& in) { in.tp = 7; }) == is(0.85));
  CHECK(fraction({0, 4, 4}, 81559, [](Inputs& in) { in.tp = 15; }) == is(0.81));
  // 98304 MiB are no large card yet; 18 GiB and 49152 (1 - f) meet where f is 0.625.
  CHECK(fraction({0, 4, 6}, 98305, plain) == is((98305 - 18432) / 98305.0));
}

TEST_CASE("images make the fraction of SGLang smaller from 0.4.9 on") {
  const Json images = {{"vision_config", {{"num_hidden_layers", 24}, {"hidden_size", 1024}}}};
  const auto fraction = [&](const char* version, std::vector<std::string> words) {
    return ask_release(version, std::move(words), images)
        .resolved["mem_fraction_static"]
        .get<double>();
  };
  CHECK(fraction("0.4.8", {}) == Approx(0.874));
  CHECK(fraction("0.4.9", {}) == Approx(0.874 * 0.95));
  CHECK(fraction("0.4.9", {"--mem-fraction-static", "0.874"}) == 0.874);
}

TEST_CASE("each former name of SGLang's flags has its last release") {
  struct Row {
    std::vector<std::string> words;
    const char *last, *next;
    const char* says;        // of the next
    std::string taken = {};  // said of the last
  };
  const char* const kUnknown = "unrecognized arguments";
  const std::string moves_none = ": taken; it moves no memory that is planned";
  const Row rows[] = {
      {{"--cuda-graph-max-bs", "8"}, "0.5.19", "0.5.20", "ambiguous option"},
      {{"--cuda-graph-bs=8"}, "0.5.19", "0.5.20", "ambiguous option"},
      {{"--disable-piecewise-cuda-graph"}, "0.5.19", "0.5.20", kUnknown},
      {{"--enable-piecewise-cuda-graph"}, "0.5.9", "0.5.10", kUnknown},
      {{"--enforce-piecewise-cuda-graph"}, "0.5.19", "0.5.20", kUnknown},
      {{"--enable-breakable-cuda-graph"}, "0.5.19", "0.5.20", kUnknown},
      {{"--piecewise-cuda-graph-max-tokens", "64"}, "0.5.19", "0.5.20", kUnknown},
      {{"--piecewise-cuda-graph-tokens", "64"}, "0.5.19", "0.5.20", kUnknown},
      {{"--mamba-scheduler-strategy", "extra_buffer"}, "0.5.19", "0.5.20", kUnknown},
      {{"--enable-deepep-moe"}, "0.5.0", "0.5.1", "--enable-deepep-moe: taken"},
      {{"--nsa-prefill-backend", "fa3"},
       "0.5.19",
       "0.5.20",
       kUnknown,
       "--dsa-prefill-backend" + moves_none},
      {{"--nsa-decode-backend", "fa3"},
       "0.5.19",
       "0.5.20",
       kUnknown,
       "--dsa-decode-backend" + moves_none},
  };
  const Engine& engine = *find_engine("sglang");
  const auto said = [](const char* version, const std::vector<std::string>& words) {
    const Answer answer = ask_release(version, words);
    std::string text = answer.refused ? answer.refused->words : "";
    for (const std::string& note : answer.notes) text += note;
    return text;
  };
  for (const Row& row : rows) {
    INFO(row.words.front());
    CHECK(said(row.last, row.words) == row.taken);
    CHECK_THAT(said(row.next, row.words), Catch::Contains(row.says));
    const auto last = engine.last_release(row.words);
    REQUIRE(last);
    CHECK(model::version_text(*last) == row.last);
  }
  const auto last_of = [&](const std::vector<std::string>& words) {
    return engine.last_release(words);
  };
  CHECK(!last_of({"--tp", "2", "--cuda-graph-max-bs-decode", "8"}));
  CHECK(last_of({"--cuda-graph-bs", "8", "--enable-deepep-moe"}) == Version{0, 5, 0});
  CHECK(last_of({"--enable-deepep-moe", "--cuda-graph-bs", "8"}) == Version{0, 5, 0});
}
