#include "reference/ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace plimsoll::reference {

double activate(model::Activation kind, double x) {
  using model::Activation;
  switch (kind) {
    case Activation::none:
      return x;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu:
      return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    case Activation::gelu_tanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::gelu_quick:
      return x / (1 + std::exp(-1.702 * x));
  }
  return x;
}

Matrix linear(const Matrix& in, const Matrix& weight, const std::vector<double>& bias,
              model::Activation activation) {
  Matrix out(in.rows, weight.rows);
  for (int64_t t = 0; t < in.rows; ++t)
    for (int64_t n = 0; n < weight.rows; ++n) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(n)];
      for (int64_t k = 0; k < in.columns; ++k) sum += in.at(t, k) * weight.at(n, k);
      out.at(t, n) = activate(activation, sum);
    }
  return out;
}

Matrix norm(const Matrix& in, const model::Norm& spec, const std::vector<double>& weight,
            const std::vector<double>& bias) {
  Matrix out(in.rows, in.columns);
  for (int64_t t = 0; t < in.rows; ++t) {
    double mean = 0;
    double squares = 0;
    if (spec.kind == model::NormKind::layer)
      for (int64_t i = 0; i < in.columns; ++i) mean += in.at(t, i) / double(in.columns);
    for (int64_t i = 0; i < in.columns; ++i)
      squares += std::pow(in.at(t, i) - mean, 2) / double(in.columns);
    for (int64_t i = 0; i < in.columns; ++i) {
      const auto at = static_cast<size_t>(i);
      out.at(t, i) = (in.at(t, i) - mean) / std::sqrt(squares + double(spec.epsilon)) *
                         (weight.empty() ? 1 : weight[at] + double(spec.weight_offset)) +
                     (bias.empty() ? 0 : bias[at]);
    }
  }
  return out;
}

void rotate(double* head, int64_t position, const model::RopeTable& table) {
  const size_t half = table.inverse_frequencies.size();
  for (size_t i = 0; i < half; ++i) {
    const auto angle = double(static_cast<float>(position) * table.inverse_frequencies[i]);
    const double c = std::cos(angle) * double(table.scale);
    const double s = std::sin(angle) * double(table.scale);
    const double x = head[i];
    const double y = head[half + i];
    head[i] = x * c - y * s;
    head[half + i] = y * c + x * s;
  }
}

Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v,
                 const model::AttentionSpec& spec) {
  Matrix out(q.rows, q.columns);
  const int64_t d = spec.head_dim;
  for (int64_t t = 0; t < q.rows; ++t)
    for (int64_t h = 0; h < spec.heads; ++h) {
      const int64_t kv = h / (spec.heads / spec.kv_heads);
      const int64_t position = k.rows - q.rows + t;
      const int64_t oldest = spec.window > 0 ? std::max<int64_t>(0, position - spec.window + 1) : 0;
      std::vector<double> weights;
      double best = -std::numeric_limits<double>::infinity();
      for (int64_t p = oldest; p <= position; ++p) {
        double score = 0;
        for (int64_t i = 0; i < d; ++i) score += q.at(t, h * d + i) * k.at(p, kv * d + i);
        score *= double(spec.scale);
        if (spec.soft_cap > 0)
          score = double(spec.soft_cap) * std::tanh(score / double(spec.soft_cap));
        weights.push_back(score);
        best = std::max(best, score);
      }
      double total = 0;
      for (double& w : weights) total += w = std::exp(w - best);
      for (int64_t p = oldest; p <= position; ++p)
        for (int64_t i = 0; i < d; ++i)
          out.at(t, h * d + i) +=
              weights[static_cast<size_t>(p - oldest)] / total * v.at(p, kv * d + i);
    }
  return out;
}

std::vector<Choice> route(const std::vector<double>& logits, int64_t k, bool normalize) {
  const double best = *std::max_element(logits.begin(), logits.end());
  std::vector<Choice> all;
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    all.push_back({static_cast<int32_t>(i), std::exp(logits[i] - best)});
    total += all.back().weight;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Choice& a, const Choice& b) { return a.weight > b.weight; });
  all.resize(static_cast<size_t>(k));
  double chosen = 0;
  for (Choice& choice : all) chosen += choice.weight /= total;
  if (normalize)
    for (Choice& choice : all) choice.weight /= chosen;
  return all;
}

}  // namespace plimsoll::reference
