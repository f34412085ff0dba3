#include "shard/layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "model/pipeline.h"
#include "model/stage_weights.h"
#include "shard/ranks/rank_share.h"
#include "shard/ranks/run_splits.h"
#include "shard/refusals.h"

namespace plimsoll::shard {
namespace {

using model::ModelSpec;
using model::Split;
using model::WeightId;
using model::WeightSpec;

std::vector<std::byte> bytes_of(const void* from, size_t count) {
  std::vector<std::byte> bytes(count);
  std::memcpy(bytes.data(), from, count);
  return bytes;
}

// ---- the walk ----

class Walk {
 public:
  Walk(const ModelSpec& spec, const Layout& layout) : spec_(spec), layout_(layout), places_(spec) {
    for (const model::LayerSpec& layer : spec.layers) {
      if (!layer.has_attention()) continue;
      const model::AttentionSpec& attention = layer.attention;
      const Heads heads{attention.heads, attention.kv_heads};
      heads_[attention.qkv.weight] = heads;
      for (const WeightId id :
           {attention.qkv.bias, attention.k_norm.weight, attention.k_norm.bias}) {
        if (id != model::kNoWeight) heads_[id] = heads;
      }
      if (layout.release < since::kAttentionScales || attention.lists_scales) continue;
      if (attention.scales_before == model::kNoWeight) {
        scales_after_.insert(scales_place(attention));
      } else {
        scales_before_[attention.scales_before] = attention_module(spec, attention) + ".";
      }
    }
  }

  std::vector<Stage> stages() {
    std::vector<Stage> stages(static_cast<size_t>(layout_.pipeline_parallel));
    const std::vector<int64_t> until =
        model::stage_ends(static_cast<int64_t>(spec_.layers.size()) / spec_.layers_in_stored,
                          layout_.pipeline_parallel, layout_.pipeline_partition);
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      const int64_t first = stage == 0 ? 0 : until[stage - 1];
      check_experts(stage, first, until[stage]);
      stages[stage] = walk(stage, first, until[stage]);
    }
    return stages;
  }

  Stage run_tensors() const {
    Stage tensors;
    const std::vector<Split> splits = run_splits(spec_, layout_.tensor_parallel);
    for (size_t i = 0; i < spec_.weights.size(); ++i) {
      const WeightSpec& weight = spec_.weights[i];
      const Heads heads = heads_of(static_cast<WeightId>(i));
      tensors.push_back(make_tensor(weight, weight.name, heads, splits[i]));
    }
    return tensors;
  }

 private:
  // vLLM's classes of mixtures look for one in every stage.
  void check_experts(size_t stage, int64_t first, int64_t end) const {
    const auto has_experts = [](const model::LayerSpec& layer) {
      return layer.mlp.kind == model::MlpKind::experts;
    };
    const auto layers = std::span(spec_.layers);
    const int64_t each = spec_.layers_in_stored;
    const auto here = layers.subspan(static_cast<size_t>(first * each),
                                     static_cast<size_t>((end - first) * each));
    if (!spec_.vllm.experts_in_stages || std::ranges::any_of(here, has_experts)) return;
    fail(ExitCode::usage,
         "--pipeline-parallel-size {}: stage {} has {} layers, none of which has experts; vLLM "
         "refuses it too",
         layout_.pipeline_parallel, stage, here.size());
  }

  // The place of the four scalars: behind the weight that is returned, in the module that is named.
  std::pair<WeightId, std::string> scales_place(const model::AttentionSpec& attention) const {
    WeightId last = attention_end(attention);
    const std::string around = attention_module(spec_, attention);
    const bool latent = around.ends_with(".mla_attn");
    const std::string module = around + (latent ? ".mla_attn" : ".attn");
    // A quantized weight is several; its scales belong to the same module, and the attention's own
    // parameters stand before these.
    const auto next_belongs = [&](WeightId id) {
      const auto next = static_cast<size_t>(id) + 1;
      if (next >= spec_.weights.size()) return false;
      const std::string_view of = module_of(spec_.weights[next].name);
      return of == module || of == module_of(spec_.weight(id).name);
    };
    while (next_belongs(last)) ++last;
    return {last, module + "."};
  }

  [[nodiscard]] bool is_stage_aware() const { return spec_.vllm.knows_stage; }

