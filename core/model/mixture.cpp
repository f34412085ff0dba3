#include "model/mixture.h"

#include <utility>

#include "base/error.h"

namespace plimsoll::model {
namespace {

constexpr int64_t kGroup = 32;  // MXFP4's

Part whole(std::string tensor, std::vector<int64_t> stored, bool transposed) {
  const int64_t rows = stored.size() < 2 || !transposed ? stored.front() : stored[1];
  return {.tensor = std::move(tensor),
          .stored_shape = std::move(stored),
          .transposed = transposed,
          .block_rows = rows,
          .block_stride = rows};
}

class MixtureBuilder {
 public:
  MixtureBuilder(ModelSpec& spec, const std::string& prefix, const Mixture& mixture, MlpSpec& mlp)
      : spec_(spec),
        add_(spec),
        prefix_(prefix),
        mixture_(mixture),
        names_(mixture.names),
        mlp_(mlp),
        hidden_(spec.hidden_size),
        width_(mlp.expert_width(hidden_)) {}

  void build(const std::vector<MixturePart>& parts) {
    for (const MixturePart part : parts) {
      switch (part) {
        case MixturePart::router:
          add_router();
          break;
        case MixturePart::choice_bias:
          if (!names_.choice_bias.engine.empty()) add_choice_bias();
          break;
        case MixturePart::shared:
          if (mlp_.shared.intermediate > 0) add_shared();
          break;
        case MixturePart::latent:
          if (mlp_.latent > 0) add_latent();
          break;
        case MixturePart::experts:
          add_experts();
          break;
        case MixturePart::router_scales:
          add_router_scales();
          break;
        case MixturePart::branch_norms:
          mlp_.shared.out_norm = norm("post_feedforward_layernorm_1");
          mlp_.experts_out_norm = norm("post_feedforward_layernorm_2");
          mlp_.experts_norm = norm("pre_feedforward_layernorm_2");
          break;
      }
    }
  }

 private:
  [[nodiscard]] int64_t router_outputs() const { return mlp_.experts + mlp_.router.identities; }

  void add_router() {
    mlp_.router.gate = add_.linear(prefix_ + names_.router.engine,
                                   {Rows::all(prefix_ + names_.router.stored, router_outputs())},
                                   hidden_, {.bias = mixture_.router_bias});
    spec_.weights[static_cast<size_t>(mlp_.router.gate.weight)].dtype = mixture_.router_dtype;
  }

  Norm norm(const std::string& name) { return add_.norm(prefix_ + name, hidden_, mixture_.norm); }

  void add_router_scales() {
    mlp_.router.norm = mixture_.norm;
    mlp_.router.norm.present = true;
    mlp_.router.norm.weight = add_.vector(prefix_ + "router.scale", hidden_);
    mlp_.router.expert_scale = add_.vector(prefix_ + "router.per_expert_scale", mlp_.experts);
  }

  void add_choice_bias() {
    const int64_t n = router_outputs() * mixture_.bias_kinds;
    Part part = whole(prefix_ + names_.choice_bias.stored, {n}, false);
    part.mapping = mixture_.bias_mapping;
    if (mixture_.bias_dimensions == 2) {  // its one row has the experts as columns
      part = whole(part.tensor, {1, n}, true);
    }
    WeightSpec bias{.name = prefix_ + names_.choice_bias.engine,
                    .shape = {n},
                    .use = WeightUse::vector,
                    .dtype = DType::f32,
                    .kept = mixture_.bias_kept,
                    .zeros_if_absent = mixture_.bias_kept == Kept::in_run};
    if (mixture_.bias_left_zero) {
      WeightSpec zeros = bias;
      zeros.kept = Kept::in_vllm;
      zeros.constant.assign(static_cast<size_t>(n), 0);
      add_.add(std::move(zeros));
    }
    bias.parts.push_back(std::move(part));
    mlp_.router.choice_bias = add_.add(std::move(bias));
  }

