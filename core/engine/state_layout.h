// The layout of recurrent mixers' states: one slot for each sequence that runs, whatever its
// length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/model_spec.h"

namespace plimsoll::engine {

struct StateLayout {
  size_t slot_bytes = 0;             // 0: the model has no states
  std::vector<size_t> layer_offset;  // [layers] bytes within a slot: of the convolution's rows,
  std::vector<size_t> state_offset;  // [layers] and of the state itself
};

StateLayout make_state_layout(const model::ModelSpec& spec);

}  // namespace plimsoll::engine
