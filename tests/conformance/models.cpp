// The golden models on the CPU.
#include <catch2/catch.hpp>

#include "backend/tiles/twin_products.h"
#include "conformance/cpu.h"
#include "conformance/golden_models.h"

using namespace plimsoll;
using namespace plimsoll::testing;

TEST_CASE("golden models in float32") {
  for (const fs::path& folder : model_folders()) {
    Subject subject(folder, cpu_backend());
    check_float32(subject);
  }
}

TEST_CASE("golden models in the stored half type") {
  for (const fs::path& folder : model_folders()) {
    Subject subject(folder, cpu_backend());
    check_half(subject);
  }
}

TEST_CASE("golden models in bfloat16 with products in tiles") {
  if (!can_run_twin_of_tiles()) return skip("this processor has no AVX-512 VNNI");
  for (const fs::path& folder : model_folders()) {
    Subject subject(folder, backend::make_cpu_backend(with_twin_of_tiles(cpu_options())));
    if (subject.half_type() == DType::bf16) check_half(subject);
  }
}

TEST_CASE("golden models of further families in float32") {
  for (const fs::path& folder : model_folders("more_models")) {
    DYNAMIC_SECTION(folder.filename().string()) {
      Subject subject(folder, cpu_backend());
      check_float32(subject);
    }
  }
}

TEST_CASE("golden models of further families in the stored half type") {
  for (const fs::path& folder : model_folders("more_models")) {
    DYNAMIC_SECTION(folder.filename().string()) {
      Subject subject(folder, cpu_backend());
      check_half(subject);
    }
  }
}

/// The models' folders, and those of further families whose layers choose what they see.
std::vector<fs::path> folders_of_rows() {
  std::vector<fs::path> folders = model_folders();
  for (const fs::path& folder : model_folders("more_models")) {
    if (model::read_model_folder(folder).spec.has_indexers()) folders.push_back(folder);
  }
  return folders;
}

TEST_CASE("a row has the same bits in any chunk and any batch") {
  for (const fs::path& folder : folders_of_rows()) {
    Subject subject(folder, cpu_backend());
    for (const DType dtype : {DType::f32, subject.half_type()}) {
      ModelRunner runner = subject.runner(dtype);
      const std::vector<Case>& cases = subject.golden.cases;
      std::vector<Logits> alone;
      std::vector<Feed> together;
      for (size_t i = 0; i < cases.size(); ++i) {
        const auto sequence = static_cast<int32_t>(i);
        together.push_back({sequence, cases[i].prompt});
        for (const size_t chunk : {size_t{1000}, size_t{64}, size_t{17}, size_t{1}}) {
          runner.restart();
          subject.choose_rope(runner, sequence, cases[i]);
          std::vector<Logits> rows;
          for (size_t first = 0; first < cases[i].prompt.size(); first += chunk) {
            const auto begin = cases[i].prompt.begin() + static_cast<std::ptrdiff_t>(first);
            const size_t count = std::min(chunk, cases[i].prompt.size() - first);
            const Feed feed{sequence, Ids(begin, begin + static_cast<std::ptrdiff_t>(count))};
            for (Logits& row : runner.run(std::vector<Feed>{feed})) rows.push_back(std::move(row));
          }
          INFO(subject.golden.name << " " << safetensors_name(dtype) << ", prompt of "
                                   << cases[i].prompt.size() << " in chunks of " << chunk);
          if (chunk == 1000) {
            alone.insert(alone.end(), rows.begin(), rows.end());
          } else {
            CHECK(std::equal(rows.begin(), rows.end(), alone.end() - rows.size()));
          }
        }
      }
      runner.restart();
      for (size_t i = 0; i < cases.size(); ++i) {
        subject.choose_rope(runner, static_cast<int32_t>(i), cases[i]);
      }
      INFO(subject.golden.name << " " << safetensors_name(dtype) << ", all cases in one step");
      CHECK((runner.run(together) == alone));
    }
  }
}
