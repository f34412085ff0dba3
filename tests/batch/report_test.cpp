// The report at a run's end: lines, and the table of plan and measured.
#include "batch/memory_report.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "base/json.h"
#include "batch/report.h"

using namespace plimsoll;
using namespace plimsoll::batch;

TEST_CASE("the table has no blanks at its ends, and small regions in one line") {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  MemoryReport report;
  report.lines = {{"weights", 8 * kMiB, 8 * kMiB, {}},
                  {"table", 1000, 1000, {}},
                  {"ids", 500, 400, {}},
                  {"scratch", 4 * kMiB, 4 * kMiB, 3 * kMiB},
                  {"process", {}, 20 * kMiB, {}}};
  report.planned = 12 * kMiB + 1500;
  report.measured_peak = 11 * kMiB;
  const std::vector<std::string> table = memory_table(report);
  for (const std::string& line : table) {
    INFO(line);
    CHECK(line.size() <= 80);
    CHECK(line.back() != ' ');
  }
  const auto has = [&](const std::string& text) {
    return std::ranges::any_of(
        table, [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  CHECK(has("weights                        8.00 MiB      8.00 MiB"));
  CHECK(has("scratch                        4.00 MiB      4.00 MiB      3.00 MiB"));
  CHECK(has("2 regions below 1 MiB"));
  CHECK(!has("ids"));
  CHECK(!exceeds_plan(report));
}

TEST_CASE("a run that ended within its first step tells its lines alone") {
  RunReport report;
  report.counts.lines = 5;
  report.counts.ok = 3;
  report.counts.failed = 1;
  report.counts.failed_by_code = {{"bad_field", 1}};
  const std::string lines = "3 of 5 lines answered, 1 failed (1 bad_field), 1 left";
  CHECK(summary_lines(report) == std::vector{lines});
  RunReport empty;
  CHECK(summary_lines(empty) ==
        std::vector<std::string>{"nothing was answered: the input, or what --part, --skip and "
                                 "--limit leave, has no lines"});
  empty.counts.ending = Ending::stopped;  // before a line was read
  CHECK(summary_lines(empty).front() == "0 of 0 lines answered");
  report.memory.lines = {{"weights", 1, 1, {}}};
  const std::vector<std::string> all = summary_lines(report);
  CHECK(all.front() == lines);
  CHECK(all.size() > 4);
}

namespace {

/// A report in which every figure is another one.
RunReport full_report() {
  RunReport report;
  report.version = "1.2";
  report.model = "m";
  report.device = "d";
  report.isa = "i";
  report.threads = 2;
  report.dtype = "bfloat16";
  report.seed = 3;
  report.exit_status = 10;
  report.load_seconds = 0.5;
  report.run_seconds = 2;
  report.publish_seconds = 0.25;
  report.notes = {"n"};
  RunCounts& counts = report.counts;
  counts.ending = Ending::time_limit;
  counts.lines = 60;
  counts.total = 100;
  counts.resumed = 5;
  counts.ok = 40;
  counts.failed = 12;
  counts.failed_by_code = {{"a", 8}, {"b", 4}};
  counts.unknown_fields = {{"x", 6}};
  counts.prompt_tokens = 1000;
  counts.cached_tokens = 300;
  counts.completion_tokens = 500;
  counts.dropped_tokens = 70;
  counts.tools = {.lines = 21, .calls = 22, .untried = 23, .unread = 3, .unread_cut = 2};
  counts.structured = {.lines = 24, .refused = 25, .answers = 26, .cut = 4};
  report.grammars = {27, 28.5};
  report.order = {.asked = Order::automatic,
                  .used = Order::prefix,
                  .reason = "why",
                  .in_file_order = ScheduleForecast{31, 32, 33, 34, 35, 36},
                  .in_prefix_order = ScheduleForecast{41, 42, 43, 44, 45, 46},
                  .survey_seconds = 1.5,
                  .choose_seconds = 2.5};
  report.stats = {.steps = 51,
                  .prompt_tokens = 52,
                  .cached_prompt_tokens = 53,
                  .generated_tokens = 54,
                  .drafted_tokens = 55,
                  .kept_tokens = 56,
                  .forced_tokens = 68,
                  .kept_forced_tokens = 67,
                  .preemptions = 57,
                  .encoded_images = 58,
                  .prefix_queries_tokens = 59,
                  .peak_running = 61,
                  .kv_blocks = 62,
                  .kv_blocks_used = 63,
                  .kv_blocks_peak = 64,
                  .prefill_seconds = 3.5,
                  .decode_seconds = 4.5,
                  .encode_seconds = 5.5};
  report.prepared.count = 65;
  report.prepared.processor_seconds = 6.5;
  report.plan.max_model_len = 71;
  report.plan.max_num_seqs = 72;
  report.plan.max_num_batched_tokens = 73;
  report.plan.num_kv_blocks = 74;
  report.plan.kv_block_bytes = 75;
  report.plan.total_bytes = 76;
  report.plan.regions = {{"weights", 0, 77}};
  report.memory.lines = {{"weights", 81, 82, 80}, {"beside", 83, {}, {}}};
  report.memory.planned = 84;
  report.memory.measured_peak = 79;
  report.memory.arena_peak = 78;
  report.memory.peak_rss = 85;
  report.memory.device = {.name = "c", .total = 91, .budget = 92, .free_at_start = 93, .peak = 94};
  report.ranks = {{.copy = 1,
                   .tensor_rank = 2,
                   .tensor_ranks = 4,
                   .first_layer = 3,
                   .layers = 5,
                   .planned = 86,
                   .placed = 87,
                   .arena_peak = 88,
                   .read = 3 << 20},
                  {.first_layer = 8, .layers = 1, .read = {}}};
  return report;
}

}  // namespace

TEST_CASE("each figure of a report stands under its own key") {
  const Json expected = Json::parse(R"({
    "schema_version": 1, "version": "1.2", "model": "m", "device": "d", "isa": "i", "threads": 2,
    "dtype": "bfloat16", "seed": 3, "ending": "time_limit", "exit_status": 10,
    "lines": {"total": 100, "ok": 40, "failed": 12, "resumed": 5, "not_finished": 48,
              "failed_by_code": {"a": 8, "b": 4}, "unknown_fields": {"x": 6}},
    "tokens": {"prompt": 1000, "cached": 300, "completion": 500, "dropped": 70,
               "prompt_per_second": 500, "completion_per_second": 250},
    "tools": {"lines": 21, "calls": 22, "unread_answers": 3, "unread_cut_answers": 2, "lines_without_parser": 23},
    "structured": {"lines": 24, "refused_lines": 25, "answers": 26, "cut_answers": 4,
                   "forced_tokens": 68, "kept_forced_tokens": 67, "grammars": 27, "compile_seconds": 28.5},
    "order": {"asked": "auto", "used": "prefix", "reason": "why",
              "in_file_order": {"prompt": 31, "cached": 32, "steps": 34, "kv_blocks_peak": 36},
              "in_prefix_order": {"prompt": 41, "cached": 42, "steps": 44, "kv_blocks_peak": 46},
              "survey_seconds": 1.5, "choose_seconds": 2.5},
    "engine": {"steps": 51, "peak_running": 61, "preemptions": 57, "prefix_hit_tokens": 53,
               "prefix_query_tokens": 59, "prefill_tokens": 52, "generated_tokens": 54,
               "drafted_tokens": 55, "kept_drafted_tokens": 56, "kv_blocks": 62,
               "kv_blocks_peak": 64},
    "images": {"prepared": 65, "prepare_seconds": 6.5, "encoded": 58, "encode_seconds": 5.5},
    "plan": {"max_model_len": 71, "max_num_seqs": 72, "max_num_batched_tokens": 73,
             "kv_blocks": 74, "kv_block_bytes": 75, "total_bytes": 76,
             "regions": [{"name": "weights", "bytes": 77}]},
    "memory": {"planned_bytes": 84, "within_plan": false,
               "parts": [{"part": "weights", "planned_bytes": 81, "measured_bytes": 82,
                          "used_bytes": 80}, {"part": "beside", "planned_bytes": 83}],
               "device": {"name": "c", "total_bytes": 91, "budget_bytes": 92,
                          "free_at_start_bytes": 93, "peak_bytes": 94}},
    "measured_peak_bytes": 79, "arena_peak_bytes": 78, "peak_rss_bytes": 85,
    "ranks": [{"rank": 0, "copy": 1, "tensor_rank": 2, "first_layer": 3, "layers": 5,
               "planned_bytes": 86, "measured_bytes": 87, "arena_peak_bytes": 88,
               "checkpoint_bytes_read": 3145728},
              {"rank": 1, "copy": 0, "tensor_rank": 0, "first_layer": 8, "layers": 1,
               "planned_bytes": 0, "measured_bytes": 0, "arena_peak_bytes": 0}],
    "seconds": {"load": 0.5, "run": 2, "publish": 0.25, "prefill_steps": 3.5,
                "decode_steps": 4.5},
    "notes": ["n"]})");
  const Json found = Json::parse(report_json(full_report()));
  for (const auto& [key, value] : expected.items()) {
    INFO(key);
    CHECK(found[key] == value);
  }
  CHECK(found.size() == expected.size());
}

TEST_CASE("the summary tells each figure once, and nothing of what did not happen") {
  RunReport report = full_report();
  std::vector<std::string> lines = summary_lines(report);
  const std::vector<std::string> table = memory_table(report.memory);
  REQUIRE(lines.size() > table.size());
  lines.resize(lines.size() - table.size());
  CHECK(lines ==
        std::vector<std::string>{
            "40 of 100 lines answered, 12 failed (8 a, 4 b), 48 left; 5 by earlier lives",
            "tokens: 1000 in (300 from the prefix cache), 500 out; 500.0 in/s, 250.0 out/s",
            "order: prefix (why)", "70 tokens were cut from long prompts",
            "time: load 0.50 s, run 2.00 s, publish 0.25 s",
            "tools: 22 calls in the answers to 21 lines",
            "tools: 3 answers with a call that could not be read, and stayed text (2 cut at "
            "max_tokens)",
            "tools: calls were not looked for in the answers to 23 lines, because how the model "
            "writes them is not known (--tool-call-parser NAME)",
            "structured: 26 answers (4 cut at max_tokens); 27 grammars compiled or refused in "
            "28.50 s; the form that 25 "
            "lines "
            "asked for was refused",
            "engine: at most 61 running, 57 preemptions, KV blocks 64 of 62 at the peak",
            "jump ahead: 67 of 68 tokens of forced text were drawn",
            "speculation: 56 of 55 proposed tokens were drawn",
            "rank 0: layers 3-7, share 3 of 4, 3.0 MiB of the checkpoint read",
            "rank 1: layers 8-8"});
  report.counts.dropped_tokens = report.stats.drafted_tokens = report.stats.forced_tokens = 0;
  report.counts.tools = {};
  report.counts.structured = {};
  report.ranks.clear();
  CHECK(summary_lines(report).size() == 5 + table.size());
  CHECK_FALSE(Json::parse(report_json(report)).contains("structured"));
}

TEST_CASE("a rank's regions are summed, scratch as far as it was in use") {
  MemoryReport report;
  const std::vector<engine::MeasuredRegion> regions = {
      {"weights", 100, 90, {}}, {"scratch", 50, 40, 30}, {"kv blocks", 20, 10, 5}};
  const RankReport rank = add_rank(report, regions, "rank 0: ");
  CHECK(rank.planned == 170);
  CHECK(rank.placed == 140);
  CHECK(rank.arena_peak == 90 + 30 + 10);
  add_rank(report, regions, "rank 1: ");
  CHECK(report.planned == 340);
  CHECK(report.arena_peak == 260);
  CHECK(report.measured_peak == 260);
  REQUIRE(report.lines.size() == 6);
  CHECK(report.lines[4].part == "rank 1: scratch");
  CHECK(report.lines[4].planned == 50u);
  CHECK(report.lines[4].measured == 40u);
  CHECK(report.lines[4].used == 30u);
  CHECK(!report.lines[3].used);
  const MemoryReport host = host_memory_report(regions, 7);
  CHECK(host.peak_rss == 7);
  CHECK(host.planned == 170);
  CHECK(host.lines[0].part == "weights");
}

TEST_CASE("a plan is exceeded by a byte more, in whole, in part or on the card") {
  const auto exceeded = [](auto change) {
    MemoryReport report;
    report.lines = {{"a", 10, 10, 10}, {"b", {}, 99, 99}, {"c", 10, {}, {}}};
    report.planned = 20;
    report.measured_peak = 20;
    report.device = {.name = "d", .total = 40, .budget = 30, .free_at_start = 40, .peak = 30};
    change(report);
    return exceeds_plan(report);
  };
  CHECK(!exceeded([](MemoryReport&) {}));
  CHECK(exceeded([](MemoryReport& report) { report.measured_peak = 21; }));
  CHECK(exceeded([](MemoryReport& report) { report.lines[0].measured = 11; }));
  CHECK(exceeded([](MemoryReport& report) { report.lines[0].used = 11; }));
  CHECK(exceeded([](MemoryReport& report) { report.device->peak = 31; }));
  CHECK(!exceeded([](MemoryReport& report) { report.device.reset(); }));
}

TEST_CASE("the table's last lines are the peak, the card and the host, each in its column") {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  MemoryReport report;
  report.lines = {{"at a MiB", kMiB, kMiB, {}},
                  {"just below", kMiB - 1, kMiB - 1, {}},
                  {"above its plan", 5, 6, {}}};
  report.planned = 2 * kMiB;
  report.measured_peak = 3 * kMiB;
  report.peak_rss = 4 * kMiB;
  report.device = {
      .name = "c", .total = 9 * kMiB, .budget = 6 * kMiB, .free_at_start = kMiB, .peak = 5 * kMiB};
  CHECK(memory_table(report) ==
        std::vector<std::string>{
            "memory:                         planned      reserved        in use",
            "  at a MiB                       1.00 MiB      1.00 MiB",
            "  above its plan                 0.00 MiB      0.00 MiB",
            "  1 regions below 1 MiB          1.00 MiB      1.00 MiB",
            "  peak of what is planned        2.00 MiB      3.00 MiB",
            "  the card's budget              6.00 MiB      5.00 MiB",
            "  process on the host                          4.00 MiB", "  the plan was exceeded"});
}
