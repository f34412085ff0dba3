// Products with weights, and what stands between those of an MLP; mixtures of experts.
#pragma once

#include <cstddef>

#include "backend/footprint.h"
#include "backend/operands.h"
#include "backend/ops/op.h"

namespace plimsoll::backend::ops {

/// out [T, n] = activation(in [T, k] * weight [n, k]^T + bias). `bias` may be empty.
struct Linear {
  static constexpr const char* kName = "linear";
  View out, in;
  Weight weight;
  Weight bias{};
  model::Activation activation = model::Activation::none;
  void check() const;
  [[nodiscard]] size_t workspace(const Footprint& footprint) const;
};

/// A product with the ops before and after it, in a step of few rows: linear of norm(in), then out
/// = the product, out += it, or out = gated activation of it. As one op it can be one kernel.
struct FusedLinear {
  static constexpr const char* kName = "fused_linear";
  View out;  // [T, n]; gated: [T, n / 2]
  View in;   // [T, k]
  Weight weight;
  Weight bias{};
  model::Norm norm{};  // of `in`, without a bias of its own, where it is present
  Weight norm_weight{};
  ProductEnd end = ProductEnd::stored;
  model::Activation activation = model::Activation::none;  // of gates
  void check() const;
};

/// x [T, n] *= f(gates [T, m]) with the kind's f, in place; gate i is for columns [i n / m, (i + 1)
/// n / m).
struct MultiplyGates {
  static constexpr const char* kName = "multiply_gates";
  View x, gates;
  model::GateKind kind;
  void check() const;
};

/// Limits x [T, 2 n], in place: gates, its first n columns, and ups, the others.
struct LimitGates {
  static constexpr const char* kName = "limit_gates";
  View x;
  model::GateLimits limits;
  void check() const;
};

/// out [T, n] = activation(in[:, :n]) * in[:, n:].
struct GatedActivation {
  static constexpr const char* kName = "gated_activation";
  View out, in;
  model::Activation activation;
  void check() const;
};

/// x = xIELU(x), in place: with p = softplus(alpha_p), n = beta + softplus(alpha_n), of x > 0 p x^2
/// + beta x, else n (expm1(min(x, eps)) - x) + beta x. `parameters` [4]: alpha_p, alpha_n, beta,
/// eps. Huang and Schlag 2024.
struct Xielu {
  static constexpr const char* kName = "xielu";
  View x;
  Weight parameters;
  void check() const;
};

/// The k best experts of each row by the router's rules, from router logits [T, E] f32, which are
/// not kept; the first of equal ones. `choice_bias` [E] f32 may be empty.
struct Route {
  static constexpr const char* kName = "route";
  Routing routing;
  View logits;
  Ref<model::RouterSpec> router;
  Weight choice_bias{};
  void check() const;
  [[nodiscard]] View written() const { return logits; }
};

/// out [T, hidden] = sum over chosen experts of weight * (down(act(gate) * up) + bias).
struct Experts {
  static constexpr const char* kName = "experts";
  View out, in;
  Routing routing;
  Ref<model::MlpSpec> mlp;
  ExpertWeights weights;
  void check() const;
  [[nodiscard]] size_t workspace(const Footprint& footprint) const;
};

}  // namespace plimsoll::backend::ops
