// Rotary position embeddings as configs describe them, in both spellings.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/config_reader.h"
#include "model/model_spec.h"

namespace plimsoll::model {

/// Defaults of one of the model's RoPEs, for keys that the config leaves out.
struct RopeDefaults {
  int64_t head_dim = 0;
  int64_t max_position = 0;                   // max_position_embeddings
  double theta = 10000;                       // base of the rotation speeds
  std::string_view theta_key = "rope_theta";  // where a config outside `rope_parameters` states it
  std::string_view layer_type = "full_attention";  // key of a nested `rope_parameters`
  /// max_position_embeddings before it was stretched, a default of the config class; 0: none.
  int64_t original_max_position = 0;
  std::string_view share_key = "partial_rotary_factor";  // share of the head that is rotated
  double share = 1;
  bool flat_is_idle = false;  // the class reads `rope_parameters` by layer type alone (Gemma 3)
};

struct Rope {
  RopeSpec spec;
  /// Positions that the model is made for: max_position, stretched where the kind stretches it.
  int64_t context = 0;
};

/// Reads the RoPE from `rope_scaling` (which wins) or `rope_parameters`, flat or nested by layer
/// type.
Rope read_rope(const ConfigReader& config, const RopeDefaults& defaults);
/// A RoPE without scaling, of a given base and rotated part of the head.
Rope plain_rope(const ConfigReader& config, double theta, int64_t rotary_dim, int64_t max_position);
/// Reads a RoPE without scaling, whatever `rope_scaling` says (Gemma 3's local layers);
/// `rope_parameters` nested under the layer type counts.
Rope read_local_rope(const ConfigReader& config, const RopeDefaults& defaults);

/// True for kinds of YaRN, which stretch the length before the scaling.
bool is_yarn(std::string_view kind);
/// True for kinds with two sets of factors, for short texts and for long ones.
bool is_longrope(std::string_view kind);

/// YaRN's attention factor for positions stretched by `factor`.
double yarn_scale(double factor, double mscale);
/// `mscale` or `mscale_all_dim` of a YaRN's parameters; 0 counts as absent.
std::optional<double> yarn_mscale(const ConfigReader& parameters, std::string_view key);

}  // namespace plimsoll::model
