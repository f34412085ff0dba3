// Slow honest twins of the backend's ops, in double precision on plain row-major matrices.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_spec.h"

namespace plimsoll::reference {

/// [rows, columns], row-major.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> values = {};

  Matrix(int64_t row_count, int64_t column_count)
      : rows(row_count),
        columns(column_count),
        values(static_cast<size_t>(row_count * column_count)) {}
  double& at(int64_t row, int64_t column) {
    return values[static_cast<size_t>(row * columns + column)];
  }
  [[nodiscard]] double at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
};

double activate(model::Activation kind, double x);

/// activation(in * weight^T + bias); `bias` may be empty.
Matrix linear(const Matrix& in, const Matrix& weight, const std::vector<double>& bias,
              model::Activation activation);

/// norm(in) * (weight + offset) + bias; `weight` and `bias` may be empty.
Matrix norm(const Matrix& in, const model::Norm& spec, const std::vector<double>& weight,
            const std::vector<double>& bias);

/// Rows of x in the size of those of `like`; mean squares of x count as 1e-5 at least.
Matrix match_size(const Matrix& x, const Matrix& like);
/// max(x - mean - deviations * deviation, 0) by row.
Matrix keep_above(const Matrix& x, double deviations);
/// Backend::limit_gates().
Matrix limit_gates(const Matrix& x, const model::GateLimits& limits);
/// log(1 + e^x), as torch's softplus.
double softplus(double x);

/// xIELU of parameters alpha_p, alpha_n, beta, eps.
double xielu(const std::vector<double>& parameters, double x);

/// Angles are float products, as the models were trained with: cos, sin of position * frequency.
void rotate(double* head, int64_t position, const model::RopeTable& table,
            model::RopePairs pairs = model::RopePairs::halves);

/// Weights and biases of norms over heads: of one head or of all; empty: none.
struct HeadVectors {
  std::vector<double> q_norm{}, q_bias{}, k_norm{}, k_bias{};
};

/// A row [(H + 2K) d] of q, k and v after clamp, norms, rotation and growth of q, for the token at
/// its position. `table` null: no rotation.
Matrix shape_heads(const Matrix& qkv_row, const model::AttentionSpec& spec,
                   const HeadVectors& vectors, const model::RopeTable* table, int64_t position);

/// The keys that each row sees, ascending.
using ChosenKeys = std::vector<std::vector<int32_t>>;
/// Chosen keys for `q` [n, H d] and `weights` [n, H] at the last n positions: the `most` keys of
/// `k` [context, d] with the best scores, of equals the first; all where there are no more.
ChosenKeys choose_keys(const Matrix& q, const Matrix& weights, const Matrix& k,
                       const model::AttentionSpec& spec, int64_t most);

/// Causal attention of `q` [n, H d] at the last n positions over `k` and `v` [context, K d].
/// `sinks` and `slopes` [H] may be empty; so may `chosen` [n], and `seen_end` [n], the position
/// behind the last one that a row sees.
Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v,
                 const model::AttentionSpec& spec, const std::vector<double>& sinks = {},
                 const std::vector<double>& slopes = {}, const ChosenKeys& chosen = {},
                 const std::vector<int32_t>& seen_end = {});

struct Choice {
  int32_t expert = 0;
  double weight = 0;
};
/// The `k` best experts of a row of router logits, best first, the first of equal ones, by the
/// router's rules; `choice_bias` may be empty.
std::vector<Choice> route(std::vector<double> logits, int64_t k, const model::RouterSpec& router,
                          const std::vector<double>& choice_bias);

/// Weights of a mixture of experts, one matrix under the other.
struct ExpertMatrices {
  Matrix up;                        // [experts * 2 intermediate, hidden]
  Matrix down;                      // [experts * hidden, intermediate]
  std::vector<double> up_bias{};    // [experts * 2 intermediate] or none
  std::vector<double> down_bias{};  // [experts * hidden] or none
};
/// The sum of the chosen experts for each row of `in`.
Matrix experts(const Matrix& in, const std::vector<std::vector<Choice>>& choices,
               const model::MlpSpec& mlp, const ExpertMatrices& weights);

}  // namespace plimsoll::reference
