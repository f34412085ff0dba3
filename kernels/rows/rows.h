// Ops on rows of tokens one by one. Rows of activations are bf16, f16 or f32; sums are in float.
// Throws std::logic_error for types that are not compiled, Error when the runtime refuses a launch.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend/backend.h"
#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

namespace ops = backend::ops;

/// out[t] = table[id] * scale, or added to out, with id = ids[t] + id_offset where ids[t] >= 0,
/// else drawn[-1 - ids[t]], which is written to resolved[t] (0 where drawing failed). An id past
/// the table takes row 0; a row whose drawing failed gives zeros.
enum class Store : uint8_t { overwrite, accumulate };
struct Embed {
  View out;                        // [T, width]
  View table;                      // [vocabulary, width], of the type of `out`
  const int32_t* ids = nullptr;    // [T]
  const int32_t* drawn = nullptr;  // null: no id is below 0
  int32_t* resolved = nullptr;     // [T] `ids` itself, or none
  int32_t id_offset = 0;           // OPT's learned positions start at row 2
  float scale = 1;
  Store store = Store::overwrite;
  /// First row of a table that ranks share in the whole table of `all_rows` rows (0: the table is
  /// whole). Rows of other ranks are -0.
  int64_t first_row = 0, all_rows = 0;
};
void embed(const Embed& op, cudaStream_t stream);

/// out[i] = in[rows[i]]; zeros where rows[i] is below 0.
void gather_rows(const View& out, const View& in, const int32_t* rows, cudaStream_t stream);

/// out[out_rows[i]] = in[in_rows[i]] of `count` entries.
struct PlaceRows {
  View out;
  View in;
  const int32_t* out_rows = nullptr;
  const int32_t* in_rows = nullptr;
  int64_t count = 0;
};
void place_rows(const PlaceRows& op, cudaStream_t stream);

/// out = norm(in) * (weight + spec.weight_offset) + bias; in place allowed. With `delta`, first in
/// += delta, rounded to in's type. A weight of several rows is used row by row in turn.
struct NormOp {
  View out;      // [T, width]
  View in;       // [T, width]
  View delta{};  // [T, width] or none
  model::Norm spec{};
  Vector weight{};    // [turns, width] or none
  Vector bias{};      // [width] or none
  int64_t turns = 1;  // row t has the weight's row t mod them
};
void norm(const NormOp& op, cudaStream_t stream);
/// Widest row of a norm, in bytes.
inline constexpr int64_t kMaxNormBytes = int64_t{96} << 10;

/// x = activation(x + bias), in place; `bias` may be none.
void bias_activation(const View& x, const Vector& bias, model::Activation activation,
                     cudaStream_t stream);

/// x [T, n] *= factors [n], in place.
void scale_columns(const View& x, const Vector& factors, cudaStream_t stream);

/// x[t, i] *= factors[indices[t, i]] in place, or all of x by factors[0] where `indices` has no
/// columns (ops::MultiplyFactors).
void multiply_factors(const View& x, const Vector& factors, const View& indices,
                      cudaStream_t stream);
/// x = xIELU(x), in place; `parameters` [4]: alpha_p, alpha_n, beta, eps (ops::Xielu).
void xielu(const View& x, const Vector& parameters, cudaStream_t stream);

// Ops that take nothing but their operands (backend/ops/rows.h, products.h).

void compute(const ops::AverageParts& op, cudaStream_t stream);
void compute(const ops::MatchSize& op, cudaStream_t stream);
void compute(const ops::KeepAbove& op, cudaStream_t stream);
void compute(const ops::Add& op, cudaStream_t stream);
void compute(const ops::LimitGates& op, cudaStream_t stream);
void compute(const ops::GatedActivation& op, cudaStream_t stream);
void compute(const ops::Scale& op, cudaStream_t stream);
void compute(const ops::CopyHeads& op, cudaStream_t stream);
void compute(const ops::MultiplyGates& op, cudaStream_t stream);
void compute(const ops::SoftCap& op, cudaStream_t stream);

}  // namespace plimsoll::kernels
