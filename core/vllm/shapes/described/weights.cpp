// The weight table of a described model, counted as vLLM's layers hold it: each weight's share of
// a rank, in the form that its module is quantized to.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/vllm/rank_rows.h"
#include "model/vllm/types.h"
#include "quantization/weight_modules.h"
#include "vllm/shapes/described/described_model.h"

namespace plimsoll::vllm {
namespace {

using model::MlpSpec;
using model::ModelSpec;
using model::WeightId;
using model::WeightSpec;
using TableSplit = model::Split;

/// Marlin's kernels need 64 outputs: a narrower matrix is held whole on every rank.
bool wants_wide_matrices(const Quantization& quantization) {
  const std::string& method = quantization.method();
  return method.starts_with("awq") || method.starts_with("gptq") || method.ends_with("auto-round");
}

constexpr model::VllmVersion kFusesIndexer{0, 20, 0};  // wk and weights_proj
// Before: those of compressed-tensors were looked up by the usual names.
constexpr model::VllmVersion kSchemesByOwnNames{0, 32, 0};
constexpr model::VllmVersion kCutsFusedAttention{0, 28, 0};  // transformers' own; before: whole
constexpr model::Releases kFloatRouter{{0, 25, 0}, {0, 26, 0}};
// Dense MLPs of classes with indexers (vllm/models/deepseek_v32/nvidia/model.py, glm5next).
constexpr model::VllmVersion kWholeDense{0, 29, 0}, kWholeDenseInCopies{0, 31, 0};
constexpr model::VllmVersion kRouterByCard{0, 17, 0};  // Nemotron-H's; before: float32 on each

/// DeepSeek's class holds the router in float32 where the config asks for it, and GLM-5's always
/// (vllm/model_executor/models/deepseek_v2.py: _get_moe_router_dtype); Nemotron-H's where the card
/// has no kernel for it (fused_moe/router/gate_linear.py: GateLinear).
bool has_float_router(const ModelSpec& spec, const Builder& build) {
  const ShapeOptions& options = build.options;
  if (spec.family == "nemotron_h") {
    const bool kernel = options.card == hardware::Architecture::hopper ||
                        options.card == hardware::Architecture::blackwell;
    return !kernel || options.version < kRouterByCard;
  }
  const bool asked = build.config.text({"moe_router_dtype"}, "") == "float32";
  const bool glm = build.config.text({"model_type"}, "") == "glm_moe_dsa";
  return kFloatRouter.hold(options.version) && (asked || glm);
}

/// True where a checkpoint holds queries, keys and values in one tensor (GPTBigCode).
bool has_fused_attention(const ModelSpec& spec) {
  return std::ranges::any_of(spec.weights, [](const WeightSpec& weight) {
    return weight.split == TableSplit::qkv && weight.parts.size() > 1 &&
           weight.parts.front().tensor == weight.parts.back().tensor;
  });
}

/// Whether the ranks of a replica divide the tokens of a mixture (vllm/config/parallel.py:
/// use_sequence_parallel_moe).
bool divides_tokens(const ShapeOptions& options) {
  return options.expert_parallel && options.tensor_parallel > 1 && options.data_parallel > 1;
}

bool has_whole_shared(const ModelSpec& spec, const ShapeOptions& options) {
  const auto& since = spec.vllm.whole_shared;
  return divides_tokens(options) && since && options.version >= *since;
}

bool has_whole_dense(const ModelSpec& spec, const ShapeOptions& options) {
  if (!has_whole_shared(spec, options) || !spec.has_indexers()) return false;
  const bool copies = spec.vllm.copies_whole_steps;
  return options.pipeline_parallel == 1 &&
         options.version >= (copies ? kWholeDenseInCopies : kWholeDense);
}

class Table {
 public:
  Table(const DescribedModel& model, const model::StageOfMany& stage, Builder& build)
      : model_(model),
        spec_(model.spec),
        stage_(stage),
        places_(model.places),
        roles_(model.roles),
        build_(build),
        weights_(build.weights) {}

  void count() {
    for (size_t i = 0; i < spec_.weights.size(); ++i) {
      const WeightSpec& weight = spec_.weights[i];
      const auto id = static_cast<WeightId>(i);
      const bool held = weight.kept == model::Kept::in_model || weight.kept == model::Kept::in_vllm;
      const bool listed_scale = !weight.constant.empty() && weight.shape.empty();
      if (held && !listed_scale && places_.holds(id, stage_)) count(id, weight);
    }
  }

