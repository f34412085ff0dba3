// The golden models on a device; in emulation where the program is built so.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "backend/device.h"
#include "conformance/golden_models.h"
#include "skipped.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

std::unique_ptr<backend::Backend> device_backend() {
  return backend::make_device_backend({.index = 0, .threads = 2});
}

/// The emulator takes half a minute for each: `alone`, or all when PLIMSOLL_EMULATE_ALL is set.
std::vector<fs::path> subjects([[maybe_unused]] const std::string& alone) {
  std::vector<fs::path> folders = model_folders();
#ifdef PLIMSOLL_EMULATION
  if (std::getenv("PLIMSOLL_EMULATE_ALL") == nullptr) {
    std::erase_if(folders, [&](const fs::path& folder) { return folder.filename() != alone; });
  }
#endif
  return folders;
}

/// Where the device is emulated, answers end at twelve tokens of 24: the shortest prompt's has then
/// gone past the end of a block, and what would follow are the same steps.
void shorten([[maybe_unused]] Golden& golden) {
#ifdef PLIMSOLL_EMULATION
  constexpr size_t kTokens = 12;
  for (Case& c : golden.cases) {
    c.greedy.resize(std::min(c.greedy.size(), kTokens));
    c.margins.resize(std::min(c.margins.size(), kTokens));
  }
#endif
}

bool has_device() {
  if (!backend::list_devices().empty()) return true;
  skip("there is no device");
  return false;
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

TEST_CASE("a golden model whose layers choose keys on a device") {
  if (!has_device()) return;
  Subject subject(fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden/models/glm_moe_dsa",
                  device_backend());
  shorten(subject.golden);
  check_float32(subject);
}