  void add_shared() {
    SharedExperts& shared = mlp_.shared;
    const int64_t width = shared.intermediate;
    if (!names_.shared_gate.engine.empty()) {
      shared.gate = add_.linear(prefix_ + names_.shared_gate.engine,
                                {Rows::all(prefix_ + names_.shared_gate.stored, 1)}, hidden_, {});
    }
    const std::string stored = prefix_ + names_.shared.stored + ".";
    const std::string engine = prefix_ + names_.shared.engine + ".";
    std::vector<Rows> rows = {Rows::all(stored + "gate_proj", width),
                              Rows::all(stored + "up_proj", width)};
    if (!mlp_.gated) rows.erase(rows.begin());
    if (mixture_.shared_up_fused) {
      rows = Rows::parts(stored + names_.shared_up, {width, width});
    }
    const auto add_down = [&] {
      shared.down = add_.linear(engine + names_.shared_down,
                                {Rows::all(stored + names_.shared_down, hidden_)}, width,
                                {.split = Split::row});
    };
    if (mixture_.shared_down_first) add_down();
    shared.up = add_.linear(engine + names_.shared_up, rows, hidden_,
                            {.split = mlp_.gated ? Split::merged_column : Split::column});
    if (!mixture_.shared_down_first) add_down();
  }

  void add_latent() {
    const auto linear = [&](const MixtureName& name, int64_t rows, int64_t columns) {
      return add_.linear(prefix_ + name.engine, {Rows::all(prefix_ + name.stored, rows)}, columns,
                         {.bias = mixture_.latent_bias});
    };
    mlp_.latent_in = linear(names_.latent_in, width_, hidden_);
    if (mixture_.latent_norm) add_.norm(prefix_ + names_.latent_in.engine + "_norm", width_, {});
    mlp_.latent_out = linear(names_.latent_out, hidden_, width_);
  }

  // ---- experts ----

  [[nodiscard]] int64_t expert_parts() const { return mixture_.described ? 1 : mlp_.experts; }

  [[nodiscard]] std::string stored(const std::string& name) const {
    return prefix_ + names_.experts.stored + "." + name;
  }

  /// NAME[expert], of a tensor that holds all of them.
  /// Halves of bytes, and the exponents of their scales, as a matrix of compressed-tensors' MXFP4.
  Part packed_of(const std::string& name, int64_t expert, int64_t rows, int64_t columns) {
    const int64_t n = mlp_.experts, groups = columns / kGroup;
    if (expert == 0) {
      spec_.stacked_tensors.push_back({.tensor = name + "_blocks",
                                       .stored_shape = {n, rows, groups, kGroup / 2},
                                       .count = n,
                                       .name = name,
                                       .ending = ".weight_packed",
                                       .single_shape = {rows, columns / 2}});
      spec_.stacked_tensors.push_back({.tensor = name + "_scales",
                                       .stored_shape = {n, rows, groups},
                                       .count = n,
                                       .name = name,
                                       .ending = ".weight_scale"});
    }
    return whole(name + "[" + std::to_string(expert) + "].weight", {rows, columns}, false);
  }

  std::string one_of(const std::string& name, int64_t expert, const std::vector<int64_t>& shape) {
    if (expert == 0) {
      spec_.stacked_tensors.push_back(
          {.tensor = name, .stored_shape = shape, .count = mlp_.experts});
    }
    return name + "[" + std::to_string(expert) + "]";
  }

  void add_up_parts(WeightSpec& up, int64_t expert) {
    const int64_t n = mlp_.experts, inner = mlp_.intermediate;
    const ExpertNames& names = names_.expert;
    const auto half = [&](Part part, int64_t first) {
      part.first_row = first;
      part.block_rows = part.block_stride = inner;
      up.parts.push_back(std::move(part));
    };
    switch (mixture_.stored) {
      case ExpertsStored::apart:
        for (const std::string& name : {names.gate, names.up}) {
          if (name.empty()) continue;  // not gated
          up.parts.push_back(whole(stored(std::to_string(expert) + "." + name + ".weight"),
                                   {inner, width_}, false));
        }
        return;
      case ExpertsStored::flat:
        for (const std::string& name : {names.gate, names.up}) {
          up.parts.push_back(
              whole(one_of(stored(name), expert, {n * inner, width_}), {inner, width_}, false));
        }
        return;
      case ExpertsStored::stacked_apart:
        for (const std::string& name : {names.gate, names.up}) {
          up.parts.push_back(
              whole(one_of(stored(name), expert, {n, inner, width_}), {inner, width_}, false));
        }
        return;
      case ExpertsStored::stacked: {
        const Part part = whole(one_of(stored(names.up), expert, {n, 2 * inner, width_}),
                                {2 * inner, width_}, false);
        half(part, 0);
        return half(part, inner);
      }
      case ExpertsStored::mxfp4:
        for (Part part = packed_of(stored(names.up), expert, 2 * inner, width_);
             const int64_t first : {0, 1}) {
          part.first_row = first;
          part.block_rows = 1;
          part.block_stride = 2;
          part.block_count = inner;
          up.parts.push_back(part);
        }
        return;
      case ExpertsStored::transposed:
      case ExpertsStored::in_turn: {
        const Part part = whole(one_of(stored(names.up), expert, {n, width_, 2 * inner}),
                                {width_, 2 * inner}, true);
        if (mixture_.stored == ExpertsStored::in_turn) return up.parts.push_back(part);
        half(part, 0);
        return half(part, inner);
      }
    }
  }

