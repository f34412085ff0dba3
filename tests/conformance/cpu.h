// The CPU backend that conformance programs run on.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <thread>

#include "backend/cpu/cpu_backend.h"

namespace plimsoll::testing {

/// Options with a rank's share of all cores among `ranks`, and the instruction set that
/// $PLIMSOLL_CPU_ISA names, else the best one.
inline backend::CpuOptions cpu_options(size_t ranks = 1) {
  const size_t cores = std::thread::hardware_concurrency();
  backend::CpuOptions options{.isa = backend::detect_isa(),
                              .threads = static_cast<int>(std::max<size_t>(1, cores / ranks))};
  if (const char* name = std::getenv("PLIMSOLL_CPU_ISA")) {
    const auto isa = backend::isa_from_name(name);
    if (!isa) throw std::runtime_error(fmt::format("PLIMSOLL_CPU_ISA: no such set: {}", name));
    options.isa = *isa;
  }
  return options;
}

inline std::unique_ptr<backend::Backend> cpu_backend(size_t ranks = 1) {
  return backend::make_cpu_backend(cpu_options(ranks));
}

}  // namespace plimsoll::testing
