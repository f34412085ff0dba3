#include "engine/state_layout.h"

#include "memory/arena.h"

namespace plimsoll::engine {

StateLayout make_state_layout(const model::ModelSpec& spec) {
  StateLayout layout;
  const auto take = [&](int64_t floats) {
    const size_t offset = layout.slot_bytes;
    layout.slot_bytes += memory::Arena::aligned(floats * sizeof(float));
    return offset;
  };
  for (const model::LayerSpec& layer : spec.layers) {
    layout.layer_offset.push_back(take(layer.recurrent ? layer.recurrent->conv_floats() : 0));
    layout.state_offset.push_back(take(layer.recurrent ? layer.recurrent->state_floats() : 0));
  }
  return layout;
}

}  // namespace plimsoll::engine
