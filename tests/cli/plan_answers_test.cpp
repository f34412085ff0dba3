// Answers of `plan` beside its figures: tables of engines and of reports, lists, refusals of
// sizes, what is said where a line is printed to be pasted.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/plan/options.h"
#include "cli/plan/parts.h"
#include "cli/program.h"
#include "plan/report/report.h"
#include "reference/gguf_bytes.h"

using namespace plimsoll;
using namespace plimsoll::test;
using Catch::Contains;

namespace {

const std::string kAnswersLlama = kConfigs + "llama-3.1-8b.json";

cli::PlanOptions options_of(const std::string& flag, const std::string& value) {
  cli::PlanOptions options;
  CLI::App app("", "");
  cli::declare_plan_flags(app, options);
  app.parse(std::vector<std::string>{value, flag});  // CLI11 takes the first from the back
  return options;
}

Outcome planned(const Scratch& scratch, const std::string& flags) {
  return shell(scratch, "plimsoll plan " + flags);
}

}  // namespace

TEST_CASE("the table of engines has a row for each, and below it what was left out and why") {
  plan::PlanResult fits;
  fits.engine = "plimsoll", fits.version = "1.2.3", fits.fits = true;
  fits.weights_bytes = int64_t{18} << 30, fits.kv_tokens = 123456, fits.max_concurrency = 2.5;
  fits.max_model_len = 8192;
  plan::PlanResult lacks = fits;
  lacks.engine = "vllm", lacks.version = "0.24.0", lacks.fits = false;
  lacks.auto_max_model_len = 4096, lacks.max_concurrency = 1.5, lacks.reason = "Too little.";
  lacks.advice = {{.change = "a", .flag = "-a 1", .cost = ""},
                  {.change = "b", .flag = "-b 2", .cost = "", .fits = true},
                  {.change = "c", .flag = "-c 3", .cost = "", .fits = true}};
  plan::PlanResult unknown;
  unknown.engine = "sglang", unknown.version = "0.5.4";
  unknown.notes = {"planned without -x, for which sglang has no flag or value", "estimated"};
  const std::string head =
      "  engine        version   verdict              weights     KV tokens  requests\n";
  const std::string tail =
      "\nsglang: planned without -x, for which sglang has no flag or value\n\nvllm: Too little.\n";
  // A request of 4096 tokens fits 1.5 times, one of 8192 0.75 times.
  CHECK(cli::table_of_all({fits, lacks, unknown}) ==
        head +
            "  plimsoll      1.2.3     fits               18.00 GiB        123456      2.50\n"
            "  vllm          0.24.0    does not fit       18.00 GiB        123456      0.75  fits "
            "with -b 2\n"
            "  sglang        0.5.4     no verdict                 ?             0      0.00\n" +
            tail);
  fits.gpu = lacks.gpu = "H100", fits.gpus = 1, lacks.gpus = 2;
  const std::string table = cli::table_of_all({fits, lacks, unknown});
  CHECK_THAT(table, Contains("2.50  1 x H100\n") && Contains("0.75  2 x H100  fits with -b 2\n"));
  lacks.gpus = 1;
  CHECK_THAT(cli::table_of_all({fits, lacks}), !Contains("1 x H100"));
  lacks.gpu = "A100";
  CHECK_THAT(cli::table_of_all({fits, lacks}), Contains("1 x H100") && Contains("1 x A100"));
}

TEST_CASE("one engine that fits is enough, and none is not") {
  const Scratch scratch;
  const std::string all = kAnswersLlama + " --engine all --gpu ";
  CHECK(planned(scratch, all + "4090 --max-model-len 4096").status == 0);
  CHECK(planned(scratch, all + "4060 --max-model-len 131072").status == 6);
}

