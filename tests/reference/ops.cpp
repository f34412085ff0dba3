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
    case Activation::relu_squared:
      return std::pow(std::max(x, 0.0), 2);
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

Matrix match_size(const Matrix& x, const Matrix& like) {
  Matrix out(x.rows, x.columns);
  for (int64_t r = 0; r < x.rows; ++r) {
    double own = 0, wanted = 0;
    for (int64_t c = 0; c < x.columns; ++c) {
      own += std::pow(x.at(r, c), 2) / double(x.columns);
      wanted += std::pow(like.at(r, c), 2) / double(x.columns);
    }
    for (int64_t c = 0; c < x.columns; ++c)
      out.at(r, c) = x.at(r, c) * std::sqrt(wanted / std::max(own, 1e-5));
  }
  return out;
}

Matrix keep_above(const Matrix& x, double deviations) {
  Matrix out(x.rows, x.columns);
  for (int64_t r = 0; r < x.rows; ++r) {
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < x.columns; ++c) mean += x.at(r, c) / double(x.columns);
    for (int64_t c = 0; c < x.columns; ++c)
      variance += std::pow(x.at(r, c) - mean, 2) / double(x.columns);
    for (int64_t c = 0; c < x.columns; ++c)
      out.at(r, c) = std::max(x.at(r, c) - mean - deviations * std::sqrt(variance), 0.0);
  }
  return out;
}

double softplus(double x) {
  return std::log1p(std::exp(x));
}

Matrix limit_gates(const Matrix& x, const model::GateLimits& limits) {
  const auto bound = [](float limit) { return limit > 0 ? double(limit) : 1e300; };
  Matrix out = x;
  for (int64_t t = 0; t < x.rows; ++t)
    for (int64_t i = 0; i < x.columns; ++i) {
      const bool is_gate = i < x.columns / 2;
      const double most = bound(is_gate ? limits.gate : limits.up);
      out.at(t, i) = std::clamp(x.at(t, i), is_gate ? -1e300 : -most, most);
    }
  return out;
}

double xielu(const std::vector<double>& parameters, double x) {
  const double positive = softplus(parameters[0]);
  const double beta = parameters[2];
  const double negative = beta + softplus(parameters[1]);
  if (x > 0) return positive * x * x + beta * x;
  return negative * (std::expm1(std::min(x, parameters[3])) - x) + beta * x;
}

void rotate(double* head, int64_t position, const model::RopeTable& table, model::RopePairs pairs) {
  const size_t half = table.inverse_frequencies.size();
  for (size_t i = 0; i < half; ++i) {
    const auto angle = double(static_cast<float>(position) * table.inverse_frequencies[i]);
    const double c = std::cos(angle) * double(table.scale);
    const double s = std::sin(angle) * double(table.scale);
    const bool halves = pairs == model::RopePairs::halves;
    double& first = head[halves ? i : 2 * i];
    double& second = head[halves ? half + i : 2 * i + 1];
    const double x = first;
    const double y = second;
    first = x * c - y * s;
    second = y * c + x * s;
  }
}

namespace {

/// Columns [first, first + count) of `row`, normed; `vector` from `from` on.
void norm_columns(Matrix& row, int64_t first, int64_t count, const model::Norm& spec,
                  const std::vector<double>& weight, const std::vector<double>& bias,
                  int64_t from) {
  Matrix part(1, count);
  for (int64_t i = 0; i < count; ++i) part.at(0, i) = row.at(0, first + i);
  const auto slice = [&](const std::vector<double>& v) {
    if (v.empty()) return v;
    return std::vector<double>(v.begin() + from, v.begin() + from + count);
  };
  const Matrix normed = norm(part, spec, slice(weight), slice(bias));
  for (int64_t i = 0; i < count; ++i) row.at(0, first + i) = normed.at(0, i);
}

void norm_heads(Matrix& row, int64_t first, int64_t heads, const model::AttentionSpec& spec,
                const model::Norm& kind, const std::vector<double>& weight,
                const std::vector<double>& bias) {
  if (!kind.present) return;
  const int64_t d = spec.head_dim;
  if (spec.norm_span == model::NormSpan::all_heads)
    return norm_columns(row, first, heads * d, kind, weight, bias, 0);
  const bool own = static_cast<int64_t>(weight.size()) > d;
  for (int64_t h = 0; h < heads; ++h)
    norm_columns(row, first + h * d, d, kind, weight, bias, own ? h * d : 0);
}

}  // namespace

