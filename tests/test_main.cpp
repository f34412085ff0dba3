// Main of the test programs: Catch2's, whose status says when all that there was to do was skipped.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "skipped.h"

int main(int argc, char** argv) {
  return plimsoll::testing::status_after(Catch::Session().run(argc, argv));
}
