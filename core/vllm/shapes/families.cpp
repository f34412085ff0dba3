#include "vllm/shapes/families.h"

#include <algorithm>

namespace plimsoll::vllm {

const Family* find_family(std::string_view architecture) {
  const model::Family* const named = model::find_architecture(architecture);
  if (named == nullptr || named->planned == model::Planned::none) return nullptr;
  for (const std::span<const Family> families : {dense_families(), mixed_families()}) {
    const auto row = std::ranges::find(families, named->planned, &Family::planned);
    if (row != families.end()) return &*row;
  }
  return nullptr;
}

}  // namespace plimsoll::vllm
