#include "model/tied_head.h"

#include <cassert>
#include <utility>

namespace plimsoll::model {

void untie_head(ModelSpec& spec) {
  assert(spec.tied_head && spec.head == spec.embedding);
  const TiedHead tied = *std::exchange(spec.tied_head, std::nullopt);
  WeightSpec& table = spec.weights[static_cast<size_t>(spec.embedding)];
  WeightSpec head = table;
  head.name = tied.head;
  head.parts.front().tensor = tied.tensor;
  table.name = tied.table;
  table.use = WeightUse::embedding;
  spec.head = static_cast<WeightId>(spec.weights.size());
  spec.weights.push_back(std::move(head));
  // The table no longer stands under the head's name.
  std::erase_if(spec.tensor_prefixes,
                [&](const auto& spelling) { return spelling.second == tied.tensor; });
}

}  // namespace plimsoll::model
