// The doctor's report.
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/flash_plan.h"
#include "cli/doctor/checks.h"
#include "cli/measured_rates.h"
#include "cli/program.h"

using namespace plimsoll;
using namespace plimsoll::cli;
using Catch::Contains;
using test::Scratch;
using test::shell;

namespace {

constexpr std::chrono::milliseconds kOneRow{20}, kManyRows{30};

/// A backend whose products take so long and compute nothing.
class Sleeper final : public backend::Backend {
 public:
  using Backend::Backend;
  void fill_random(const backend::Weight&, uint64_t, float) override {}

 protected:
  void dispatch(backend::ops::AnyOp op, std::span<std::byte>) override {
    const auto* linear = std::get<const backend::ops::Linear*>(op);
    std::this_thread::sleep_for(linear->out.rows == 1 ? kOneRow : kManyRows);
  }
  void do_load_weight(const backend::Weight&, const backend::RowReader&) override {}
  const float* do_host_logits(backend::View logits, std::span<float>) override {
    return static_cast<const float*>(logits.data);
  }
};

}  // namespace

TEST_CASE("the doctor examines a processor against portable code") {
  const Scratch scratch;
  const auto text = shell(scratch, "plimsoll doctor --no-measure");
  CHECK(text.status == 0);
  for (const char* part :
       {"driver", "cards on the bus", "host memory", "ok      llama, float32: max difference",
        "ok      qwen3_moe, bfloat16: max difference", "against portable code"}) {
    CHECK_THAT(text.out, Contains(part));
  }
  CHECK_THAT(text.out, !Contains("TFLOP/s"));
  std::istringstream lines(text.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  const Json found = parse_json<Json>(shell(scratch, "plimsoll doctor --format json").out);
  CHECK(found["good"] == true);
  CHECK(found["examined"] == "the processor");
  CHECK(found["checks"].size() == usual_questions().size());
  CHECK(found["checks"][0]["covers"].get<std::string>().starts_with("embedding, "));
  CHECK(found["error"] == "");
  CHECK(found["facts"].is_null());
  CHECK(found["roofs"]["product_flops"] > 1e6);
  CHECK(found["roofs"]["read_bytes_per_second"] > 1e6);
  CHECK(found["host"]["available_bytes"] > 0);
}

TEST_CASE("rates are kept beside those of other subjects, and those of the same are replaced") {
  const Scratch scratch;
  const std::string file = scratch.path("new/rates.json");
  keep_rates(file, "a", {.bytes_per_second = 1e10, .flops = 1e12, .day = "2026-01-01"});
  keep_rates(file, "b", {.bytes_per_second = 2e10, .flops = 2e12, .day = "2026-01-02"});
  keep_rates(file, "c", {.bytes_per_second = 3e10, .flops = 3e12, .day = "2026-01-03"});
  keep_rates(file, "b", {.bytes_per_second = 4e10, .flops = 5e12, .day = "2026-01-04"});
  const auto day_of = [&](const char* subject, double bytes, double flops) {
    const KeptRates kept = kept_rates(file, subject);
    CHECK(kept.fault == "");
    REQUIRE(kept.rates);
    CHECK(kept.rates->bytes_per_second == bytes);
    CHECK(kept.rates->flops == flops);
    return kept.rates->day;
  };
  CHECK(day_of("a", 1e10, 1e12) == "2026-01-01");
  CHECK(day_of("b", 4e10, 5e12) == "2026-01-04");
  CHECK(day_of("c", 3e10, 3e12) == "2026-01-03");
  CHECK(!kept_rates(file, "d").rates);
}

TEST_CASE("the doctor keeps what it measured beside what was measured before") {
  const Scratch scratch;
  const std::string file = "cache/plimsoll/rates.json";
  REQUIRE(shell(scratch, "mkdir -p cache/plimsoll").status == 0);
  const auto kept = [&] { return parse_json<Json>(scratch.read(file)); };
  const std::string isa{backend::isa_name(backend::detect_isa())};
  for (const char* before : {R"({"H200-SXM-141GB": {"product_flops": 1}})", "{damaged"}) {
    scratch.write(file, before);
    const Json found =
        parse_json<Json>(shell(scratch, "OMP_NUM_THREADS=1 plimsoll doctor --format json").out);
    CHECK(found["roofs"]["kept"] == scratch.path(file));
    const Json rates = kept()["cpu, " + isa + ", 1 thread"];
    CHECK(rates["product_flops"] == found["roofs"]["product_flops"]);
    CHECK(rates["read_bytes_per_second"] == found["roofs"]["read_bytes_per_second"]);
    CHECK(rates["day"].get<std::string>().size() == 10);
    CHECK(kept().contains("H200-SXM-141GB") == (before[1] == '"'));
  }
  const auto text = shell(scratch, "plimsoll doctor");
  CHECK_THAT(text.out, Contains("kept  "));
  REQUIRE(shell(scratch, "rm -r cache && touch cache").status == 0);
  const auto refused = shell(scratch, "plimsoll doctor");
  CHECK(refused.status == 0);
  CHECK_THAT(refused.out, Contains("note  ") && Contains("rates are not kept:"));
  REQUIRE(shell(scratch, "rm cache && plimsoll doctor --no-measure && ! test -e cache").status ==
          0);
}

TEST_CASE("a rate is the bytes of a matrix, or its operations, by the time of a product") {
  Sleeper backend(backend::cpu_footprint());
  const MeasuredRoofs roofs =
      measure_roofs(backend, {.size = 64, .rows = 16, .weights = 2, .rounds = 2});
  // Elements of bfloat16 have two bytes, and cost each row a product and a sum. Sleep takes no less
  // than it is asked for, and here less than half as much again.
  const auto seconds = [](std::chrono::duration<double> time) { return time.count(); };
  const double bytes = 64 * 64 * 2 / seconds(kOneRow);
  CHECK(roofs.bytes_per_second <= bytes);
  CHECK(roofs.bytes_per_second > bytes / 1.5);
  const double operations = 64 * 64 * 2 * 16 / seconds(kManyRows);
  CHECK(roofs.flops <= operations);
  CHECK(roofs.flops > operations / 1.5);
  CHECK(roofs.dtype == "bfloat16");
}

TEST_CASE("a device that is not there cannot be examined") {
  if (!backend::list_devices().empty()) return;
  const auto outcome = shell(Scratch(), "plimsoll doctor --device cuda");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.err, Contains("--device cpu examines the processor"));
}

