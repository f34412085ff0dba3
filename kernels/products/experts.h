// Mixture of experts: sorts rows by expert, and multiplies each expert with its rows. All counts
// stay on the device.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/experts_layout.h"
#include "kernels/products/slices.h"
#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

using namespace backend::cuda;  // plans of steps

/// Chooses the k best experts of each row by the router's rules, from logits [T, E] of any
/// activation type (the first of equal ones). `choice_bias` [E] may be none. experts [T, k] i32,
/// weights [T, k] f32. E <= 1024, k <= 32, groups <= 32.
void route(const View& experts, const View& weights, const View& logits,
           const model::RouterSpec& router, const Vector& choice_bias, cudaStream_t stream);

/// Slots, (row, choice) pairs row * k + choice, sorted by expert, and by number for one expert.
/// Experts are this rank's, counted from its first; choices of other ranks' experts, and choices
/// past all experts, which return their input, have no place.
struct ExpertSlots {
  int64_t experts = 0;
  int64_t first = 0;          // of all experts
  int64_t all = 0;            // experts of all ranks
  int64_t slots = 0;          // T k
  int32_t* starts = nullptr;  // [experts + 1] first sorted slot of each expert
  int32_t* order = nullptr;   // [slots] slot of each sorted place
  int32_t* place = nullptr;   // [slots] sorted place of each slot
  int2* tiles = nullptr;      // [count_tiles()] expert (-1: none) and first sorted slot
  bool one_size = false;      // of tiles, the largest, so that one kernel serves any batch

  [[nodiscard]] int64_t tile_rows() const {
    return one_size ? kExpertTileRows : expert_tile_rows(slots, all);
  }
  /// Number of tiles, whatever the choices: those of expert e begin at starts[e] / tile_rows() + e,
  /// after all tiles of the experts before it.
  [[nodiscard]] int64_t count_tiles() const { return slots / tile_rows() + experts; }
};
/// Fills `slots` by the chosen experts [T, k] i32.
void sort_slots(const ExpertSlots& slots, const View& chosen, cudaStream_t stream);

/// out[p] = in[row(p)] * weight[expert(p)]^T for each sorted place p, summed in float: row(p) =
/// order[p] / `slots_per_row`, or p itself when that is 0. out [slots, n], in [rows, k], weight
/// [experts, n, k] of one type; out of that or float32.
struct ExpertProduct {
  View out;
  View in;
  const void* weight = nullptr;
  int64_t slots_per_row = 0;
  int64_t weight_stride = 0;  // elements from row to row of the weight; 0: k
};
void multiply_experts(const ExpertProduct& op, const ExpertSlots& slots, cudaStream_t stream);

/// The experts that rows have chosen, and their weights.
struct Choices {
  View experts;  // [T, k] i32
  View weights;  // [T, k] f32
};

/// gated[p] = activation(gate) * (up + offset) of each sorted place p, for experts that need more
/// than ops::GatedActivation: their weight on the input, biases [experts, 2 intermediate], limits.
struct GateExperts {
  View out;  // [slots, intermediate]
  View in;   // [slots, 2 intermediate]
  Vector bias{};
  const model::MlpSpec* mlp = nullptr;
};
void gate_experts(const GateExperts& op, const Choices& choices, const ExpertSlots& slots,
                  cudaStream_t stream);

/// out[t] = sum over the k choices of this rank's experts, in their order, of weight * (in[place[t
/// k + i]] + bias), bias [all experts, n]. ExpertWeighs::input: with weight 1. A choice past all
/// experts is weight * input[t].
struct CombineExperts {
  View out;
  View in;
  View input;  // of the experts
  Vector bias{};
  model::ExpertWeighs weighs = model::ExpertWeighs::output;
  bool adds_input = true;  // false: such a choice adds nothing, because another rank adds it
};
void combine_experts(const CombineExperts& op, const Choices& choices, const ExpertSlots& slots,
                     cudaStream_t stream);

/// Combines one slice of the inputs of the second product, in float32: `in` [slots, n] f32, and by
/// groups of experts (backend::cuda::expert_groups), whose sums are added in a tree of pairs. The
/// result is added to the sums of the slices before it in their tree (model/slices.h): after the
/// last slice the sum of all lies at `waiting`.
struct CombineSlice {
  CombineExperts op;         // `out` [rows, n] f32: the first of the waiting sums
  int64_t waiting_step = 0;  // floats from one waiting sum to the next
  int64_t slice = 0;
  bool apart = false;  // the slice's sum is not added, and stays as the waiting sum of its number
};
void combine_slice(const CombineSlice& op, const Choices& choices, const ExpertSlots& slots,
                   cudaStream_t stream);

/// A matrix of each expert, [experts, n, k] of the type of rows, or quantized.
struct ExpertStack {
  const void* data = nullptr;
  const model::WeightSpec* packed = nullptr;  // null: plain
  backend::InputRanks* ranks = nullptr;       // ranks that have the other inputs of quantized ones
};

/// out [T, hidden] = sum over chosen experts of weight * (down(act(gate) * up) + bias). `up` is
/// [experts, 2 intermediate, hidden], `down` [experts, hidden, intermediate]: of all experts of the
/// mixture, or of `own` ones from `first` on.
struct Experts {
  View out;
  View in;
  Choices choices;
  const model::MlpSpec* mlp = nullptr;
  int64_t first = 0, own = 0;
  ExpertStack up, down;
  Vector up_bias{}, down_bias{};
  bool adds_inputs = true;         // of choices past the experts
  std::byte* workspace = nullptr;  // experts_layout(...).bytes, aligned to 256
  std::byte* rewritten = nullptr;  // rewritten_experts_bytes(...)
  bool one_arrangement = false;    // a row has the same bits in any batch
  /// Slices of which the second product is made; 0: it has none. With slices `out` is unchanged,
  /// and sum_of_experts() is the sum (backend::cuda::SlicedExpertsLayout).
  int64_t down_slices = 0;
  /// sum_of_experts() has as many slices, because other ranks have other experts.
  bool slices_apart = false;
  float* downs = nullptr;
  float* waiting = nullptr;
};
void experts(const Experts& op, cudaStream_t stream);
/// The sum of slices that experts() has left: one slice of this rank, or all slices.
SliceSums sum_of_experts(const Experts& op);

}  // namespace plimsoll::kernels