TEST_CASE("the list of cards has two totals, a bandwidth and a number of processors") {
  const Scratch scratch;
  const std::string list = planned(scratch, "--gpu list").out;
  CHECK(list.starts_with(
      "name                             nvidia-smi    PyTorch   bandwidth    SM\n"));
  CHECK_THAT(
      list,
      Contains("\nH200-SXM5-141GB                  140.40 GiB 139.80 GiB   4800 GB/s   132\n") &&
          Contains("\nRTX-4090                          23.99 GiB  23.52 GiB   1008 GB/s   "
                   "128\n"));
}

TEST_CASE("--check shows each figure of a report under its name") {
  const Scratch scratch;
  const auto mib = [](int count) { return count << 20; };
  const Json report = {{"memory",
                        {{"planned_bytes", mib(100)},
                         {"parts",
                          {{{"part", "a"},
                            {"planned_bytes", mib(60)},
                            {"measured_bytes", mib(50)},
                            {"used_bytes", mib(40)}},
                           {{"part", "b"}, {"measured_bytes", mib(7)}},
                           {{"part", "c"}, {"planned_bytes", mib(5)}}}},
                         {"device",
                          {{"name", "x"},
                           {"total_bytes", mib(900)},
                           {"budget_bytes", mib(800)},
                           {"free_at_start_bytes", mib(700)},
                           {"peak_bytes", mib(600)}}}}},
                       {"measured_peak_bytes", mib(90)},
                       {"arena_peak_bytes", mib(80)},
                       {"peak_rss_bytes", mib(300)}};
  scratch.write("r", report.dump());
  const std::string table =
      "memory:                         planned      reserved        in use\n"
      "  a                             60.00 MiB     50.00 MiB     40.00 MiB\n"
      "  b                                            7.00 MiB\n"
      "  c                              5.00 MiB\n"
      "  peak of what is planned      100.00 MiB     90.00 MiB\n"
      "  the card's budget            800.00 MiB    600.00 MiB\n"
      "  process on the host                        300.00 MiB\n"
      "  within the plan\n";
  for (const char* command :
       {"plimsoll plan --check r", "plimsoll plan --check - <r", "cat r | plimsoll plan --check -",
        "plimsoll plan --check <(cat r)"}) {
    INFO(command);
    const Outcome outcome = shell(scratch, command);
    CHECK(outcome.status == 0);
    CHECK(outcome.out == table);
  }
  const Outcome large = shell(scratch, "head -c 67108865 /dev/zero | plimsoll plan --check -");
  CHECK(large.status == 5);
  CHECK_THAT(large.err, Contains("--check -: more than 64 MiB"));
  // What begins as JSON is a broken report, and no log.
  scratch.write("cut", "\n {\"memory\":");
  const Outcome cut = planned(scratch, "--check cut");
  CHECK(cut.status == 5);
  CHECK_THAT(cut.err, Contains("--check cut") && !Contains("neither"));
  for (const auto& [text, missing] :
       {std::pair{R"({"measured_peak_bytes":1})", "memory.planned_bytes is missing"},
        std::pair{R"({"memory":{"planned_bytes":1}})", "measured_peak_bytes is missing"}}) {
    scratch.write("part", text);
    CHECK_THAT(planned(scratch, "--check part").err, Contains(missing));
  }
}

TEST_CASE("free memory is read in GiB, and of several cards the least counts") {
  const auto free_of = [](const std::string& text) {
    return *options_of("--free-memory", text).free_memory;
  };
  const engines::FreeMemory several = free_of("before=78.4GiB:77,after=23.1GiB:22.8:24576MiB");
  CHECK(several.before == 77);
  CHECK(several.after == 22.8);
  CHECK(several.each == std::vector<double>{23.1, 22.8, 24});
  CHECK(free_of("after=20:21,before=62").each == std::vector<double>{20, 21});
  CHECK(free_of("before=62,after=62").before == 62);
  CHECK(free_of("after=1048576").after == 1048576);
  for (const char* text : {"before=61.9,after=62", "after=1048577", "after=1,later=2", "after=0",
                           "before=3", "after=4:", "", "after=1.2.3"}) {
    INFO(text);
    CHECK_THROWS_AS(free_of(text), CLI::ParseError);
  }
  const cli::PlanOptions totals = options_of("--gpu-total-memory", "24GiB:12GiB:16GiB");
  CHECK(totals.gpu_totals == std::vector<int64_t>{24LL << 30, 12LL << 30, 16LL << 30});
  CHECK(totals.gpu_total_memory == 12LL << 30);
}

