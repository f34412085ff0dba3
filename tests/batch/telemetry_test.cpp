// Figures of a run: a line for people at any width, JSON lines, Prometheus' text form.
#include "batch/telemetry.h"

#include <catch2/catch.hpp>

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
  sample.waiting = 256;
  sample.kv_use = 0.57;
  sample.seconds = 60;
  return sample;
}

}  // namespace

TEST_CASE("what matters least is left out when there is no room") {
  const std::string whole = describe(some());
  CHECK(whole ==
        "769/4000 lines (3 failed), 19 %, in 2058 out 761 tok/s, running 256 (+256), KV 57 %, 4:12 "
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
  CHECK(json["event"] == "status");
  CHECK(json["phase"] == "running");
  CHECK(json["done"] == 769);
  CHECK(json["total"] == 4000);
  CHECK(parse_json<Json>(end_json(7))["exit_status"] == 7);
  const std::string metrics = metrics_text(some(), 1 << 20, "a \"b\"\\\n");
  CHECK_THAT(metrics, Catch::Contains("# TYPE plimsoll_lines_done counter\n"
                                      "plimsoll_lines_done{output=\"a \\\"b\\\"\\\\\\n\"} 769\n"));
  CHECK_THAT(metrics, Catch::Contains("\nplimsoll_kv_use{output=\"a \\\"b\\\"\\\\\\n\"} 0.57\n"));
}