TEST_CASE("a check is good where tokens are the same and the difference is allowed") {
  Check check{.what = "x",
              .twin = "y",
              .largest = 1e-5,
              .allowed = 1e-4,
              .same_tokens = true,
              .trouble = {}};
  CHECK(check.good());
  check.same_tokens = false;
  CHECK_FALSE(check.good());
  check.same_tokens = true;
  check.largest = 2e-4;
  CHECK_FALSE(check.good());
  check.largest = std::numeric_limits<double>::infinity();  // not a number somewhere
  CHECK_FALSE(check.good());
  check = {.what = "x",
           .twin = "y",
           .largest = 0,
           .allowed = 1,
           .same_tokens = true,
           .trouble = "refused"};
  Findings findings;
  CHECK(findings.good());
  findings.checks = {check};
  CHECK_FALSE(findings.good());
  CHECK(findings.status() == ExitCode::bug);
  CHECK_THAT(findings_text(findings), Contains("FAILED  x: refused\n"));
  CHECK(parse_json<Json>(findings_json(findings))["good"] == false);
}

TEST_CASE("what could not be examined is told beside what was found before") {
  Findings findings;
  CHECK(findings.status() == ExitCode::done);
  findings.facts.emplace();
  findings.facts->products_trouble = "cuBLAS is missing";
  findings.trouble = "the device is busy";
  findings.trouble_code = ExitCode::device_lost;
  CHECK_FALSE(findings.good());
  CHECK(findings.status() == ExitCode::device_lost);
  CHECK_THAT(findings_text(findings), Contains("cuBLASLt          cuBLAS is missing\n") &&
                                          Contains("FAILED  the device is busy\n"));
  const Json found = parse_json<Json>(findings_json(findings));
  CHECK(found["error"] == "the device is busy");
  CHECK(found["facts"]["cublaslt_error"] == "cuBLAS is missing");
}

