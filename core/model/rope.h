// Rotary position embeddings as configs describe them, in both spellings.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/config_reader.h"
#include "model/model_spec.h"

namespace plimsoll::model {

/// What the model says about one of its RoPEs when the config does not.
struct RopeDefaults {
  int64_t head_dim = 0;
  int64_t max_position = 0;                   // max_position_embeddings
  double theta = 10000;                       // base of the rotation speeds
  std::string_view theta_key = "rope_theta";  // where a config outside `rope_parameters` states it
  std::string_view layer_type = "full_attention";  // key of a nested `rope_parameters`
  /// max_position_embeddings before it was stretched, of the config class; 0: none.
  int64_t original_max_position = 0;
  std::string_view share_key = "partial_rotary_factor";  // of the head that is rotated
  double share = 1;
  bool flat_is_idle = false;  // the class reads `rope_parameters` by layer type alone (Gemma 3)
};

struct Rope {
  RopeSpec spec;
  int64_t context = 0;  // positions that the model is made for: max_position, stretched where the
                        // kind stretches it
};

/// The RoPE of `rope_scaling` (which wins) or `rope_parameters`, flat or nested by layer type.
Rope read_rope(const ConfigReader& config, const RopeDefaults& defaults);
/// A RoPE without scaling of a base and a part of the head that are known.
Rope plain_rope(const ConfigReader& config, double theta, int64_t rotary_dim, int64_t max_position);
/// A RoPE without scaling, whatever `rope_scaling` says (Gemma 3's local layers); `rope_parameters`
/// nested under the layer type counts.
Rope read_local_rope(const ConfigReader& config, const RopeDefaults& defaults);

/// Kinds of YaRN: they stretch the length before the scaling.
bool is_yarn(std::string_view kind);
/// Kinds with two sets of factors, for short texts and for long ones.
bool is_longrope(std::string_view kind);

/// YaRN's attention factor for positions stretched by `factor`.
double yarn_scale(double factor, double mscale);
/// `mscale` or `mscale_all_dim` of a YaRN's parameters; 0 counts as absent.
std::optional<double> yarn_mscale(const ConfigReader& parameters, std::string_view key);

}  // namespace plimsoll::model
