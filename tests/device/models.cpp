// The golden models on a device; in emulation where the program is built so.
#include <catch2/catch.hpp>
#include <string>

#include "backend/device.h"
#include "conformance/golden_models.h"
#include "device/on_device.h"
#include "like_cases.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

std::unique_ptr<backend::Backend> device_backend() {
  return backend::make_device_backend({.index = 0, .threads = 2});
}

/// The emulator takes half a minute for each: `alone`, or all when PLIMSOLL_EMULATE_ALL is set.
std::vector<fs::path> subjects(const std::string& alone, const char* set = "models") {
  std::vector<fs::path> folders = model_folders(set);
  if (!does_everything()) {
    std::erase_if(folders, [&](const fs::path& folder) { return folder.filename() != alone; });
  }
  return folders;
}

/// Shortens answers to twelve tokens of 24 where the device is emulated: the shortest prompt's has
/// then gone past the end of a block, and what would follow are the same steps. The longest prompt
/// takes most of the time.
void shorten([[maybe_unused]] Golden& golden, [[maybe_unused]] bool longest = takes_all_cases()) {
#ifdef PLIMSOLL_EMULATION
  constexpr size_t kTokens = 12;
  if (!longest && golden.cases.size() > 1) golden.cases.pop_back();
  for (Case& c : golden.cases) {
    c.greedy.resize(std::min(c.greedy.size(), kTokens));
    c.margins.resize(std::min(c.margins.size(), kTokens));
  }
#endif
}

}  // namespace

TEST_CASE("golden models in float32 on a device") {
  if (!has_device()) return;
  for (const fs::path& folder : subjects("qwen3_moe")) {
    Subject subject(folder, device_backend());
    shorten(subject.golden);
    check_float32(subject);
  }
}

TEST_CASE("golden models in the stored half type on a device") {
  if (!has_device()) return;
  for (const fs::path& folder : subjects("gemma2")) {
    Subject subject(folder, device_backend());
    shorten(subject.golden);
    check_half(subject);
  }
}

namespace {

/// The folder of a golden model that every clone has.
fs::path own_folder(const std::string& name) {
  return fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden/models" / name;
}

/// A recurrent model in float32; in emulation without the longest prompt.
void check_recurrent(const std::string& name) {
  if (!has_device()) return;
  Subject subject(own_folder(name), device_backend());
  shorten(subject.golden, false);
  check_float32(subject);
}

/// Checks the further families, each in a section of its own (-c NAME).
template <typename F>
void for_further_families(F check) {
  if (!may_do_everything()) return;
  for (const fs::path& folder : model_folders("more_models")) {
    DYNAMIC_SECTION(folder.filename().string()) {
      Subject subject(folder, device_backend());
      shorten(subject.golden, false);
      check(subject);
    }
  }
}

}  // namespace

TEST_CASE("a golden model whose layers choose keys on a device") {
  if (!has_device()) return;
  Subject subject(own_folder("glm_moe_dsa"), device_backend());
  shorten(subject.golden);
  check_float32(subject);
}

TEST_CASE("a golden model of selective scans on a device") {
  check_recurrent("mamba");
}

TEST_CASE("a golden model of delta rules and attention on a device") {
  check_recurrent("qwen3_5");
}

TEST_CASE("golden models of further families in float32 on a device", "[everything]") {
  for_further_families(check_float32);
}

TEST_CASE("golden models of further families in the stored half type on a device", "[everything]") {
  for_further_families(check_half);
}

TEST_CASE("quantized golden models in float32 on a device") {
  if (!has_device()) return;
  for (const fs::path& folder : subjects("llama_gptq_act_order", "quantized")) {
    Subject subject(folder, device_backend());
    shorten(subject.golden);
    check_float32(subject);
  }
}

TEST_CASE("quantized golden models in the stored half type on a device") {
  if (!has_device()) return;
  for (const fs::path& folder : subjects("llama_awq", "quantized")) {
    Subject subject(folder, device_backend());
    shorten(subject.golden);
    check_quantized_half(subject);
  }
}

TEST_CASE("golden GGUF models in float32 on a device") {
  if (!has_device()) return;
  for (const fs::path& folder : subjects("mixtral", "gguf/run")) {
    // Its matrices of F16 a card multiplies in float16 alone.
    if (folder.filename() == "mamba") continue;
    DYNAMIC_SECTION(folder.filename().string()) {
      Subject subject(folder, device_backend());
      shorten(subject.golden, false);
      check_gguf_float32(subject);
    }
  }
}

TEST_CASE("golden GGUF models in the stored half type on a device") {
  if (!has_device()) return;
  for (const fs::path& folder : subjects("llama_q4_k", "gguf/run")) {
    DYNAMIC_SECTION(folder.filename().string()) {
      Subject subject(folder, device_backend());
      shorten(subject.golden, false);
      check_half(subject);
    }
  }
}

TEST_CASE("quantized golden models with inputs rounded on a device") {
  if (!has_device()) return;
  for (const fs::path& folder : subjects("llama_w8a8_int8", "quantized")) {
    const double allowed = allowed_by_rounding(folder);
    if (allowed == 0) continue;
    Subject subject(folder, device_backend(), quantization::Activations::rounded);
    shorten(subject.golden);
    check_rounded(subject, allowed);
  }
}