TEST_CASE("a backend that cannot be had is a check that failed") {
  const Check check = ask_both(
      usual_questions().front(),
      []() -> std::unique_ptr<backend::Backend> {
        throw Error(ExitCode::device_lost, "cuBLAS is missing");
      },
      [] {
        return backend::make_cpu_backend({backend::CpuIsa::portable, 1});
      });
  CHECK_FALSE(check.good());
  CHECK(check.trouble == "cuBLAS is missing");
}

TEST_CASE("a model whose logits are no numbers is a check that failed, on both sides or not") {
  const TinyModel model{
      .name = "no numbers", .covers = "", .config = R"({"architectures": ["GraniteForCausalLM"],
                                      "model_type": "granite", "logits_scaling": 1e-45,
                                      "embedding_multiplier": 1, "residual_multiplier": 1,
                                      "attention_multiplier": 1})"};
  const MakeBackend portable = [] {
    return backend::make_cpu_backend({backend::CpuIsa::portable, 1});
  };
  const Check check = ask_both({.model = &model, .dtype = DType::bf16}, portable, portable);
  CHECK_FALSE(check.good());
  CHECK_THAT(check.trouble, Contains("are not finite"));
}

TEST_CASE("the doctor's long prompts are long enough for the kernels for Hopper") {
  using namespace backend::cuda;
  int long_ones = 0;
  for (const Question& question : questions_of_hopper()) {
    const model::ModelSpec spec = spec_of(*question.model);
    const FlashShape shape = flash_shape(spec.layers.front().attention);
    if (question.prompt != kLongPrompt) continue;
    INFO(question.model->name);
    ++long_ones;
    // Both prompts in one step, on the multiprocessors of an H100 or H200.
    constexpr int32_t kRows = kLongPrompt;
    FlashPlanner planner(shape, {.tokens = 2 * kRows,
                                 .sequences = 4,
                                 .context = 2 * kRows,
                                 .multiprocessors = 132,
                                 .hopper = true});
    planner.use_hopper(1);
    const std::vector<int32_t> starts{0, kRows, 2 * kRows}, lengths{kRows, kRows};
    std::vector<std::byte> slab(planner.layout().bytes);
    planner.plan({starts, lengths, 2 * kRows / 16}, slab);
    CHECK(planner.hopper_blocks() > 0);
  }
  CHECK(long_ones == 3);
}

TEST_CASE("what a launch noted is in the doctor's JSON") {
  Findings findings;
  findings.checks = {{.what = "x", .twin = {}, .trouble = {}, .notes = {"slow"}}};
  findings.roofs = MeasuredRoofs{.dtype = "bfloat16", .notes = {"faster"}};
  const Json found = parse_json<Json>(findings_json(findings));
  CHECK(found["checks"][0]["notes"] == Json({"slow"}));
  CHECK(found["roofs"]["notes"] == Json({"faster"}));
}

TEST_CASE("of several devices it is told which read whose memory") {
  Findings findings;
  findings.devices = {{.index = 0, .name = "one"}};
  CHECK_THAT(findings_text(findings), !Contains("reads memory of"));
  findings.devices[0].peers = {1, 3};
  findings.devices.push_back({.index = 2, .name = "other"});
  CHECK_THAT(findings_text(findings),
             Contains("reads memory of   1, 3\n") && Contains("reads memory of   no other device"));
  const Json devices = parse_json<Json>(findings_json(findings))["devices"];
  CHECK(devices[0]["peers"] == Json({1, 3}));
  CHECK(devices[1]["peers"] == Json::array());
}

