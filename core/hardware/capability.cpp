#include "hardware/capability.h"

#include <array>

namespace plimsoll::hardware {
namespace {

struct Row {
  double from = 0;  // compute capability
  Capability facts;
};

constexpr std::array<Row, 6> kTable{{
    {0.0, {Architecture::older, true, false, false, false}},
    {8.0, {Architecture::ampere, true, true, false, false}},
    {8.9, {Architecture::ada, true, true, true, false}},
    {9.0, {Architecture::hopper, true, true, true, true}},
    {10.0, {Architecture::blackwell, true, true, true, true}},
    {11.0, {Architecture::consumer_blackwell, true, true, true, false}},
}};

}  // namespace

Capability capability_of(const Gpu* gpu) {
  if (gpu == nullptr || gpu->compute_capability == 0) return {};
  Capability facts;
  for (const Row& row : kTable) {
    if (gpu->compute_capability >= row.from) facts = row.facts;
  }
  return facts;
}

}  // namespace plimsoll::hardware
