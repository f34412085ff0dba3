#include "reference/recurrent.h"

#include <cmath>

namespace plimsoll::reference {
namespace {

double at(const std::vector<double>& values, int64_t i) {
  return values[static_cast<size_t>(i)];
}

}  // namespace

Matrix convolve(const Matrix& in, const model::ConvSpec& spec, const Matrix& weight,
                const std::vector<double>& bias) {
  Matrix out(in.rows, in.columns);
  for (int64_t t = 0; t < in.rows; ++t)
    for (int64_t c = 0; c < in.columns; ++c) {
      double sum = bias.empty() ? 0 : at(bias, c);
      for (int64_t ago = 0; ago < spec.taps && ago <= t; ++ago)
        sum += weight.at(c, spec.taps - 1 - ago) * in.at(t - ago, c);
      out.at(t, c) = activate(spec.activation, sum);
    }
  return out;
}

Matrix selective_scan(const ScanTerms& terms, const model::RecurrentSpec& spec) {
  Matrix out(terms.x.rows, terms.x.columns);
  const bool each = std::ssize(terms.decay) > spec.heads;
  for (int64_t head = 0; head < spec.heads; ++head)
    for (int64_t i = head * spec.head_dim; i < (head + 1) * spec.head_dim; ++i) {
      const int64_t group = head / (spec.heads / spec.groups) * spec.state;
      std::vector<double> h(static_cast<size_t>(spec.state), 0.0);
      for (int64_t t = 0; t < out.rows; ++t) {
        const double bias = terms.step_bias.empty() ? 0 : at(terms.step_bias, head);
        const double d = terms.step.columns == 0 ? 1 : softplus(terms.step.at(t, head) + bias);
        double y = terms.skip.empty() ? 0 : at(terms.skip, head) * terms.x.at(t, i);
        for (int64_t n = 0; n < spec.state; ++n) {
          const double a = at(terms.decay, each ? head * spec.state + n : head);
          double& state = h[static_cast<size_t>(n)];
          state = std::exp(d * a) * state + d * terms.x.at(t, i) * terms.b.at(t, group + n);
          y += state * terms.c.at(t, group + n);
        }
        out.at(t, i) = y;
      }
    }
  return out;
}

Matrix gated_delta(const DeltaTerms& terms, const model::RecurrentSpec& spec) {
  Matrix out(terms.v.rows, terms.v.columns);
  for (int64_t head = 0; head < spec.heads; ++head) {
    const int64_t keys = spec.state, values = spec.head_dim;
    const int64_t group = spec.key_head(head) * keys;
    Matrix s(keys, values);
    for (int64_t t = 0; t < out.rows; ++t) {
      double q_squares = 1e-6, k_squares = 1e-6;
      for (int64_t i = 0; i < keys; ++i) {
        q_squares += std::pow(terms.q.at(t, group + i), 2);
        k_squares += std::pow(terms.k.at(t, group + i), 2);
      }
      const int64_t decayed = terms.step.columns / spec.heads;  // keys, or 1: one for all
      const auto decay = [&](int64_t i) {
        const int64_t n = head * decayed + (decayed > 1 ? i : 0);
        const double bias = terms.step_bias.empty() ? 0 : at(terms.step_bias, n);
        return std::exp(-std::exp(at(terms.decay_log, head)) *
                        softplus(terms.step.at(t, n) + bias));
      };
      const double beta = double(spec.beta_factor) / (1 + std::exp(-terms.beta.at(t, head)));
      for (int64_t i = 0; i < keys; ++i)
        for (int64_t j = 0; j < values; ++j) s.at(i, j) *= decay(i);
      for (int64_t j = 0; j < values; ++j) {
        double read = 0, result = 0;
        for (int64_t i = 0; i < keys; ++i)
          read += s.at(i, j) * terms.k.at(t, group + i) / std::sqrt(k_squares);
        const double change = beta * (terms.v.at(t, head * values + j) - read);
        for (int64_t i = 0; i < keys; ++i) {
          s.at(i, j) += terms.k.at(t, group + i) / std::sqrt(k_squares) * change;
          result += s.at(i, j) * terms.q.at(t, group + i) / std::sqrt(q_squares * double(keys));
        }
        out.at(t, head * values + j) = result;
      }
    }
  }
  return out;
}

Matrix linear_recurrence(const LruTerms& terms, const model::RecurrentSpec& spec) {
  Matrix out(terms.x.rows, terms.x.columns);
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  for (int64_t head = 0; head < spec.heads; ++head)
    for (int64_t i = 0; i < spec.head_dim; ++i) {
      const int64_t channel = head * spec.head_dim + i, gate = 2 * head * spec.head_dim + i;
      const double rate = -8 * softplus(at(terms.decay, channel));
      double h = 0;
      for (int64_t t = 0; t < out.rows; ++t) {
        const double input = sigmoid(terms.gates.at(t, gate)) * terms.x.at(t, channel);
        const double a = std::exp(rate * sigmoid(terms.gates.at(t, gate + spec.head_dim)));
        h = t == 0 ? input : a * h + std::sqrt(1 - a * a) * input;
        out.at(t, channel) = h;
      }
    }
  return out;
}

}  // namespace plimsoll::reference
