// AWQ, GPTQ and AutoRound: integers packed into words, and which modules a checkpoint holds so.
#include <strings.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "base/key_order.h"
#include "quantization/config.h"

namespace plimsoll::quantization {
namespace {

constexpr Bounds kPackedBits{1, 8};

/// AWQ's and GPTQ's settings over those of `base`.
WeightScheme packed_scheme(const ConfigView& config, const WeightScheme& base) {
  WeightScheme scheme = base;
  const bool first = base.bits > 8;
  scheme.bits = config.integer({"bits", "w_bit"}, first ? 4 : base.bits, kPackedBits);
  const int64_t group =
      config.integer({"group_size", "q_group_size"}, first ? 128 : base.group, {-1, 1 << 20});
  scheme.group = group > 0 ? group : 0;
  // With one group for each output the order of inputs does not matter.
  scheme.ordered_groups = config.flag({"desc_act"}, base.ordered_groups) && scheme.group > 0;
  scheme.zero_points = base.format == WeightFormat::awq ? config.flag({"zero_point"}, true)
                                                        : !config.flag({"sym"}, !base.zero_points);
  if (config.has("checkpoint_format")) {
    scheme.zeros_as_stored = config.text({"checkpoint_format"}, "") == "gptq_v2";
  }
  return scheme;
}

/// Formats whose codes lie in an order that tools made for their kernels; all other formats have
/// the usual order.
constexpr const char* kOtherLayouts[] = {"gemv",   "gemv_fast", "gemv-fast", "llm-awq",
                                         "marlin", "bitblas",   "qqq"};

const char* find_other_layout(const ConfigView& config) {
  for (const char* key : {"version", "format", "checkpoint_format"}) {
    if (!config.is_text(key)) continue;
    const std::string layout = config.text({key}, "");
    const auto* const found = std::ranges::find_if(
        kOtherLayouts, [&](const char* other) { return strcasecmp(layout.c_str(), other) == 0; });
    if (found != std::end(kOtherLayouts)) return *found;
  }
  return nullptr;
}

/// A pattern rather than a name, by AutoRound's rule.
bool is_pattern(const std::string& name) {
  return name.find_first_of("*+?^$()[]{}|\\") != std::string::npos;
}

}  // namespace

void Quantization::read_packed(const ConfigView& config) {
  const bool awq = method_.starts_with("awq");
  base_.format = awq ? WeightFormat::awq : WeightFormat::gptq;
  base_ = packed_scheme(config, base_);
  base_.layout_not_run = find_other_layout(config);
  lm_head_ = config.flag({"lm_head"}, false);
  if (awq && base_.bits != 4) {
    fail(ExitCode::checkpoint_unusable, "{}: \"bits\" is {}, expected 4 of AWQ", config.path(),
         base_.bits);
  }
  ignored_ = NameList(config.texts({"modules_to_not_convert"}), NameMatch::substring);
  if (awq) return;
  note_dropped(base_);
  read_rules(config);
}

void Quantization::note_dropped(const WeightScheme& scheme) {
  if (!dropped_.empty()) return;
  if (scheme.ordered_groups) {
    dropped_ =
        "GPTQ group activation ordering (desc_act=True) is no longer supported. Use a checkpoint "
        "with static activation ordering or desc_act=False.";
  } else if ((scheme.bits != 4 && scheme.bits != 8) || scheme.zero_points) {
    dropped_ = fmt::format("Unsupported quantization config: bits={}, sym={}", scheme.bits,
                           scheme.zero_points ? "False" : "True");
  }
}

/// GPTQModel's `dynamic`: "+:pattern" (or the pattern alone) with settings that differ, "-:pattern"
/// for modules left plain. `modules_in_block_to_quantize` lists names, perhaps in lists of lists.
void Quantization::read_rules(const ConfigView& config) {
  const ConfigView dynamic = config.child({"dynamic"});
  if (config.has("dynamic") && !config.has_child({"dynamic"})) {
    fail(ExitCode::checkpoint_unusable,
         "{}: \"dynamic\" is no object of patterns and what differs in the modules that they name",
         config.path());
  }
  for (const std::string& pattern : keys_in_order(config.json(), "dynamic")) {
    const Json& overrides = dynamic.json().at(pattern);
    const bool skipped = pattern.starts_with("-:");
    const std::string text = skipped || pattern.starts_with("+:") ? pattern.substr(2) : pattern;
    Rule rule{NameList({"re:" + text}, NameMatch::regex), {}};
    if (!skipped && overrides.is_object()) {
      rule.scheme = packed_scheme({overrides, dynamic.path() + ": " + pattern}, base_);
      note_dropped(rule.scheme);
    } else if (!skipped) {
      rule.scheme = base_;
    }
    rules_.push_back(std::move(rule));
  }
  const auto listed = config.json().find("modules_in_block_to_quantize");
  if (listed == config.json().end() || !listed->is_array()) return;
  std::vector<std::string> flat;
  for (const Json& entry : listed->flatten()) {
    if (entry.is_string()) flat.push_back(entry.get<std::string>());
  }
  blocks_ = NameList(flat, NameMatch::substring);
}

WeightScheme Quantization::by_rules(const ModuleName& module) const {
  for (const Rule& rule : rules_) {
    const ModuleName whole{module.path, module.leaf, {}, module.stored};
    if (rule.names.lists(whole)) return rule.scheme;
  }
  return base_;
}

/// AutoRound: packed as GPTQ or AWQ packs, with what differs by name or pattern in `extra_config`
/// and blocks by the beginnings of their names.
void Quantization::read_auto_round(const ConfigView& config) {
  const std::string packing = config.text({"packing_format"}, "auto_round:auto_gptq");
  const std::string type = config.text({"data_type"}, "int");
  if (type != "int" || !packing.starts_with("auto_round:auto_")) {
    fail(ExitCode::checkpoint_unusable,
         "{}: AutoRound's data_type \"{}\" packed as \"{}\" is not supported; known are int in "
         "auto_round:auto_gptq and auto_round:auto_awq",
         config.path(), type, packing);
  }
  base_.format = packing == "auto_round:auto_awq" ? WeightFormat::awq : WeightFormat::gptq;
  base_ = packed_scheme(config, base_);
  if (base_.format == WeightFormat::awq) base_.zero_points = !config.flag({"sym"}, true);
  if (base_.format == WeightFormat::gptq) note_dropped(base_);
  others_quantized_ = true;
  constexpr int64_t kWhole = 16;  // bits from which on a module is left plain
  const ConfigView extra = config.child({"extra_config"});
  for (const std::string& name : keys_in_order(config.json(), "extra_config")) {
    const ConfigView view(extra.json().at(name), extra.path() + ": " + name);
    const bool plain = view.integer({"bits"}, base_.bits, {1, 32}) >= kWhole;
    const WeightScheme scheme = plain ? WeightScheme{} : packed_scheme(view, base_);
    if (is_pattern(name)) {
      rules_.push_back({NameList({"re:.*(?:" + name + ")"}, NameMatch::regex), scheme});
    } else {
      list_layer(name, scheme);
    }
  }
  if (!config.is_text("block_name_to_quantize")) {
    block_prefixes_ = config.texts({"block_name_to_quantize", "to_quant_block_names"});
  } else {
    std::string rest = config.text({"block_name_to_quantize"}, "") + ",";
    for (size_t at = rest.find(','); at != std::string::npos; at = rest.find(',')) {
      if (at > 0) block_prefixes_.push_back(rest.substr(0, at));
      rest.erase(0, at + 1);
    }
  }
  for (std::string& prefix : block_prefixes_) prefix = canonical_name(prefix);
}

bool Quantization::in_blocks(const ModuleName& module) const {
  const std::string name = module.full();
  return block_prefixes_.empty() ||
         std::any_of(block_prefixes_.begin(), block_prefixes_.end(),
                     [&](const std::string& prefix) { return name.starts_with(prefix); });
}

}  // namespace plimsoll::quantization