TEST_CASE("cards of llama.cpp are as many as are named, or have a size") {
  const Scratch scratch;
  const std::string file = scratch.path("model.gguf");
  testing::write_gguf_header(read_json_file(std::string(PLIMSOLL_SOURCE_DIR) +
                                            "/tests/data/engines/headers/llama31_8b.Q4_K_M.json"),
                             file);
  struct Row {
    const char *flags, *gpu;
    int64_t cards;
  };
  const std::string llama = file + " --engine llamacpp -c 4096 --format json ";
  for (const Row& row : {Row{"--gpu 4090", "RTX-4090", 1},
                         Row{"--gpu 4090,3090,",
                             "RTX-4090, "
                             "RTX-3090",
                             2},
                         Row{"--gpu 4090 --gpus 3", "RTX-4090, RTX-4090, RTX-4090", 3},
                         Row{"--gpu x --gpu-total-memory 24GiB:12GiB", "x, x", 2},
                         Row{"--gpu x,y --gpu-total-memory 24GiB", "x, y", 2},
                         Row{"--gpu 4090 --free-memory after=20:21:22",
                             "RTX-4090, RTX-4090, "
                             "RTX-4090",
                             3}}) {
    INFO(row.flags);
    const Outcome outcome = planned(scratch, llama + row.flags);
    INFO(outcome.err);
    REQUIRE((outcome.status == 0 || outcome.status == 6));
    const Json json = parse_json<Json>(outcome.out);
    CHECK(json["gpu"] == row.gpu);
    const Json& buffers = json["engine"]["sizing"]["buffers"];
    CHECK(buffers.contains(fmt::format("CUDA{}", row.cards - 1)));
    CHECK_FALSE(buffers.contains(fmt::format("CUDA{}", row.cards)));
  }
  std::string many = "4090";
  for (int i = 1; i < 65; ++i) many += ",4090";
  const Outcome refused = planned(scratch, llama + "--gpu " + many);
  CHECK(refused.status == 2);
  CHECK_THAT(refused.err, Contains("--gpu: 65 cards, at most 64 are planned"));
  CHECK_THAT(planned(scratch, llama + "--gpu 4090 --gpus auto").err, Contains("give --gpus N"));
}