  Part down_part(int64_t expert) {
    const int64_t n = mlp_.experts, inner = mlp_.intermediate;
    const std::string name = stored(names_.expert.down);
    switch (mixture_.stored) {
      case ExpertsStored::apart:
        return whole(stored(std::to_string(expert) + "." + names_.expert.down + ".weight"),
                     {width_, inner}, false);
      case ExpertsStored::stacked:
      case ExpertsStored::stacked_apart:
        return whole(one_of(name, expert, {n, width_, inner}), {width_, inner}, false);
      case ExpertsStored::mxfp4:
        return packed_of(name, expert, width_, inner);
      case ExpertsStored::flat:
        return whole(one_of(name, expert, {n * inner, width_}), {inner, width_}, true);
      case ExpertsStored::transposed:
      case ExpertsStored::in_turn:
        break;
    }
    return whole(one_of(name, expert, {n, inner, width_}), {inner, width_}, true);
  }

  WeightId add_biases(const std::string& name, const std::string& tensor, int64_t n, Split split,
                      bool in_turn) {
    WeightSpec biases{.name = name,
                      .shape = {mlp_.experts, n},
                      .use = WeightUse::experts,
                      .split = split,
                      .rows_in_turn = in_turn};
    for (int64_t expert = 0; expert < expert_parts(); ++expert) {
      biases.parts.push_back(whole(one_of(tensor, expert, {mlp_.experts, n}), {n}, false));
    }
    return add_.add(std::move(biases));
  }

  void add_experts() {
    const int64_t n = mlp_.experts, inner = mlp_.intermediate;
    const std::string engine = prefix_ + names_.experts.engine;
    const bool packed = mixture_.stored == ExpertsStored::mxfp4;
    const bool in_turn = packed || mixture_.stored == ExpertsStored::in_turn;
    const Split up_split = in_turn || !mlp_.gated ? Split::column : Split::merged_column;
    WeightSpec up{.name = engine + "." + names_.up_weight,
                  .shape = {n, mlp_.up_rows(), width_},
                  .use = WeightUse::experts,
                  .split = up_split,
                  .rows_in_turn = in_turn && !packed};
    WeightSpec down{.name = engine + "." + names_.down_weight,
                    .shape = {n, width_, inner},
                    .use = WeightUse::experts,
                    .split = Split::row};
    up.parts.reserve(static_cast<size_t>(2 * expert_parts()));
    down.parts.reserve(static_cast<size_t>(expert_parts()));
    for (int64_t expert = 0; expert < expert_parts(); ++expert) {
      add_up_parts(up, expert);
      down.parts.push_back(down_part(expert));
    }
    mlp_.up.weight = add_.add(std::move(up));
    if (in_turn) {
      mlp_.up.bias = add_biases(engine + ".w13_bias", stored(names_.expert.up + "_bias"), 2 * inner,
                                up_split, true);
    }
    mlp_.down.weight = add_.add(std::move(down));
    if (in_turn) {
      mlp_.down.bias = add_biases(engine + ".w2_bias", stored(names_.expert.down + "_bias"), width_,
                                  Split::replicated, false);
      spec_.weights[static_cast<size_t>(mlp_.down.bias)].first_rank_alone = true;
    }
  }

  ModelSpec& spec_;
  SpecBuilder add_;
  const std::string& prefix_;
  const Mixture& mixture_;
  const MixtureNames& names_;
  MlpSpec& mlp_;
  int64_t hidden_, width_;  // of the residual; of what experts read
};

}  // namespace

void add_mixture(ModelSpec& spec, const std::string& prefix, const Mixture& mixture,
                 const std::vector<MixturePart>& parts, MlpSpec& mlp) {
  MixtureBuilder(spec, prefix, mixture, mlp).build(parts);
}

}  // namespace plimsoll::model
