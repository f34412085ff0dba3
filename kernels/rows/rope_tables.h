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
  /// Copies the tables to `memory`, of the device, of backend::rope_table_bytes(), in the order of
  /// `stream`: what runs there may read them. `spec` outlives this.
  void start(const model::ModelSpec& spec, std::span<std::byte> memory, cudaStream_t stream);

  struct Tables {
    RopeFrequencies usual, for_long;  // for_long: none but with longrope
  };
  /// `rope` is one of the model's own.
  [[nodiscard]] const Tables& of(const model::RopeSpec& rope) const;

 private:
  const model::ModelSpec* spec_ = nullptr;
  std::vector<Tables> tables_;  // by rope
};

}  // namespace plimsoll::kernels