  Stage walk(size_t index, int64_t first_layer, int64_t end_layer) {
    const bool first = index == 0;
    const bool last = index + 1 == static_cast<size_t>(layout_.pipeline_parallel);
    Stage stage;
    for (const WeightSpec& weight : spec_.towers) add_tower(weight, stage);
    add_normalizer(stage);
    for (size_t i = 0; i < spec_.weights.size(); ++i) {
      const auto id = static_cast<WeightId>(i);
      const bool here = places_.holds(id, {{first_layer, end_layer}, first, last});
      if (!here || (id == spec_.embedding && is_loaded_as_head(first, last))) continue;
      const WeightSpec& weight = spec_.weights[i];
      const auto before = scales_before_.find(id);
      if (before != scales_before_.end()) add_scales(before->second, stage);
      if (!is_held(weight, layout_.tensor_parallel)) continue;
      if (!weight.constant.empty() && weight.kept != model::Kept::in_run) {
        stage.push_back(make_constant(weight));
      } else if (weight.kept == model::Kept::in_model || weight.kept == model::Kept::in_vllm) {
        stage.push_back(make_tensor(weight, name_of(id, last), heads_of(id), weight.split));
      }
      const auto scales = scales_after_.find(id);
      if (scales != scales_after_.end()) add_scales(scales->second, stage);
    }
    if (is_loaded_as_head(first, last)) {
      const WeightSpec& head = spec_.weight(spec_.head);
      stage.push_back(make_tensor(head, name_of(spec_.head, last), {}, head.split));
    }
    return stage;
  }

  // True for a tied head whose copy the checkpoint holds: vLLM takes it for a head of its own until
  // both are loaded, and the last stage, without the table, keeps it so.
  [[nodiscard]] bool is_loaded_as_head(bool first, bool last) const {
    return spec_.tied_head && spec_.tied_head->stored && is_stage_aware() && last && !first;
  }

  // Towers stand on every stage.
  void add_tower(const WeightSpec& weight, Stage& stage) const {
    if (weight.kept == model::Kept::in_checkpoint) return;
    if (weight.constant.empty()) {
      const Heads heads{weight.heads, weight.heads};
      stage.push_back(make_tensor(weight, weight.name, heads, weight.split));
      return;
    }
    if (layout_.release >= since::kInputNorm) stage.push_back(make_constant(weight));
  }

  [[nodiscard]] ShardTensor make_constant(const WeightSpec& weight) const {
    const DType dtype = weight.dtype.value_or(layout_.dtype);
    std::vector<std::byte> bytes(weight.constant.size() * dtype_size(dtype));
    convert(weight.constant.data(), DType::f32, bytes.data(), dtype, weight.constant.size());
    return {
        .name = weight.name, .dtype = dtype, .shape = weight.shape, .constant = std::move(bytes)};
  }

  [[nodiscard]] Heads heads_of(WeightId id) const {
    const auto heads = heads_.find(id);
    if (heads != heads_.end()) return heads->second;
    const WeightSpec& weight = spec_.weight(id);
    return {weight.heads, weight.kv_heads};
  }

  [[nodiscard]] ShardTensor make_tensor(const WeightSpec& weight, std::string name,
                                        const Heads& heads, Split split) const {
    const int64_t ranks = layout_.tensor_parallel;
    ShardTensor tensor{.name = std::move(name),
                       .dtype = weight.dtype.value_or(layout_.dtype),
                       .shape = weight.shape,
                       .weight = &weight,
                       .split = split,
                       .kv_heads = heads.kv};
    if (weight.uneven_heads == model::UnevenHeads::replicated && weight.heads % ranks != 0) {
      tensor.split = Split::replicated;
    }
    cut_to_share(tensor, heads, ranks);
    if (weight.use == model::WeightUse::experts && ranks > weight.matrices() &&
        spec_.vllm.expert_for_ranks) {
      fail(ExitCode::usage,
           "--tensor-parallel-size {}: {} has {} experts, fewer than ranks; vLLM refuses it too",
           ranks, tensor.name, weight.matrices());
    }
    return tensor;
  }

  void add_scales(const std::string& module, Stage& stage) const {
    constexpr float kOne = 1;
    for (const char* name : model::kScaleNames) {
      stage.push_back({.name = module + name,
                       .dtype = DType::f32,
                       .shape = {},
                       .constant = bytes_of(&kOne, sizeof kOne)});
    }
  }

