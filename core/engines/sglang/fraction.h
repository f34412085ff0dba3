// The share of a card that weights and cache may take: --mem-fraction-static.
#pragma once

#include <cstdint>
#include <optional>

#include "engines/model_config.h"
#include "engines/sglang/launch.h"

namespace plimsoll::engines::sglang {

struct FractionInputs {
  Version version;
  std::optional<int64_t> card_mib;
  int64_t chunk = 0;  // before it is divided by attention ranks
  int64_t max_prefill = 0;
  int64_t tp = 1, pp = 1;
  int64_t attention_dp = 0;  // ranks of attention data parallelism; 0: off
  int64_t largest_decode_graph = 0;
  bool decode_graphs = true;
  std::optional<int64_t> prefill_sizes;  // number of prefill graphs; absent: off
  bool latent = false;
  bool deepep = false;
  bool breakable_prefill = false;
  std::string speculation;  // algorithm; empty: none
};

/// The fraction, to three places, of a model without images.
double default_fraction(const FractionInputs& inputs);

/// Factor by which a multimodal model's fraction is made smaller, for what its encoder takes:
/// 0.95 x clamp(1 - 0.1 (c - 1), 0.8, 1.05), c = layers hidden^2 / (24 x 1024^2). 1 for a model
/// without an encoder's config.
double multimodal_factor(const ModelConfig& config);

}  // namespace plimsoll::engines::sglang
