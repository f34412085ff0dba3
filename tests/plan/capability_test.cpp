#include "hardware/capability.h"

#include <catch2/catch.hpp>

using namespace plimsoll::hardware;

TEST_CASE("what a card can do follows from its compute capability") {
  struct Row {
    double compute_capability;
    Architecture architecture;
    bool bfloat16, fp8, wide_tiles;
  };
  for (const Row& row : {Row{7.5, Architecture::older, false, false, false},
                         Row{8.0, Architecture::ampere, true, false, false},
                         Row{8.6, Architecture::ampere, true, false, false},
                         Row{8.9, Architecture::ada, true, true, false},
                         Row{9.0, Architecture::hopper, true, true, true},
                         Row{10.3, Architecture::blackwell, true, true, true},
                         Row{12.0, Architecture::consumer_blackwell, true, true, false}}) {
    CAPTURE(row.compute_capability);
    Gpu gpu;
    gpu.compute_capability = row.compute_capability;
    const Capability facts = capability_of(&gpu);
    CHECK(facts.known);
    CHECK(facts.architecture == row.architecture);
    CHECK(facts.bfloat16 == row.bfloat16);
    CHECK(facts.fp8 == row.fp8);
    CHECK(facts.wide_tiles == row.wide_tiles);
  }
}

TEST_CASE("a card that is not known counts as Hopper, and as not known") {
  const Gpu gpu;
  for (const Gpu* card : {static_cast<const Gpu*>(nullptr), &gpu}) {
    CHECK_FALSE(capability_of(card).known);
    CHECK(capability_of(card).architecture == Architecture::hopper);
  }
}
