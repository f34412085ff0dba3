// Longest context that the model itself allows (vllm/config/model.py: _get_and_verify_max_len).
#include "vllm/launch/length.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "model/rope.h"
#include "model/vllm/types.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {
namespace {

using model::is_longrope;
using model::is_yarn;

constexpr int64_t kUnstated = 2048;
constexpr VllmVersion kShortLongRope{0, 11, 1};  // longrope's default is the length before it
constexpr VllmVersion kYarnStated{0, 30, 0};     // max_position_embeddings is taken as stretched
constexpr VllmVersion kMentionsNan{0, 10, 2};

/// rope_parameters or rope_scaling: itself, or its objects by layer type.
std::vector<ConfigView> rope_settings(const ConfigView& text) {
  const ConfigView rope = text.child({"rope_parameters", "rope_scaling"});
  std::vector<ConfigView> settings;
  for (const auto& [key, value] : rope.json().items()) {
    if (value.is_object()) settings.push_back(rope.child({key.c_str()}));
  }
  if (settings.empty()) settings.push_back(rope);
  return settings;
}

bool keeps_length(std::string_view type) {
  return is_longrope(type) || type == "llama3" || type == "deepseek_llama_scaling";
}

/// The last factor counts, once, over the length before it.
struct Stretch {
  int64_t before;
  double factor = 1;

  void add(const ConfigView& rope, const std::string& type) {
    factor = rope.number({"factor"}, factor);
    if (is_yarn(type)) before = rope.integer({"original_max_position_embeddings"}, before);
  }
  [[nodiscard]] int64_t length() const {
    const double scaled = static_cast<double>(before) * factor;
    return scaled < 1e15 ? std::max<int64_t>(1, static_cast<int64_t>(scaled)) : before;
  }
};

/// The smallest of the lengths that a config states, and the key of it; empty: none.
std::pair<int64_t, std::string> stated_length(const ConfigView& text) {
  int64_t length = 0;
  std::string key = "None";
  for (const char* name :
       {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length",
        "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len"}) {
    const int64_t stated = text.integer({name}, 0);
    if (stated <= 0 || (length != 0 && stated >= length)) continue;
    length = stated;
    key = name;
  }
  const int64_t own = text.integer({"model_max_length"}, 0);
  return own > 0 ? std::pair{own, std::string("model_max_length")} : std::pair{length, key};
}

}  // namespace

ModelLength model_length(const ConfigView& config, const VllmVersion& version) {
  const ConfigView text = text_config(config);
  ModelLength result;
  const auto [stated, key] = stated_length(text);
  result.key = key;
  result.stated = stated > 0;
  result.most = result.reach = result.stated ? stated : kUnstated;
  const bool applied = model::vllm_type(text.text({"model_type"}, "")).stretched;
  bool longrope = false;
  Stretch bound{result.most}, reach{result.most};
  for (const ConfigView& rope : rope_settings(text)) {
    const std::string type = rope.text({"rope_type", "type"}, "default");
    longrope = longrope || is_longrope(type);
    if (applied || keeps_length(type)) continue;
    reach.add(rope, type);
    if (version < kYarnStated || !is_yarn(type)) bound.add(rope, type);
  }
  result.most = bound.length();
  result.reach = reach.length();
  result.usual = result.most;
  if (longrope && version >= kShortLongRope) {
    const ConfigView rope = text.child({"rope_parameters", "rope_scaling"});
    result.usual = text.integer({"original_max_position_embeddings"},
                                rope.integer({"original_max_position_embeddings"}, result.most));
  }
  return result;
}

void check_length(const ModelLength& length, int64_t asked, const ConfigView& config,
                  const VllmVersion& version) {
  if (!length.stated || asked <= length.reach) return;
  const int64_t own = text_config(config).integer({"model_max_length"}, 0);
  if (own >= asked) return;
  fail(ExitCode::usage,
       "User-specified max_model_len ({}) is greater than the derived max_model_len ({}={} or "
       "model_max_length={} in model's config.json). To allow overriding this maximum, set the env "
       "var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. {}Use --max-model-len {} at most.",
       asked, length.key, length.most, own > 0 ? std::to_string(own) : "None",
       version >= kMentionsNan
           ? "VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with extreme caution. If the model uses "
             "relative position encoding (RoPE), positions exceeding derived_max_model_len lead to "
             "nan. If the model uses absolute position encoding, positions exceeding "
             "derived_max_model_len will cause a CUDA array out-of-bounds error. "
           : "",
       length.reach);
}

std::string length_note(const ModelLength& length, int64_t planned, const VllmVersion& version) {
  if (length.reach <= length.most) return "";
  const std::string release = fmt::format("vLLM {}.{}", version.major, version.minor);
  if (planned > length.most) {
    return fmt::format(
        "{} takes the stated {} positions for the bound, whatever YaRN stretches them to: start it "
        "with VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 or --hf-overrides '{{\"{}\": {}}}'",
        release, length.most, length.key, planned);
  }
  return fmt::format(
      "YaRN stretches this model's positions to {}, which {} does not take by itself: ask with "
      "--max-model-len",
      length.reach, release);
}

}  // namespace plimsoll::vllm
