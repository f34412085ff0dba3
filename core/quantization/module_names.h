// Which modules of a model a quantization configuration speaks of: its lists of names, wildcards
// and regular expressions.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace plimsoll::quantization {

/// A module of the model. Names are written without the wrappers that differ between checkpoints
/// and vLLM (`model.`, `language_model.`): "layers.3.self_attn.qkv_proj",
/// "visual.blocks.0.attn.qkv".
struct ModuleName {
  std::string path;                 // "layers.3.self_attn"
  std::string leaf;                 // "qkv_proj", as vLLM fuses it
  std::vector<std::string> shards;  // {"q_proj", "k_proj", "v_proj"}; empty when nothing is fused
  /// Name in the checkpoint, wrappers included, which patterns may match; empty: not known.
  std::string stored{};

  [[nodiscard]] std::string full() const { return path.empty() ? leaf : path + "." + leaf; }
  [[nodiscard]] std::string shard(size_t i) const {
    return path.empty() ? shards[i] : path + "." + shards[i];
  }
};

/// A module's name without the wrappers `model.` and `language_model.`.
std::string canonical_name(std::string_view name);

/// How entries of a list are compared with a module's name.
enum class NameMatch {
  exact,      // equal (block-fp8's modules_to_not_convert)
  substring,  // contained (AWQ, GPTQ)
  wildcard,   // contained, or a shell pattern (ModelOpt)
  regex,  // equal, or a regular expression after "re:" anchored at the start (compressed-tensors)
};

/// A list of names of modules.
class NameList {
 public:
  NameList() = default;
  NameList(const std::vector<std::string>& entries, NameMatch match);

  [[nodiscard]] bool empty() const { return entries_ == 0; }
  /// True when the list has the fused module, or each of the matrices fused into it.
  [[nodiscard]] bool lists(const ModuleName& module) const;
  [[nodiscard]] bool lists_name(const std::string& name) const;
  /// True when some entry contains the name (block-fp8's rule for experts).
  [[nodiscard]] bool mentions(const std::string& name) const;

 private:
  struct Pattern;
  [[nodiscard]] bool matches(const std::string& entry, const std::string& name) const;
  /// True when some pattern matches. Throws Error(checkpoint_unusable) for one that takes too long.
  [[nodiscard]] bool fits(const std::string& name) const;

  NameMatch match_ = NameMatch::exact;
  size_t entries_ = 0;
  std::unordered_set<std::string> exact_;
  // Entries that name one layer are tried only for modules of that layer.
  std::unordered_map<std::string, std::vector<std::string>> by_layer_;
  std::vector<std::string> anywhere_;
  std::vector<std::shared_ptr<const Pattern>> patterns_;
};

}  // namespace plimsoll::quantization