 private:
  void count(WeightId id, const WeightSpec& weight) {
    Role role = roles_.of(id);
    const bool own_head = id == spec_.head && id != spec_.embedding;
    // A weight that stands before the layers is on another stage only for the sake of a tied head.
    const bool for_head = places_.is_before_layers(id) && spec_.vllm.knows_stage && !stage_.first &&
                          !spec_.vllm.table_everywhere;
    if (for_head) role.part = Part::lm_head;
    if ((own_head || id == spec_.head_bias) && !stage_.has_head) return;
    if (id == spec_.head_bias && generic_) return;  // it comes with the tensors
    if (role.experts != nullptr) return count_experts(weight, *role.experts);
    if (weight.is_stack()) return;  // counted with the first of the experts'
    const bool cut = weight.split == TableSplit::qkv ||
                     (role.part == Part::attention && weight.split == TableSplit::row);
    if (whole_attention_ && cut) {
      return weights_.parameters(role.part, Amount{weight.elements()} * element_of(weight));
    }
    if (weight.is_buffer) return weights_.buffer(Amount{weight.elements()} * element_of(weight));
    const bool convolution = role.form == Form::exact && weight.shape.size() > 2;
    if (weight.use == model::WeightUse::vector && !convolution) {
      return count_numbers(weight, role);
    }
    const bool table = weight.split == TableSplit::vocabulary;
    if (table && own_head) return weights_.lm_head(weight.rows(), weight.columns());
    if (table || role.form == Form::numbers) return count_numbers(weight, role);
    count_linear(weight, role);
  }

  [[nodiscard]] int64_t element_of(const WeightSpec& weight) const {
    return weight.dtype ? static_cast<int64_t>(dtype_size(*weight.dtype)) : weights_.element();
  }

  void count_numbers(const WeightSpec& weight, const Role& role) {
    const int64_t element = role.router && float_router_ ? kFloat32 : element_of(weight);
    weights_.parameters(role.part, Amount{own_rows(weight, role)} * weight.columns() * element);
  }

  [[nodiscard]] const ModuleName& module_of(const WeightSpec& weight) const {
    return model_.modules[static_cast<size_t>(&weight - spec_.weights.data())];
  }

  [[nodiscard]] Shares shares_of(const WeightSpec& weight) const {
    return {weights_, module_of(weight).leaf.c_str()};
  }

  static int64_t kv_heads_of(const WeightSpec& weight, const Role& role) {
    return role.attention != nullptr ? role.attention->kv_heads : weight.kv_heads;
  }

  /// A rank's rows.
  [[nodiscard]] int64_t own_rows(const WeightSpec& weight, const Role& role) const {
    const auto rows_of = [&](const WeightSpec& cut) {
      return rows_on_rank(cut, cut.split, kv_heads_of(weight, role), shares_of(weight));
    };
    if (!role.last_whole) return padded_to(rows_of(weight), role.row_multiple).value();
    WeightSpec last_whole = weight;
    last_whole.parts.back().every_rank = true;
    return padded_to(rows_of(last_whole), role.row_multiple).value();
  }

  /// The split of a matrix in vLLM's class.
  [[nodiscard]] TableSplit split_of(const WeightSpec& weight, const Role& role) const {
    const TableSplit split = weight.split;
    // vLLM's own class, before it ran transformers', cut MLPs that transformers' leaves whole.
    if (spec_.vllm.generic && !generic_ && role.part == Part::mlp &&
        split == TableSplit::replicated) {
      return role.down ? TableSplit::row : TableSplit::merged_column;
    }
    const bool whole = role.shared ? whole_shared_ : whole_dense_ && role.part == Part::mlp;
    if (whole) return TableSplit::replicated;
    const bool narrow = role.narrow && split == TableSplit::merged_column;
    return narrow && wants_wide_matrices(weights_.quantization()) ? TableSplit::replicated : split;
  }

  /// A rank's outputs of each matrix that the kernel sees.
  [[nodiscard]] std::vector<int64_t> widths_of(const WeightSpec& weight, const Role& role,
                                               TableSplit split) const {
    std::vector<int64_t> widths;
    for (size_t i = 0; i < weight.parts.size(); ++i) {
      widths.push_back(part_rows_on_rank(weight, split, i, weight.parts[i].rows(),
                                         kv_heads_of(weight, role), shares_of(weight)));
    }
    // One matrix, whatever the checkpoint fuses into it; of queries with gates, keys and values
    // three, which begin with as many parts of queries as there are.
    const bool uneven =
        weights_.ranks() > 1 && std::ranges::any_of(weight.parts, &model::Part::every_rank);
    const bool single = split == TableSplit::column || weight.use == model::WeightUse::vector;
    const size_t matrices = single || (uneven && split != TableSplit::kv) ? 1
                            : split == TableSplit::qkv                    ? 3
                                                                          : widths.size();
    while (widths.size() > matrices) {
      widths[1] += widths[0];
      widths.erase(widths.begin());
    }
    return widths;
  }

