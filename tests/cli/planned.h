// Output of `plimsoll plan` for our own engine.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "cli/program.h"

namespace plimsoll::test {

inline Json plan_of(const Scratch& scratch, const std::string& arguments) {
  INFO(arguments);
  const auto outcome = shell(scratch, "plimsoll plan " + arguments + " --format json");
  INFO(outcome.err);
  REQUIRE((outcome.status == 0 || outcome.status == 6));
  return parse_json<Json>(outcome.out);
}

/// Bytes of a part; 0: the plan has no such part.
inline int64_t part_bytes(const Json& plan, const char* name) {
  for (const Json& part : plan["parts"])
    if (part["name"] == name) return part["bytes"].get<int64_t>();
  return 0;
}

inline int64_t sum_of_parts(const Json& plan) {
  int64_t sum = 0;
  for (const Json& part : plan["parts"]) sum += part["bytes"].get<int64_t>();
  return sum;
}

}  // namespace plimsoll::test
