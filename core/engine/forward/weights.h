// A model's or an image encoder's weights, and the ops that both are written over.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "memory/arena.h"
#include "model/model_spec.h"

namespace plimsoll::engine {

namespace ops = backend::ops;

/// Whether a model has weights of its own, or uses those of another model of the same spec.
enum class WeightsOf : uint8_t { itself, another };

class Weights {
 public:
  /// Fills the weights (placing arenas only).
  void load(const checkpoint::WeightSource& stored);
  /// Fills the weights with small random numbers instead, for benchmarks.
  void fill_random(uint64_t seed);

 protected:
  Weights(DType dtype, backend::Backend& backend) : dtype_(dtype), backend_(backend) {}

  /// Takes the region `name` from the arena (counting or placing), of all weights in their types.
  /// `specs` outlive it. Without weights of its own it takes nothing.
  void place(std::string_view name, std::span<const model::WeightSpec> specs,
             std::span<const DType> dtypes, memory::Arena& arena, WeightsOf whose);
  /// Uses the weights of a model that has loaded its own and outlives this one.
  void borrow(const Weights& other) { weights_ = other.weights_; }

  [[nodiscard]] const backend::Weight& weight(model::WeightId id) const;
  /// The type of matrices in scratch for which none is given.
  [[nodiscard]] DType activation_dtype() const {
    return backend_.footprint().activation_dtype(dtype_);
  }
  /// A matrix in scratch.
  backend::View take(std::string_view name, int64_t rows, int64_t columns);
  backend::View take(std::string_view name, int64_t rows, int64_t columns, DType dtype);
  /// Copies `in` to the first columns of `out`.
  void copy(backend::View out, backend::View in);
  void norm(backend::View out, backend::View in, const model::Norm& spec);
  void linear(backend::View out, backend::View in, const model::Linear& linear,
              model::Activation activation);

  DType dtype_;
  backend::Backend& backend_;

 private:
  std::vector<backend::Weight> weights_;  // by WeightId
};

}  // namespace plimsoll::engine
