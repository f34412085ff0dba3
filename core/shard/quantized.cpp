#include "shard/quantized.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/rounding.h"
#include "checkpoint/mapped_file.h"
#include "plan/config_view.h"
#include "plan/quantization.h"

namespace plimsoll::shard {
namespace {

using model::ModelSpec;
using model::OutputAxis;
using model::Part;
using model::Split;
using model::WeightId;
using model::WeightSpec;
using plan::Scales;
using plan::WeightFormat;
using plan::WeightScheme;

[[noreturn]] void refuse(const std::string& what) {
  fail(ExitCode::checkpoint_unusable,
       "quantised checkpoint: {}; shard the unquantised model, or load this one without shards",
       what);
}

std::string without_weight(const std::string& name) {
  return name.substr(0, name.size() - std::string_view("weight").size());
}

// ---- one linear weight ----

/// Makes the weights that a quantised linear weight becomes, in the order of vLLM's parameters.
class Parameters {
 public:
  Parameters(const WeightSpec& weight, const StoredTensors& stored, std::vector<WeightSpec>& result)
      : weight_(weight), stored_(stored), result_(result) {}

  void add(const WeightScheme& scheme) {
    switch (scheme.format) {
      case WeightFormat::fp8:
      case WeightFormat::int8:
        return add_eight_bit(scheme);
      case WeightFormat::packed:
        return add_packed(scheme);
      case WeightFormat::awq:
        return add_awq(scheme);
      case WeightFormat::gptq:
        return add_gptq(scheme);
      default:
        refuse(weight_.name + " is in a format whose shards are not known");
    }
  }

 private:
  [[nodiscard]] int64_t inputs() const { return weight_.columns(); }

  WeightSpec& next(const std::string& suffix, Split split) {
    WeightSpec& next = result_.emplace_back(weight_);
    next.name = without_weight(weight_.name) + suffix;
    next.split = split;
    for (Part& part : next.parts) part.tensor = without_weight(part.tensor) + suffix;
    return next;
  }

  // Rows as the weight's divided by `unit`, `columns` of them.
  void by_rows(const std::string& suffix, std::optional<DType> dtype, Split split, int64_t unit,
               int64_t columns) {
    WeightSpec& made = next(suffix, split);
    made.dtype = dtype;
    made.output_multiple = made.input_multiple = 1;
    int64_t rows = 0;
    for (Part& part : made.parts) {
      if (unit > 1 && (part.first_row % unit != 0 || part.block_count != 1)) {
        refuse(fmt::format("{}: its parts do not begin on groups of {} rows", made.name, unit));
      }
      part.stored_shape = {divide_up(part.stored_shape[0], unit), columns};
      part.first_row /= unit;
      part.block_rows = divide_up(part.block_rows, unit);
      part.block_stride = divide_up(part.block_stride, unit);
      rows += part.rows();
    }
    made.shape = {rows, columns};
  }

  // [rows, outputs / unit], parts beside each other.
  void by_columns(const std::string& suffix, std::optional<DType> dtype, Split split, int64_t rows,
                  int64_t unit) {
    WeightSpec& made = next(suffix, split);
    made.dtype = dtype;
    made.outputs = OutputAxis::columns;
    int64_t columns = 0;
    for (Part& part : made.parts) {
      if (part.first_row != 0 || part.rows() != part.stored_shape[0]) {
        refuse(made.name + " would come from a checkpoint tensor that is fused already");
      }
      if (part.rows() % unit != 0) {
        refuse(fmt::format("{}: {} outputs of {} do not fill words of {}", made.name, part.rows(),
                           part.tensor, unit));
      }
      part.stored_shape = {rows, part.rows() / unit};
      part.block_rows = part.block_stride = rows;
      columns += part.stored_shape[1];
    }
    made.shape = {rows, columns};
  }

  // A value for each part.
  void by_part(const std::string& suffix) {
    WeightSpec& made = next(suffix, Split::replicated);
    made.dtype = DType::f32;
    for (Part& part : made.parts) {
      part.stored_shape = stored_.scalar_shape(part.tensor);
      part.first_row = 0;
      part.block_rows = part.block_stride = part.block_count = 1;
    }
    made.shape = {static_cast<int64_t>(made.parts.size())};
  }

  void check_blocks(const WeightScheme& scheme) {
    WeightSpec& made = result_.back();
    made.output_multiple = scheme.block_out;
    made.input_multiple = scheme.block_in;
    // Fused matrices begin on a block, as vLLM demands it.
    for (size_t i = 0; i + 1 < made.parts.size(); ++i) {
      if (made.parts[i].rows() % scheme.block_out == 0) continue;
      refuse(fmt::format("{}: {} rows of {} are no multiple of its blocks of {} rows", made.name,
                         made.parts[i].rows(), made.parts[i].tensor, scheme.block_out));
    }
  }

