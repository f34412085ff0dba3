// Experts as the configs of Ling and its kin state them.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/config_reader.h"
#include "model/mixture.h"

namespace plimsoll::model {

/// What a class takes where its config is silent.
struct LingDefaults {
  std::string_view score = "sigmoid";  // of the router's logits
  bool biased = true;                  // the choice
  double factor = 1;                   // of the experts' weights
  int64_t shared = 1;                  // experts
  int64_t dense = 1;                   // layers, the first ones
};

/// Router, experts and shared ones, of which a stated width is each one's.
Mixture read_ling_mixture(const ConfigReader& config, int64_t layers, const LingDefaults& defaults);

}  // namespace plimsoll::model