Matrix shape_heads(const Matrix& qkv_row, const model::AttentionSpec& spec,
                   const HeadVectors& vectors, const model::RopeTable* table, int64_t position) {
  Matrix row = qkv_row;
  const int64_t d = spec.head_dim;
  const int64_t k = spec.heads * d;
  const int64_t v = k + spec.kv_heads * d;
  if (spec.clamp > 0)
    for (double& x : row.values) x = std::clamp(x, -double(spec.clamp), double(spec.clamp));
  const auto norm_all = [&] {
    norm_heads(row, 0, spec.heads, spec, spec.q_norm, vectors.q_norm, vectors.q_bias);
    norm_heads(row, k, spec.kv_heads, spec, spec.k_norm, vectors.k_norm, vectors.k_bias);
  };
  if (spec.norm_order == model::NormOrder::before_rope) norm_all();
  if (table != nullptr)
    for (int64_t h = 0; h < spec.heads + spec.kv_heads; ++h)
      rotate(&row.at(0, h * d), position, *table, spec.rope_pairs);
  if (spec.norm_order == model::NormOrder::after_rope) norm_all();
  const auto periods =
      static_cast<double>((position + spec.query_growth.shift) / spec.query_growth.period);
  for (int64_t i = 0; i < k; ++i)
    row.at(0, i) *= 1 + double(spec.query_growth.beta) * std::log(1 + periods);
  model::AttentionSpec each = spec;
  each.norm_span = model::NormSpan::each_head;
  norm_heads(row, v, spec.kv_heads, each, spec.v_norm, {}, {});
  return row;
}

namespace {

/// True when a position sees a key at or before it.
bool sees(const model::AttentionSpec& spec, int64_t position, int64_t key) {
  if (spec.window == 0) return true;
  if (spec.window_kind == model::WindowKind::chunk)
    return key >= position / spec.window * spec.window;
  return position - key < spec.window;
}

double alibi(const model::AttentionSpec& spec, double slope, int64_t position, int64_t key) {
  if (spec.alibi.of == model::Alibi::Of::distance)
    return double(spec.alibi.factor) * slope * double(key - position);
  if (spec.alibi.of == model::Alibi::Of::root)
    return -double(spec.alibi.factor) * slope * std::sqrt(double(position - key));
  double rounded = slope * double(key);
  uint16_t bits = 0;
  const auto single = static_cast<float>(rounded);
  convert(&single, DType::f32, &bits, DType::bf16, 1);
  convert(&bits, DType::bf16, &rounded, DType::f64, 1);
  return double(spec.alibi.factor) * rounded;
}

}  // namespace

ChosenKeys choose_keys(const Matrix& q, const Matrix& weights, const Matrix& k,
                       const model::AttentionSpec& spec, int64_t most) {
  ChosenKeys chosen;
  const int64_t d = spec.head_dim;
  for (int64_t t = 0; t < q.rows; ++t) {
    const int64_t seen = k.rows - q.rows + t + 1;
    std::vector<double> scores(static_cast<size_t>(seen));
    for (int64_t p = 0; p < seen; ++p)
      for (int64_t h = 0; h < spec.heads; ++h) {
        double product = 0;
        for (int64_t i = 0; i < d; ++i) product += q.at(t, h * d + i) * k.at(p, i);
        scores[static_cast<size_t>(p)] +=
            weights.at(t, h) * std::max(product * double(spec.scale), 0.0);
      }
    std::vector<int32_t> keys(scores.size());
    std::iota(keys.begin(), keys.end(), 0);
    std::stable_sort(keys.begin(), keys.end(), [&](int32_t a, int32_t b) {
      return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
    });
    keys.resize(static_cast<size_t>(std::min(most, seen)));
    std::sort(keys.begin(), keys.end());
    chosen.push_back(std::move(keys));
  }
  return chosen;
}

Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v,
                 const model::AttentionSpec& spec, const std::vector<double>& sinks,
                 const std::vector<double>& slopes, const ChosenKeys& chosen,
                 const std::vector<int32_t>& seen_end) {
  Matrix out(q.rows, q.columns);
  const int64_t d = spec.head_dim;
  for (int64_t t = 0; t < q.rows; ++t)
    for (int64_t h = 0; h < spec.heads; ++h) {
      const auto head = static_cast<size_t>(h);
      const int64_t kv = h / (spec.heads / spec.kv_heads);
      const int64_t position = k.rows - q.rows + t;
      const int64_t end = seen_end.empty() ? position + 1 : seen_end[static_cast<size_t>(t)];
      const auto is_seen = [&](int64_t key) {
        if (!chosen.empty() && !std::ranges::binary_search(chosen[static_cast<size_t>(t)], key))
          return false;
        return sees(spec, position, key);
      };
      std::vector<double> weights(static_cast<size_t>(end), 0);
      double best = sinks.empty() ? -std::numeric_limits<double>::infinity() : sinks[head];
      for (int64_t p = 0; p < end; ++p) {
        if (!is_seen(p)) continue;
        double score = 0;
        for (int64_t i = 0; i < d; ++i) score += q.at(t, h * d + i) * k.at(p, kv * d + i);
        score *= double(spec.scale);
        if (spec.soft_cap > 0)
          score = double(spec.soft_cap) * std::tanh(score / double(spec.soft_cap));
        if (!slopes.empty()) score += alibi(spec, slopes[head], position, p);
        weights[static_cast<size_t>(p)] = score;
        best = std::max(best, score);
      }
      double total = sinks.empty() ? 0 : std::exp(sinks[head] - best);
      for (int64_t p = 0; p < end; ++p) {
        double& w = weights[static_cast<size_t>(p)];
        total += w = is_seen(p) ? std::exp(w - best) : 0;
      }
      for (int64_t p = 0; p < end; ++p)
        for (int64_t i = 0; i < d; ++i)
          out.at(t, h * d + i) += weights[static_cast<size_t>(p)] / total * v.at(p, kv * d + i);
    }
  return out;
}

}  // namespace plimsoll::reference
