// What stands at the ends of a layer and of its products: where the forward pass may make one op of
// several.
#pragma once

#include "model/model_spec.h"

namespace plimsoll::engine {

/// What a layer's spec has beside what is named here is as by default: a field that is added later
/// takes a layer out until it is named.
struct LayerEnds {
  bool is_plain = false;  // norm, attention, sum, norm, gated MLP, sum, one product after each
  bool begins_by_norm = false;  // it reads the residual through one norm
  bool ends_by_sum = false;     // its last op adds to the residual
  bool norms_mixed = false;     // the MLP's norm comes right behind the mixer's product
  bool sums_product = false;    // what it adds last is the MLP's product as it is
};
LayerEnds ends_of(const model::LayerSpec& layer);

/// Whether all layers of a model can be made of fused products (ops::FusedLinear): plain ones with
/// whole weights that are not quantized.
bool has_plain_layers(const model::ModelSpec& spec);

}  // namespace plimsoll::engine
