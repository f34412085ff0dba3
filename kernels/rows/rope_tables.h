// Frequencies of a model's ropes on the device.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/rows/rope.h"
#include "model/model_spec.h"

namespace plimsoll::kernels {

class RopeTables {
 public:
  /// Copies the tables to `memory`, device memory of backend::rope_table_bytes(), in the order of
  /// `stream`: later work there may read them. `spec` outlives this object.
  void start(const model::ModelSpec& spec, std::span<std::byte> memory, cudaStream_t stream);

  /// `rope` is one of the model's own or its image encoder's.
  [[nodiscard]] const RopeOnDevice& of(const model::RopeSpec& rope) const;

 private:
  struct Placed {
    const model::RopeSpec* spec = nullptr;
    RopeOnDevice rope;
  };
  std::vector<Placed> ropes_;
};

}  // namespace plimsoll::kernels