  void add_normalizer(Stage& stage) const {
    if (layout_.release >= since::kNoNormalizer || !spec_.vllm.has_normalizer) return;
    const float value = std::sqrt(static_cast<float>(spec_.hidden_size));
    std::vector<std::byte> bytes(dtype_size(layout_.dtype));
    convert(&value, DType::f32, bytes.data(), layout_.dtype, 1);
    const std::string& embedding = spec_.weight(spec_.embedding).parts.front().tensor;
    stage.push_back({.name = embedding.substr(0, embedding.find("embed_tokens")) + "normalizer",
                     .dtype = layout_.dtype,
                     .shape = {},
                     .constant = std::move(bytes)});
  }

  // vLLM's name on this stage and in this release.
  [[nodiscard]] std::string name_of(WeightId id, bool last) const {
    const WeightSpec& weight = spec_.weight(id);
    const Release& release = layout_.release;
    const bool tied = id == spec_.embedding && id == spec_.head;
    std::string name = weight.name;
    const bool headless =
        (is_stage_aware() && !last) || (spec_.vllm.late_head && release < since::kGemma3Head);
    if (tied && headless) return headless_name(spec_);
    const auto without = [&](std::string_view word, std::string_view instead) {
      const size_t at = name.find(word);
      if (at != std::string::npos) name.replace(at, word.size(), instead);
    };
    if (release < since::kRoutedExperts) without(".routed_experts.", ".");
    if (release < since::kGateAlias) without(".mlp.experts.gate.", ".mlp.gate.");
    return name;
  }

  const ModelSpec& spec_;
  const Layout& layout_;
  std::unordered_map<WeightId, Heads> heads_;
  std::unordered_map<WeightId, std::string> scales_after_, scales_before_;
  model::StageWeights places_;
};

}  // namespace

int64_t ShardTensor::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

int64_t ShardTensor::columns() const {
  int64_t count = 1;
  for (size_t i = weight != nullptr && weight->is_stack() ? 2 : 1; i < shape.size(); ++i)
    count *= shape[i];
  return count * static_cast<int64_t>(dtype_size(dtype)) / static_cast<int64_t>(dtype_size(unit()));
}

DType ShardTensor::unit() const {
  const auto repack = weight == nullptr ? model::Repack::none : weight->repack;
  const bool words = repack == model::Repack::words || repack == model::Repack::awq_words;
  return words ? DType::i32 : dtype;
}

int64_t ShardTensor::bytes() const {
  return elements() * static_cast<int64_t>(dtype_size(dtype));
}

WeightId attention_end(const model::AttentionSpec& attention) {
  if (attention.scales_after != model::kNoWeight) return attention.scales_after;
  return std::max(attention.out.weight, attention.out.bias);
}

std::string_view module_of(std::string_view name) {
  return name.substr(0, name.rfind('.'));
}

std::string attention_module(const ModelSpec& spec, const model::AttentionSpec& attention) {
  return std::string(module_of(module_of(spec.weight(attention.out.weight).name)));
}

std::string headless_name(const ModelSpec& spec) {
  std::string name = spec.weight(spec.embedding).name;
  const size_t head = name.rfind("lm_head.");
  if (head == std::string::npos) return name;
  const std::string own = spec.tied_head ? spec.tied_head->table : "model.embed_tokens.weight";
  const std::string_view module = module_of(own);
  const size_t begin = own.starts_with(name.substr(0, head)) ? head : 0;
  const std::string root = own.substr(begin, own.find('.', begin) - begin);
  return name.replace(head, std::string::npos, root + own.substr(module.rfind('.')));
}

std::vector<Stage> make_stages(const ModelSpec& spec, const Layout& layout) {
  check_layout(spec, layout);
  std::vector<Stage> stages = Walk(spec, layout).stages();
  check_mixers(spec, layout.tensor_parallel);  // last: what tensors refuse says more
  return stages;
}

Stage make_run_tensors(const ModelSpec& spec, int64_t tensor_parallel) {
  const Layout layout{.tensor_parallel = tensor_parallel};
  return Walk(spec, layout).run_tensors();
}

}  // namespace plimsoll::shard