TEST_CASE("a line to paste is the engine's, with what it does not say") {
  const Scratch scratch;
  const std::string vllm = kAnswersLlama + " --engine vllm --max-model-len 8192 ";
  const std::string roomy = vllm + "--gpu 5090 --format ";
  const Json json = parse_json<Json>(planned(scratch, roomy + "json").out);
  const auto edge = [&](const char* which) {
    return json["bounds"]["kv_cache_bytes"][which].get<int64_t>();
  };
  const Outcome fixed = planned(scratch, roomy + "args");
  CHECK(fixed.status == 0);
  CHECK_THAT(fixed.out,
             Catch::EndsWith(fmt::format("--kv-cache-memory-bytes {}\n", edge("middle"))));
  CHECK_THAT(fixed.err,
             Contains("--kv-cache-memory-bytes fixes the KV cache, whatever the boot measures: "
                      "where the rest takes up to " +
                      plan::readable_bytes(edge("middle") - edge("low")) + " more"));
  REQUIRE(json["cold_boot"]["kv_cache_bytes"] < json["kv_cache_bytes"]);
  const int64_t cold =
      json["kv_cache_bytes"].get<int64_t>() - json["cold_boot"]["kv_cache_bytes"].get<int64_t>();
  CHECK_THAT(fixed.err,
             Contains("; without it the first boot has " + plan::readable_bytes(cold) + " less"));
  CHECK(planned(scratch, roomy + "args --kv-cache-memory 10GiB").err.empty());
  const Outcome lacks = planned(scratch, vllm + "--gpu 4060 --format serve");
  CHECK(lacks.status == 6);
  CHECK(lacks.out.empty());
  CHECK_THAT(lacks.err, !Contains("fixes the KV cache") && Contains("CUDA out of memory"));
  const Outcome cardless = planned(scratch, vllm + "--format log");
  CHECK(cardless.out.empty());
  CHECK_THAT(cardless.err, Contains("--format log: name the card, --gpu NAME"));
  const std::string sglang = kAnswersLlama + " --engine sglang --gpu h100 --format ";
  CHECK(planned(scratch, sglang + "args --page-size=16 --disable-cuda-graph").out ==
        "--page-size 16 --disable-cuda-graph\n");
  CHECK(planned(scratch, sglang + "args --engine-version 0.5.4 --cuda-graph-bs 1 2 --page-size 16")
            .out == "--cuda-graph-bs 1 2 --page-size 16\n");
  const Outcome folder = shell(scratch, "plimsoll plan $MODEL --format serve");
  CHECK_THAT(folder.out, Catch::StartsWith("plimsoll run " + kModel + " --max-model-len "));
  CHECK_THAT(folder.err, !Contains("config.json alone"));
}

TEST_CASE("a measured rate is a number above 0, with a point or a unit") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt_token_ids\":[1,2,3],\"max_tokens\":7}\n");
  for (const auto& [text, rate] : {std::pair{"12.5", 12.5}, std::pair{"2k", 2000.0},
                                   std::pair{"0.5", 0.5}, std::pair{"1e3", 1000.0}}) {
    INFO(text);
    const Outcome outcome =
        shell(scratch,
              fmt::format("plimsoll plan $MODEL -i in --format json --tokens-per-second {}", text));
    const Json prompts = parse_json<Json>(outcome.out)["prompts"];
    CHECK(prompts["tokens_per_second"] == rate);
    CHECK(prompts["hours"].get<double>() == Approx(10 / rate / 3600));
  }
  for (const char* report : {"[]", "{}", R"({"seconds":{"run":0},"tokens":{"prompt":5}})",
                             R"({"seconds":{"run":2},"tokens":{"prompt":"5"}})"}) {
    INFO(report);
    scratch.write("r", report);
    const Outcome outcome = shell(scratch, "plimsoll plan $MODEL -i in --rate r");
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains("--tokens-per-second r: expected a number above 0"));
  }
  CHECK(shell(scratch, "plimsoll plan $MODEL -i in --tokens-per-second 12.5x").status != 0);
  scratch.write("r", R"({"seconds":{"run":2},"tokens":{"prompt":5,"completion":4}})");
  const Outcome measured = shell(scratch, "plimsoll plan $MODEL -i in --format json --rate r");
  CHECK(parse_json<Json>(measured.out)["prompts"]["tokens_per_second"] == 4.5);
}

TEST_CASE("--reorder replaces an order with --overwrite alone, and never a run's records") {
  const Scratch scratch;
  scratch.write("in", "\"b c\"\n\n\"a\"\n\"b c\"\n");
  scratch.write("out", "of mine\n");
  const std::string reorder = "plimsoll plan $MODEL -i in --reorder out";
  CHECK(shell(scratch, reorder).status == 8);
  CHECK(scratch.read("out") == "of mine\n");
  CHECK(shell(scratch, reorder + " --overwrite").status == 0);
  CHECK(shell(scratch, "sort out").out == "\"a\"\n\"b c\"\n\"b c\"\n");
  CHECK_FALSE(scratch.has("out.part"));
  scratch.write("out.run.json", "{}");
  const Outcome refused = shell(scratch, reorder + " --overwrite");
  CHECK(refused.status == 8);
  CHECK_THAT(refused.err, Contains("out.run.json is there already"));
}
