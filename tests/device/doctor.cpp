// The doctor's questions to a device; in emulation a part of them.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "cli/doctor/checks.h"
#include "conformance/cpu.h"
#include "device/on_device.h"

#ifdef PLIMSOLL_EMULATION
#include "emulation/card.h"
#endif

using namespace plimsoll;
using namespace plimsoll::cli;
using testing::does_everything;
using testing::has_device;

namespace {

std::unique_ptr<backend::Backend> device_backend() {
  return backend::make_device_backend({.index = 0, .threads = 2});
}

bool has_slow_products(const std::vector<std::string>& notes) {
  return std::ranges::any_of(
      notes, [](const std::string& note) { return note.find("no algorithm") != note.npos; });
}

}  // namespace

TEST_CASE("the doctor finds a device good, one launch after the other") {
  if (!has_device()) return;
#ifdef PLIMSOLL_EMULATION
  emulation::card = emulation::kHopper;
#endif
  size_t asked = 0;
  for (const Question& question : usual_questions()) {
    const std::string name = question.model->name;
    if (!does_everything() && !(name == "llama" && question.dtype == DType::f32) && name != "gpt2")
      continue;
    const Check check = ask_both(question, device_backend, [] { return testing::cpu_backend(); });
    INFO(check.what << ": " << check.trouble << ", " << check.largest << ", "
                    << fmt::format("{}", fmt::join(check.notes, "; ")));
    CHECK(check.good());
    CHECK_FALSE(has_slow_products(check.notes));
    ++asked;
  }
  CHECK(asked >= 2);
#ifdef PLIMSOLL_EMULATION
  emulation::card = {};
#endif
}

TEST_CASE("what a device can do at most is measured with chosen products") {
  if (!has_device()) return;
  RoofSizes sizes = kCardRoofs;
  if (!does_everything()) sizes = {.size = 128, .rows = 64, .weights = 2, .rounds = 1};
  const MeasuredRoofs roofs = measure_roofs(*device_backend(), sizes);
  CHECK(roofs.bytes_per_second > 0);
  CHECK(roofs.flops > 0);
  CHECK_FALSE(has_slow_products(roofs.notes));
}

TEST_CASE("a backend serves one launch: what it chose and recorded is of that one's memory") {
  if (!has_device()) return;
  const auto used = device_backend();
  const RoofSizes tiny{.size = 128, .rows = 16, .weights = 1, .rounds = 1};
  CHECK(measure_roofs(*used, tiny).flops > 0);
  CHECK_THROWS_WITH(measure_roofs(*used, tiny), Catch::Contains("one launch"));
}
