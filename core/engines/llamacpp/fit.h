// llama.cpp's --fit: the context, the layers on cards and the split layers that fit free memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engines/llamacpp/memory.h"

namespace plimsoll::engines::llamacpp {

struct Fit {
  bool success = true;
  Placement placement;
  std::vector<std::string> says;
};

/// Settings that common_fit_params comes to (common/fit.cpp of 0c1e57098).
Fit fit(const Shape& shape, const Launch& launch);

}  // namespace plimsoll::engines::llamacpp