TEST_CASE("the doctor's report names every figure that it found") {
  Findings f;
  f.version = "1.2";
  f.has_backend = true;
  f.driver = {.driver = 13010, .runtime = 12090, .devices = 1, .trouble = "t"};
  f.pci_cards = 2;
  f.devices = {{.index = 1, .name = "card", .total_bytes = uint64_t{80} << 30}};
  f.devices[0].free_bytes = uint64_t{40} << 30;
  f.devices[0].compute_capability = 90;
  f.devices[0].processors = 132;
  f.devices[0].bandwidth = 3.35e12;
  f.facts.emplace();
  f.facts->code = 86;
  f.facts->overlaps = true;
  f.facts->attention = "ours";
  f.facts->products = "lib";
  f.facts->products_version = 130100;
  f.isa = "avx2";
  f.threads = 4;
  f.host_total = uint64_t{64} << 30;
  f.host_available = uint64_t{32} << 30;
  f.host_bound = "free memory";
  f.subject = "card";
  f.checks = {{.what = "llama",
               .covers = "c",
               .twin = "cpu",
               .largest = 0.5,
               .allowed = 0.25,
               .trouble = {}}};
  f.roofs = MeasuredRoofs{.bytes_per_second = 3e12,
                          .flops = 9e14,
                          .dtype = "bfloat16",
                          .kept = "/home/u/.cache/plimsoll/rates.json"};
  for (const char* line :
       {"plimsoll          1.2\n", "driver            runs CUDA up to 13.1\n",
        "built for CUDA    12.9\n", "cards on the bus  2\n", "1: card, 80.0 GiB (40.0 free),",
        "capability 9.0, 132\n", "multiprocessors, 3.35 TB/s by its clock\n",
        "code that runs    for 8.6\n", "kernels overlap   yes\n", "attention         ours\n",
        "cuBLASLt          lib (130100)\n", "NVML              no: memory by our own count\n",
        "processor         avx2, 4 threads\n",
        "host memory       64.0 GiB, 32.0 available (free memory)\n",
        "examined          card, against cpu\n",
        "FAILED  llama: max difference 0.5 (limit 0.25), other tokens\n",
        "reads             3000.0 GB/s\n", "products          900.00 TFLOP/s in bfloat16\n"}) {
    CHECK_THAT(findings_text(f), Contains(line));
  }
  const Json found = parse_json<Json>(findings_json(f));
  CHECK(found["schema_version"] == 1);
  CHECK(found["version"] == "1.2");
  CHECK(found["good"] == false);
  CHECK(found["cuda_backend"] == true);
  CHECK(found["driver"] ==
        Json{{"cuda", 13010}, {"built_for", 12090}, {"devices", 1}, {"error", "t"}});
  CHECK(found["pci_cards"] == 2);
  CHECK(found["devices"] == Json::array({{{"index", 1},
                                          {"name", "card"},
                                          {"total_bytes", int64_t{80} << 30},
                                          {"free_bytes", int64_t{40} << 30},
                                          {"compute_capability", "9.0"},
                                          {"multiprocessors", 132},
                                          {"bytes_per_second", 3.35e12},
                                          {"peers", Json::array()}}}));
  CHECK(found["facts"] == Json{{"code", "8.6"},
                               {"overlap", true},
                               {"attention", "ours"},
                               {"cublaslt", "lib"},
                               {"cublaslt_version", 130100},
                               {"cublaslt_error", ""},
                               {"nvml", false}});
  CHECK(found["host"] == Json{{"isa", "avx2"},
                              {"threads", 4},
                              {"total_bytes", int64_t{64} << 30},
                              {"available_bytes", int64_t{32} << 30},
                              {"bound", "free memory"}});
  CHECK(found["checks"] == Json::array({{{"what", "llama"},
                                         {"covers", "c"},
                                         {"twin", "cpu"},
                                         {"good", false},
                                         {"same_tokens", false},
                                         {"largest_difference", 0.5},
                                         {"allowed", 0.25},
                                         {"error", ""},
                                         {"notes", Json::array()}}}));
  CHECK(found["roofs"] == Json{{"read_bytes_per_second", 3e12},
                               {"product_flops", 9e14},
                               {"dtype", "bfloat16"},
                               {"notes", Json::array()},
                               {"kept", "/home/u/.cache/plimsoll/rates.json"}});
}
