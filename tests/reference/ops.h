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

/// Angles are float products, as the models were trained with: cos, sin of position * frequency.
void rotate(double* head, int64_t position, const model::RopeTable& table);

/// Causal attention of `q` [n, H d] at the last n positions over `k` and `v` [context, K d].
Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v,
                 const model::AttentionSpec& spec);

/// The `k` best of softmax(logits), best first, the first of equals; divided by their sum when
/// `normalize`.
struct Choice {
  int32_t expert = 0;
  double weight = 0;
};
std::vector<Choice> route(const std::vector<double>& logits, int64_t k, bool normalize);

}  // namespace plimsoll::reference
