// Mixers with a state in place of a cache: short convolutions, Mamba, the gated delta rule.
#pragma once

#include <cstdint>
#include <vector>

#include "model/spec/attention.h"

namespace plimsoll::model {

/// Causal convolution over the last `taps` tokens, each column for itself.
struct ConvSpec {
  int64_t width = 0;
  int64_t taps = 0;             // its own token included
  WeightId weight = kNoWeight;  // [width, 1, taps], the oldest token's first
  WeightId bias = kNoWeight;    // [width]
  Activation activation = Activation::none;

  bool operator==(const ConvSpec&) const = default;
};
inline constexpr int64_t kMostTaps = 16;

enum class RecurrentKind : uint8_t {
  short_conv,   // [b; c; u] = in x; c * conv(b * u). LFM2
  mamba1,       // Gu and Dao 2023: [u; z] = in x
  mamba2,       // Dao and Gu 2024: [z; u; B; C; step] = in x; one decay a head
  gated_delta,  // Yang et al. 2024: [q; k; v; z] = in x, [beta; step] = steps x
  /// Kimi Team 2025, "Kimi Linear": a decay for each element of k; [q; k; v; beta; step's] = in x
  channel_delta,
  linear,        // Qin et al. 2024, "Lightning attention": a fixed decay for each head
  gated_linear,  // De et al. 2024, "Griffin": u = conv(in x); each channel by itself (RG-LRU)
};

/// A mixer whose memory of the tokens before is a state of fixed size. Its output before `out` is
/// [heads * head_dim]; all states are float32.
struct RecurrentSpec {
  RecurrentKind kind = RecurrentKind::short_conv;
  ConvSpec conv{};
  int64_t heads = 0;     // Mamba-1: channels
  int64_t head_dim = 0;  // Mamba-1: 1
  int64_t groups = 0;    // of B and C, or heads of q and k: each is shared by equally many heads
  /// State elements for each element of a head's output; for q and k: size of a head.
  int64_t state = 0;
  int32_t rope = -1;  // of q and k, in halves (Ling 2.5): index into ModelSpec::ropes; -1: none
  Linear in{};
  Linear steps{};  // gated delta
  /// RG-LRU: for each head's u [2 * head_dim, head_dim], gates of the input, then of the decay.
  std::vector<Linear> head_gates{};
  Linear choose{};  // Mamba-1: [step of `rank`; B; C] of u
  int64_t rank = 0;
  Linear step{};  // Mamba-1: [heads, rank]; channel delta: [heads * state, rank], or of the input
  /// Projections to z where `in` has none; one matrix: `gate_up` alone.
  Linear gate_down{}, gate_up{};
  WeightId step_bias = kNoWeight;  // [heads] or none, before softplus
  WeightId decay = kNoWeight;  // [heads] or [heads, state]: A; gated delta: A_log; RG-LRU: [width]
  WeightId skip = kNoWeight;   // [heads]: D
  Norm step_norm{}, b_norm{}, c_norm{};  // Mamba-1
  Norm norm{};  // of the output, in `norm_groups` groups; weight [all], or [head_dim] for each head
  int64_t norm_groups = 1;
  enum class Gated : uint8_t { before_norm, after_norm } gated = Gated::before_norm;
  GateKind gate = GateKind::silu;  // of z
  float beta_factor = 1;           // gated delta
  /// Gated delta: value head i uses key head i mod `groups` (GGUF files), not i * groups / heads.
  bool tiled = false;
  float in_factor = 1, out_factor = 1;  // Falcon-H1
  std::vector<float> factors{};         // Falcon-H1: of z, u, B, C, step; empty: none
  Linear out{};

  [[nodiscard]] int64_t width() const { return heads * head_dim; }
  /// Gated delta: the head of q and k that head `head` of v uses.
  [[nodiscard]] int64_t key_head(int64_t head) const {
    return tiled ? head % groups : head / (heads / groups);
  }
  /// Floats of a sequence's state, without those of the convolution.
  [[nodiscard]] int64_t state_floats() const { return heads * head_dim * state; }
  [[nodiscard]] int64_t conv_floats() const { return conv.width * (conv.taps - 1); }

  bool operator==(const RecurrentSpec&) const = default;
};

}  // namespace plimsoll::model
