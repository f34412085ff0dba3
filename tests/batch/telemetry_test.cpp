// Figures of a run: a line for people at any width, JSON lines, Prometheus' text form.
#include "batch/telemetry.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <sstream>

#include "base/json.h"

using namespace plimsoll;
using namespace plimsoll::batch;

namespace {

ProgressSample some() {
  ProgressSample sample;
  sample.done = 769;
  sample.failed = 3;
  sample.total = 4000;
  sample.fraction = 0.19225;
  sample.tokens_in = 123456;
  sample.tokens_out = 45678;
  sample.running = 256;
  sample.waiting = 255;
  sample.kv_use = 0.57;
  sample.seconds = 60;
  return sample;
}

}  // namespace

TEST_CASE("what matters least is left out when there is no room") {
  const std::string whole = describe(some());
  CHECK(whole ==
        "769/4000 lines (3 failed), 19 %, in 2058 out 761 tok/s, running 256 (+255), KV 57 %, 4:12 "
        "left");
  CHECK(describe(some(), 80) ==
        "769/4000 lines (3 failed), 19 %, in 2058 out 761 tok/s, 4:12 left");
  CHECK(describe(some(), 45) == "769/4000 lines (3 failed), 19 %, 4:12 left");
  CHECK(describe(some(), 1) == "769/4000 lines (3 failed)");
}

TEST_CASE("the bar is there at 80 columns") {
  std::string shown;
  Progress progress(ProgressMode::bar, 80, [&](std::string_view bytes) { shown += bytes; });
  progress.tick(Clock::now(), some);
  CHECK_THAT(shown, Catch::Contains("[#"));
  CHECK_THAT(shown, Catch::Contains("left"));
  CHECK(shown.size() < 85);
}

TEST_CASE("status lines and metrics hold the sample") {
  const Json json = parse_json<Json>(status_json(some(), 1 << 20));
  CHECK(json ==
        parse_json<Json>(R"({"event": "status", "phase": "running", "done": 769, "failed": 3,
      "total": 4000, "order": null, "tokens_in": 123456, "tokens_out": 45678, "running": 256, "waiting": 255,
      "kv_use": 0.57, "seconds": 60, "peak_rss_bytes": 1048576})"));
  ProgressSample loading = some();
  loading.phase = "loading";
  loading.total = {};
  loading.order = "prefix";
  CHECK(parse_json<Json>(status_json(loading, 0))["order"] == "prefix");
  CHECK(parse_json<Json>(status_json(loading, 0))["phase"] == "loading");
  CHECK(parse_json<Json>(status_json(loading, 0))["total"].is_null());
  CHECK(parse_json<Json>(end_json(7))["event"] == "end");
  CHECK(parse_json<Json>(end_json(7))["exit_status"] == 7);
  const std::string metrics = metrics_text(some(), 1 << 20, "a \"b\"\\\n");
  CHECK_THAT(metrics, Catch::Contains("# TYPE plimsoll_lines_done counter\n"
                                      "plimsoll_lines_done{output=\"a \\\"b\\\"\\\\\\n\"} 769\n"));
  CHECK_THAT(metrics, Catch::Contains("\nplimsoll_kv_use{output=\"a \\\"b\\\"\\\\\\n\"} 0.57\n"));
  for (const auto& [name, value] :
       {std::pair{"lines_failed", "3"}, std::pair{"lines", "4000"},
        std::pair{"prompt_tokens", "123456"}, std::pair{"generated_tokens", "45678"},
        std::pair{"running", "256"}, std::pair{"waiting", "255"}, std::pair{"seconds", "60"},
        std::pair{"peak_rss_bytes", "1048576"}}) {
    CHECK_THAT(metrics_text(some(), 1 << 20, "o"),
               Catch::Contains(fmt::format("\nplimsoll_{}{{output=\"o\"}} {}\n", name, value)));
  }
  CHECK_THAT(metrics_text(loading, 0, "o"), !Catch::Contains("plimsoll_lines{"));
}

TEST_CASE("each metric has its kind and its own figure") {
  ProgressSample sample;
  sample.done = 11;
  sample.failed = 12;
  sample.total = 13;
  sample.tokens_in = 14;
  sample.tokens_out = 15;
  sample.running = 16;
  sample.waiting = 17;
  sample.kv_use = 0.25;
  sample.seconds = 18.5;
  std::string figures;
  std::istringstream lines(metrics_text(sample, 19, "o"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# HELP")) figures += line + "\n";
  }
  std::string expected;
  const auto metric = [&](const std::string& name, const char* kind, const char* value) {
    expected += "# TYPE plimsoll_" + name + " " + kind + "\nplimsoll_" + name + "{output=\"o\"} " +
                value + "\n";
  };
  metric("lines_done", "counter", "11");
  metric("lines_failed", "counter", "12");
  metric("lines", "gauge", "13");
  metric("prompt_tokens", "counter", "14");
  metric("generated_tokens", "counter", "15");
  metric("running", "gauge", "16");
  metric("waiting", "gauge", "17");
  metric("kv_use", "gauge", "0.25");
  metric("seconds", "counter", "18.5");
  metric("peak_rss_bytes", "gauge", "19");
  CHECK(figures == expected);
}