  void add_eight_bit(const WeightScheme& scheme) {
    const bool is_float = scheme.format == WeightFormat::fp8;
    next("weight", weight_.split).dtype = is_float ? DType::f8_e4m3 : DType::i8;
    switch (scheme.scales) {
      case Scales::tensor:
        by_part("weight_scale");
        break;
      case Scales::channel:
        by_rows("weight_scale", DType::f32, outputs_only(), 1, 1);
        break;
      case Scales::block:
        check_blocks(scheme);
        by_rows(scheme.check_merged ? "weight_scale" : "weight_scale_inv", DType::f32,
                weight_.split, scheme.block_out, divide_up(inputs(), scheme.block_in));
        break;
    }
    if (!scheme.static_input) return;
    if (!is_float) refuse(weight_.name + " has a stored scale of its int8 activations");
    by_part("input_scale");
  }

  // What does not depend on the inputs is whole on every rank where these are cut.
  [[nodiscard]] Split outputs_only() const {
    return weight_.split == Split::row ? Split::replicated : weight_.split;
  }

  // Scales of groups of inputs are cut with them; of all inputs together, they are not.
  [[nodiscard]] Split group_split(const WeightScheme& scheme) const {
    return scheme.group > 0 ? weight_.split : outputs_only();
  }

  [[nodiscard]] int64_t groups(const WeightScheme& scheme) const {
    if (scheme.group <= 0) return 1;
    if (inputs() % scheme.group != 0) {
      refuse(fmt::format("{}: {} inputs are no multiple of its groups of {}", weight_.name,
                         inputs(), scheme.group));
    }
    return inputs() / scheme.group;
  }

  int64_t words_of(const WeightScheme& scheme) const {
    if (scheme.bits != 4 && scheme.bits != 8) {
      refuse(fmt::format("{}: {} bits; 4 and 8 are known", weight_.name, scheme.bits));
    }
    const int64_t packed = 32 / scheme.bits;
    if (inputs() % packed != 0) {
      refuse(fmt::format("{}: {} inputs do not fill words of {}", weight_.name, inputs(), packed));
    }
    return packed;
  }

  void add_packed(const WeightScheme& scheme) {
    const int64_t packed = words_of(scheme);
    by_rows("weight_packed", DType::i32, weight_.split, 1, inputs() / packed);
    by_rows("weight_scale", std::nullopt, group_split(scheme), 1, groups(scheme));
    add_shape();
    if (!scheme.zero_points) return;
    by_rows("weight_zero_point", DType::i32, group_split(scheme), packed, groups(scheme));
  }

  // The unpacked shape; of a fused layer vLLM keeps the last one's.
  void add_shape() {
    WeightSpec& made = next("weight_shape", Split::replicated);
    made.dtype = DType::i64;
    made.outputs = OutputAxis::none;
    made.shape = {2};
    for (Part& part : made.parts) {
      part.values = {part.stored_shape[0], part.stored_shape[1]};
      part.stored_shape = {2};
      part.first_row = 0;
      part.block_rows = part.block_stride = 2;
      part.block_count = 1;
    }
  }

  void add_awq(const WeightScheme& scheme) {
    if (scheme.bits != 4) refuse(fmt::format("AWQ of {} bits; vLLM takes 4", scheme.bits));
    const int64_t packed = words_of(scheme);
    // vLLM cuts even a single group of all inputs, which then divides by no number of ranks.
    by_columns("qweight", DType::i32, weight_.split, inputs(), packed);
    by_columns("qzeros", DType::i32, weight_.split, groups(scheme), packed);
    by_columns("scales", std::nullopt, weight_.split, groups(scheme), 1);
  }

  void add_gptq(const WeightScheme& scheme) {
    const int64_t packed = words_of(scheme);
    by_columns("qweight", DType::i32, weight_.split, inputs() / packed, 1);
    by_columns("scales", std::nullopt, group_split(scheme), groups(scheme), 1);
    by_columns("qzeros", DType::i32, group_split(scheme), groups(scheme), packed);
    const bool indexed = std::ranges::all_of(weight_.parts, [&](const Part& part) {
      return stored_.has(without_weight(part.tensor) + "g_idx");
    });
    if (indexed) add_group_indices(scheme);
  }

