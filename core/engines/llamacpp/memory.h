// Buffers that llama.cpp allocates for a model, a launch and a placement of its layers.
#pragma once

#include <cstdint>
#include <vector>

#include "engines/llamacpp/launch.h"
#include "engines/llamacpp/shape.h"

namespace plimsoll::engines::llamacpp {

/// What of a layer that is split stays on its card; the rest of its MLP lies elsewhere.
enum class Fraction { attention, up, gate, dense };

struct PartialLayer {
  int64_t layer = 0;
  Fraction kept = Fraction::dense;
  int device = kHost;  // of the rest
};

/// Settings that --fit changes.
struct Placement {
  int64_t context = 0;        // tokens, as -c would ask for them
  int64_t gpu_layers = 0;     // the head counts as one; -1: all
  std::vector<float> shares;  // -ts; empty: by free memory
  std::vector<PartialLayer> partial;
  bool experts_on_host = false;
};

struct Usage {
  int64_t model = 0, context = 0, compute = 0;  // bytes
  [[nodiscard]] int64_t total() const { return model + context + compute; }
};

struct Memory {
  std::vector<Usage> cards;
  Usage pinned;    // CUDA_Host: weights that stay on the host, and the host's share of steps
  Usage plain;     // CPU: caches on the host, and weights where nothing is pinned
  Usage repacked;  // CPU_REPACK: a copy of matrices in another layout
};

/// Where everything of a placement lies.
struct Devices {
  std::vector<int> layers;   // of each layer, the head last: a card, or kHost
  std::vector<int> weights;  // of each of Shape::weights
};
Devices devices_of(const Shape& shape, const Launch& launch, const Placement& placement);

/// The placement that the flags ask for.
Placement asked_placement(const Shape& shape, const Launch& launch);

/// Bytes of every buffer.
Memory measure(const Shape& shape, const Launch& launch, const Placement& placement);

/// Bytes of a tensor in a device's buffer: aligned, and on cards with room behind a packed type's
/// last row.
int64_t allocated(const checkpoint::gguf::Tensor& tensor, int device);

/// Cells of a layer's cache for one stream.
int64_t cells_of(const Layer& layer, const Shape& shape, const Launch& launch, int64_t context);

/// Adds the buffers of a step, which the backends' scheduler reserves.
void add_compute(const Shape& shape, const Launch& launch, const Placement& placement,
                 const Devices& devices, Memory& memory);

}  // namespace plimsoll::engines::llamacpp
