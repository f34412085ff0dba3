// llama.cpp's --fit: the context, the layers on cards and the split layers that fit free memory.
#pragma once

#include <cstdint>
#include <functional>
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

/// What another model takes on the launch's cards beside a placement.
using Beside = std::function<std::vector<Usage>(const Placement&)>;

/// Settings that common_fit_params comes to (common/fit.cpp of 0c1e57098).
Fit fit(const Shape& shape, const Launch& launch, const Beside& beside);

}  // namespace plimsoll::engines::llamacpp