  // vLLM 0.32 takes groups in order and has no parameter for them; a checkpoint has.
  void add_group_indices(const WeightScheme& scheme) {
    WeightSpec& made = next("g_idx", Split::replicated);
    made.dtype = DType::i32;
    made.kept = model::Kept::in_checkpoint;
    made.outputs = OutputAxis::none;
    made.shape = {inputs()};
    for (Part& part : made.parts) {
      part.stored_shape = {inputs()};
      part.block_rows = part.block_stride = inputs();
      part.index_group = scheme.group > 0 ? scheme.group : inputs();
    }
  }

  const WeightSpec& weight_;
  const StoredTensors& stored_;
  std::vector<WeightSpec>& result_;
};

// ---- the model ----

plan::ModuleName module_name(const WeightSpec& weight) {
  const std::string module = plan::canonical_name(
      weight.name.substr(0, weight.name.size() - std::string_view(".weight").size()));
  const size_t dot = module.rfind('.');
  plan::ModuleName name{.path = dot == std::string::npos ? "" : module.substr(0, dot),
                        .leaf = module.substr(dot + 1),
                        .shards = {}};
  for (const Part& part : weight.parts) {
    const std::string stored =
        part.tensor.substr(0, part.tensor.size() - std::string_view(".weight").size());
    std::string leaf = stored.substr(stored.rfind('.') + 1);
    if (name.shards.empty() || name.shards.back() != leaf) name.shards.push_back(std::move(leaf));
  }
  if (name.shards.size() == 1) name.shards.clear();
  return name;
}

void renumber(ModelSpec& spec, const std::vector<WeightId>& now) {
  const auto id = [&](WeightId& old) {
    if (old != model::kNoWeight) old = now[static_cast<size_t>(old)];
  };
  const auto pair = [&](auto& both) {
    id(both.weight);
    id(both.bias);
  };
  for (WeightId* one : {&spec.embedding, &spec.position_embedding, &spec.embedding_in,
                        &spec.embedding_out, &spec.head, &spec.head_bias}) {
    id(*one);
  }
  pair(spec.final_norm);
  for (model::LayerSpec& layer : spec.layers) {
    for (model::Norm* norm :
         {&layer.attention_norm, &layer.attention_post_norm, &layer.mlp_norm, &layer.mlp_post_norm,
          &layer.attention.q_norm, &layer.attention.k_norm}) {
      pair(*norm);
    }
    for (model::Linear* linear : {&layer.attention.qkv, &layer.attention.out, &layer.mlp.up,
                                  &layer.mlp.down, &layer.mlp.router}) {
      pair(*linear);
    }
  }
}

// The linear weights of the layers, with the heads of those that hold q, k and v.
std::map<WeightId, model::AttentionSpec> linear_weights(const ModelSpec& spec) {
  std::map<WeightId, model::AttentionSpec> ids;
  for (const model::LayerSpec& layer : spec.layers) {
    if (layer.mlp.kind == model::MlpKind::experts) {
      refuse("experts of a quantised checkpoint are not known yet");
    }
    ids[layer.attention.qkv.weight] = layer.attention;
    for (const WeightId id :
         {layer.attention.out.weight, layer.mlp.up.weight, layer.mlp.down.weight}) {
      ids[id] = {};
    }
  }
  return ids;
}

void add_attention_parameters(const std::string& method, ModelSpec& spec) {
  if (method == "fp8") {
    for (const char* name : {"q_scale", "k_scale", "v_scale", "prob_scale"}) {
      spec.attention_parameters.push_back({.name = name, .dtype = {}, .shape = {}, .value = -1});
    }
  }
  if (method != "compressed-tensors") return;
  for (const char* name : {"k_scale", "v_scale", "q_scale"}) {
    spec.attention_parameters.push_back(
        {.name = name, .dtype = DType::f32, .shape = {1}, .value = 1});
  }
  for (const char* name : {"k_zero_point", "v_zero_point", "q_zero_point"}) {
    spec.attention_parameters.push_back({.name = name, .dtype = {}, .shape = {1}, .value = 0});
  }
}

// Options that vLLM 0.32 refuses too, or whose layout is not known.
void check_options(const std::string& method, const plan::ConfigView& config) {
  if (method != "fp8" && method != "compressed-tensors" && method != "awq" && method != "gptq") {
    refuse(
        fmt::format("the shards of method \"{}\" are not known; fp8, awq, gptq and "
                    "compressed-tensors are",
                    method));
  }
  if (config.has_child({"kv_cache_scheme"})) refuse("it has scales of the KV cache");
  if (method != "gptq") return;
  const bool grouped = config.integer({"group_size"}, -1, {-1, 1 << 20}) > 0;
  if (config.flag({"desc_act"}, false) && grouped) {
    refuse("desc_act (activation order), which vLLM 0.32 no longer takes");
  }
  if (!config.flag({"sym"}, true)) refuse("GPTQ with sym false, which vLLM 0.32 does not take");
  if (config.has_child({"dynamic"}) && !config.child({"dynamic"}).json().empty()) {
    refuse("GPTQ with rules for single modules (dynamic)");
  }
}

}  // namespace

void quantize_weights(const Json& config, const StoredTensors& stored, ModelSpec& spec) {
  const plan::ConfigView settings =
      plan::ConfigView(config, "config.json").child({"quantization_config"});
  const plan::Quantization quantization(settings);
  const std::string method = quantization.method();
  check_options(method, settings);
  const std::map<WeightId, model::AttentionSpec> linear = linear_weights(spec);
  if (spec.head != spec.embedding &&
      !quantization.lm_head(module_name(spec.weight(spec.head))).plain()) {
    refuse("its output projection (lm_head) is quantised");
  }
  std::vector<WeightSpec> weights;
  std::vector<WeightId> now;
  for (size_t i = 0; i < spec.weights.size(); ++i) {
    const WeightSpec& weight = spec.weights[i];
    const size_t first = weights.size();
    now.push_back(static_cast<WeightId>(first));
    const auto at = linear.find(static_cast<WeightId>(i));
    const WeightScheme scheme =
        at == linear.end() ? WeightScheme{} : quantization.linear(module_name(weight));
    const bool packed = scheme.format == WeightFormat::awq || scheme.format == WeightFormat::gptq;
    if (scheme.plain() || (packed && stored.is_plain(weight))) {
      weights.push_back(weight);
      continue;
    }
    if (std::ranges::any_of(weight.parts, &Part::transposed)) {
      refuse(weight.name + " is stored transposed");
    }
    Parameters(weight, stored, weights).add(scheme);
    for (size_t k = first; k < weights.size(); ++k) {
      weights[k].heads = at->second.heads;
      weights[k].kv_heads = at->second.kv_heads;
    }
  }
  spec.weights = std::move(weights);
  renumber(spec, now);
  add_attention_parameters(method, spec);
  spec.quantization.clear();
}

std::string saver_behaviour(const std::string& method) {
  if (method == "fp8") {
    return "vLLM's own saver fails for scales per tensor, whose weights it holds transposed, and "
           "leaves out the attention's scales for scales per block, so that its loader refuses "
           "them.";
  }
  if (method == "awq") {
    return "vLLM's own saver writes the same with the Triton kernel, and with Marlin the repacked "
           "weights, which its loader would repack once more.";
  }
  if (method == "gptq") {
    return "vLLM's own saver writes the kernels' repacked weights, which its loader would repack "
           "once more. vLLM 0.32 loads GPTQ shards only when config.json lists the quantised "
           "layers "
           "as modules_in_block_to_quantize.";
  }
  return "vLLM's own saver fails for 8-bit weights, which it holds transposed, and writes packed "
         "ones as its kernels repacked them, which its loader would repack once more.";
}

void fill_told_values(const Part& part, DType dtype, int64_t first, int64_t count, std::byte* to) {
  for (int64_t i = first; i < first + count; ++i) {
    const int64_t value =
        part.values.empty() ? i / part.index_group : part.values[static_cast<size_t>(i)];
    if (dtype == DType::i64) {
      std::memcpy(to, &value, sizeof value);
    } else {
      const auto narrow = static_cast<int32_t>(value);
      std::memcpy(to, &narrow, sizeof narrow);
    }
    to += dtype_size(dtype);
  }
}

void check_told_values(const checkpoint::WeightReader& reader, const ModelSpec& spec) {
  for (const WeightSpec& weight : spec.weights) {
    for (const Part& part : weight.parts) {
      if (part.values.empty() && part.index_group == 0) continue;
      const checkpoint::TensorEntry& tensor = reader.tensor(part);
      std::vector<std::byte> expected(tensor.bytes);
      fill_told_values(part, tensor.dtype, 0, part.stored_shape[0], expected.data());
      const checkpoint::GuardedRead guard(*tensor.file);
      const bool same = std::equal(expected.begin(), expected.end(), tensor.data);
      guard.finish();
      if (same) continue;
      refuse(
          fmt::format("tensor {} in {} {}", tensor.name, tensor.file->path().string(),
                      part.values.empty()
                          ? "does not give the groups of inputs in order, as vLLM 0.32 takes them"
                          : "is not the shape that config.json gives the weight"));
    }
  }
}

}  // namespace plimsoll::shard
