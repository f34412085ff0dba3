// Experts as the configs of Ling and its kin state them.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/config_reader.h"
#include "model/mixture.h"

namespace plimsoll::model {

/// Defaults of a class of configs.
struct LingDefaults {
  std::string_view score = "sigmoid";  // of the router's logits
  bool biased = true;                  // the choice has a bias
  double factor = 1;                   // of the experts' weights
  int64_t shared = 1;                  // number of shared experts
  int64_t dense = 1;                   // number of dense layers, the first ones
  bool together = false;               // a stated width of shared experts is of all of them
};

/// Reads router, experts and shared experts.
Mixture read_ling_mixture(const ConfigReader& config, int64_t layers, const LingDefaults& defaults);

}  // namespace plimsoll::model
