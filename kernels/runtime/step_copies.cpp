#include "kernels/runtime/step_copies.h"

#include <algorithm>

namespace plimsoll::kernels {

std::vector<Extent> join_extents(std::vector<Extent> extents, size_t gap) {
  std::erase_if(extents, [](const Extent& e) { return e.begin == e.end; });
  std::ranges::sort(extents, {}, &Extent::begin);
  std::vector<Extent> joined;
  for (const Extent& extent : extents) {
    if (joined.empty() || extent.begin > joined.back().end + gap) {
      joined.push_back(extent);
    } else {
      joined.back().end = std::max(joined.back().end, extent.end);
    }
  }
  return joined;
}

std::vector<Extent> flat_extents(const backend::BatchMeta& batch) {
  std::vector<Extent> extents;
  const auto add = [&](const auto& array) {
    if (array.empty()) return;
    const auto begin =
        static_cast<size_t>(reinterpret_cast<const std::byte*>(array.data()) - batch.host_base);
    extents.push_back({begin, begin + array.size_bytes()});
  };
  backend::for_each_array(batch, add);
  add(batch.plan);
  return extents;
}

}  // namespace plimsoll::kernels