  /// vllm/models/qwen4_exp/nvidia/model.py: without_modelopt_fp4.
  [[nodiscard]] bool is_plain_query(const Role& role, const ModuleName& name) const {
    const Quantization& quantization = weights_.quantization();
    return spec_.vllm.plain_fp4_queries && role.attention != nullptr &&
           quantization.method().starts_with("modelopt") &&
           quantization.linear(name).format == quantization::WeightFormat::nvfp4;
  }

  void count_linear(const WeightSpec& weight, const Role& role) {
    if (role.attention != nullptr) {
      static_cast<void>(weights_.share(role.attention->heads, "the number of attention heads"));
    }
    const TableSplit split = split_of(weight, role);
    const int64_t columns = weight.columns();
    const bool cut = split == TableSplit::row;
    const Amount inputs = cut ? shares_of(weight).share(columns) : columns;
    const auto count = [&](const ModuleName& name, std::vector<int64_t> widths, bool quantized) {
      const bool cuts_outputs = weights_.ranks() > 1 && !is_whole(split) && split != TableSplit::kv;
      weights_.matrix(role.part, name, {inputs, columns, std::move(widths), cuts_outputs},
                      quantized);
    };
    ModuleName name = module_of(weight);
    if (role.module != nullptr) {
      name.path.replace(name.path.rfind('.') + 1, std::string::npos, role.module);
    }
    const std::vector<int64_t> widths = widths_of(weight, role, split);
    const bool quantized = role.form == Form::layer && !is_plain_query(role, name);
    // Keys of an indexer in the scheme of their module, and whole weights of the heads.
    const bool indexer = role.indexer && build_.options.version < kFusesIndexer;
    if (!indexer && !(role.gate_and_up && spec_.vllm.gate_apart)) {
      return count(name, widths, quantized);
    }
    for (size_t i = 0; i < widths.size(); ++i) {  // each fused matrix as a layer of its own
      count({name.path, name.shards[i], {}}, {widths[i]}, indexer ? i == 0 : quantized);
    }
  }

  void count_experts(const WeightSpec& weight, const MlpSpec& mlp) {
    RankWeights::Experts experts{.name = module_of(weight),
                                 .experts = mlp.experts,
                                 .hidden = mlp.expert_width(spec_.hidden_size),
                                 .intermediate = mlp.intermediate,
                                 .up_matrices = mlp.gated ? 2 : 1,
                                 .bias = mlp.up.bias != model::kNoWeight};
    const bool usual = build_.options.version < kSchemesByOwnNames &&
                       weights_.quantization().method() == "compressed-tensors";
    if (spec_.vllm.own_expert_names && !usual) experts.name.shards = {"w1", "w2", "w3"};
    if (spec_.vllm.expert_for_ranks && weights_.ranks() > mlp.experts) {
      fail(ExitCode::usage,
           "Tensor parallel size {} is greater than the number of experts {}. Use a smaller "
           "--tensor-parallel-size.",
           weights_.ranks(), mlp.experts);
    }
    if (experts.bias) pad_experts(build_, experts);
    tile_experts(build_, experts);
    const int64_t least = spec_.vllm.least_expert_slice * weights_.expert_ranks();
    if (weights_.expert_ranks() > 1) experts.intermediate = std::max(experts.intermediate, least);
    weights_.experts(experts);
  }

  const DescribedModel& model_;
  const ModelSpec& spec_;
  const model::StageOfMany& stage_;
  const model::StageWeights& places_;
  const Roles& roles_;
  Builder& build_;
  RankWeights& weights_;
  const bool float_router_ = has_float_router(spec_, build_);
  const bool generic_ = runs_transformers(spec_, build_);
  const bool whole_shared_ = has_whole_shared(spec_, build_.options);
  const bool whole_dense_ = has_whole_dense(spec_, build_.options);
  const bool whole_attention_ =
      generic_ && has_fused_attention(spec_) && build_.options.version < kCutsFusedAttention;
};

std::vector<ModuleName> modules_of(const ModelSpec& spec) {
  std::vector<ModuleName> modules;
  modules.reserve(spec.weights.size());
  for (const WeightSpec& weight : spec.weights) {
    modules.push_back(quantization::module_of_weight(weight));
  }
  return modules;
}

}  // namespace

DescribedModel::DescribedModel(ModelSpec described)
    : spec(std::move(described)), places(spec), roles(spec), modules(modules_of(spec)) {}

void count_table(const DescribedModel& model, const model::StageOfMany& stage, Builder& build) {
  Table(model, stage, build).count();
}

}  // namespace plimsoll::vllm
