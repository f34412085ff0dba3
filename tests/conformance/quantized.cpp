// Quantized golden models on the CPU: every format, computed from its exact weights.
#include <algorithm>
#include <catch2/catch.hpp>

#include "backend/tiles/twin_products.h"
#include "base/error.h"
#include "conformance/cpu.h"
#include "conformance/golden_models.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

/// The folders of models whose architecture is run; of others the refusal by name is checked.
std::vector<fs::path> quantized_folders() {
  const std::vector<std::string> known = model::supported_architectures();
  std::vector<fs::path> folders;
  for (const fs::path& folder : model_folders("quantized")) {
    const Json config = model::read_config(folder);
    const auto name = config.at("architectures").at(0).get<std::string>();
    if (std::ranges::find(known, name) != known.end()) {
      folders.push_back(folder);
    } else {
      CHECK_THROWS_WITH(model::make_model_spec(config), Catch::Contains(name));
    }
  }
  return folders;
}

}  // namespace

TEST_CASE("quantized golden models from exact weights, in float32") {
  for (const fs::path& folder : quantized_folders()) {
    DYNAMIC_SECTION(folder.filename().string()) {
      Subject subject(folder, cpu_backend());
      check_float32(subject);
    }
  }
}

namespace {

void check_rounding(const backend::CpuOptions& options) {
  for (const fs::path& folder : quantized_folders()) {
    const double allowed = allowed_by_rounding(folder);
    if (allowed == 0) continue;
    DYNAMIC_SECTION(folder.filename().string()) {
      Subject subject(folder, backend::make_cpu_backend(options),
                      quantization::Activations::rounded);
      check_rounded(subject, allowed);
    }
  }
}

}  // namespace

TEST_CASE("quantized golden models with inputs of products rounded as their format asks") {
  check_rounding(cpu_options());
}

TEST_CASE("the same with products in tiles") {
  if (!can_run_twin_of_tiles()) return skip("this processor has no AVX-512 VNNI");
  check_rounding(with_twin_of_tiles(cpu_options()));
}

TEST_CASE("keys and values in float8 by the checkpoint's scales") {
  int found = 0;
  for (const fs::path& folder : quantized_folders()) {
    const Json golden = parse_json(read_maybe_xz(folder / "golden.json"));
    if (!golden.at("cases").at(0).contains("fp8_kv_reference")) continue;
    ++found;
    DYNAMIC_SECTION(folder.filename().string()) {
      Subject subject(folder, cpu_backend());
      ModelRunner runner = subject.runner(DType::f32, DType::f8_e4m3);
      for (size_t i = 0; i < subject.golden.cases.size(); ++i) {
        Case c = subject.golden.cases[i];
        c.prompt_logprobs = golden.at("cases")
                                .at(i)
                                .at("fp8_kv_reference")
                                .at("prompt_logprobs")
                                .get<std::vector<double>>();
        std::vector<double> errors = answer(runner, subject, c).logprob_errors(c);
        const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
        std::nth_element(errors.begin(), middle, errors.end());
        // Another order of sums moves it by 0.004 at most; scales of 1 by 0.48 and more.
        CHECK(*middle <= 0.1);
        fmt::print("{:<28} fp8 cache: median logprob {:.1e}\n", subject.golden.name, *middle);
      }
    }
  }
  if (golden_folder() && takes_all_cases()) CHECK(found >= 2);
}
