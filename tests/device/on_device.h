// Helpers for tests of the whole backend, on a device and in emulation.
#pragma once

#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "backend/device.h"
#include "engine/request.h"
#include "skipped.h"

namespace plimsoll::testing {

/// True when there is a device; else skips the test.
inline bool has_device() {
  if (!backend::list_devices().empty()) return true;
  skip("there is no device");
  return false;
}

/// True when everything is tested. The emulator needs minutes for that: it does little unless
/// PLIMSOLL_EMULATE_ALL is set.
inline bool does_everything() {
#ifdef PLIMSOLL_EMULATION
  return std::getenv("PLIMSOLL_EMULATE_ALL") != nullptr;
#else
  return true;
#endif
}

/// True when everything is tested; else skips the test.
inline bool may_do_everything() {
  if (!has_device()) return false;
  if (!does_everything()) skip("the emulator needs minutes for it: PLIMSOLL_EMULATE_ALL=1");
  return does_everything();
}

/// Token ids as text, by request, for each choice.
using Tokens = std::map<uint64_t, std::vector<std::string>>;

/// Tokens of the outputs; requires that no request has failed.
inline Tokens tokens_of(const std::map<uint64_t, engine::RequestOutput>& outputs) {
  Tokens tokens;
  for (const auto& [tag, output] : outputs) {
    INFO("request " << tag);
    REQUIRE_FALSE(output.failure);
    for (const engine::Completion& completion : output.completions) {
      tokens[tag].push_back(fmt::format("{}", fmt::join(completion.token_ids, " ")));
    }
  }
  return tokens;
}

}  // namespace plimsoll::testing
