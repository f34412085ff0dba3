#include "plan/own/planned_model.h"

#include <utility>

#include "base/error.h"
#include "model/config.h"
#include "plan/vllm_plan.h"
#include "quantization/online.h"

namespace plimsoll::plan::own {
namespace {

bool is_planned_for_vllm(const ConfigView& config, const EngineArgs& args) {
  try {
    plan_vllm(config, args, nullptr);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// True when two parts differ in nothing but the tensor that they are rows of.
bool are_alike(const model::Part& a, const model::Part& b) {
  return a.rows() == b.rows() && a.stored_shape == b.stored_shape && a.transposed == b.transposed &&
         a.every_rank == b.every_rank && a.packing == b.packing;
}

/// Leaves stacks of experts the parts of their first matrix, where the others' are alike.
void keep_first_experts(model::ModelSpec& spec) {
  for (model::WeightSpec& weight : spec.weights) {
    if (!weight.is_stack() || weight.matrices() < 2) continue;
    const size_t each = weight.parts_in_matrix();
    if (each == 0 || weight.parts.size() == each) continue;
    bool alike = true;
    for (size_t i = each; i < weight.parts.size(); ++i)
      alike = alike && are_alike(weight.parts[i], weight.parts[i % each]);
    if (!alike) continue;
    weight.parts.resize(each);
    weight.parts.shrink_to_fit();
    weight.parts_of_first = true;
  }
}

}  // namespace

model::ModelSpec read_spec(const ConfigView& config, const EngineArgs& args) {
  try {
    return model::make_model_spec(config.json());
  } catch (const Error& error) {
    if (!is_planned_for_vllm(config, args)) throw;
    fail(error.code(), "{} (run cannot launch it; --engine vllm plans it for vLLM)", error.what());
  }
}

const PlannedModel::Stored& PlannedModel::stored(const Arguments& arguments) {
  checkpoint::Keeping keeping = own::keeping(arguments.args);
  keeping.online.clear();
  const StoredWeights* const weights = arguments.weights.get();
  if (stored_ && stored_->weights.get() == weights &&
      stored_->keeping.activations == keeping.activations) {
    return *stored_;
  }
  stored_.reset();
  model::ModelSpec spec = weights != nullptr ? weights->spec : read_spec(config_, arguments.args);
  check_supported(arguments.args, spec);
  divide_experts(arguments.args, spec);
  std::string method = spec.quantization;
  checkpoint::settle_kept(config_.json(), weights == nullptr ? nullptr : &weights->tensors, keeping,
                          spec);
  keep_first_experts(spec);
  return stored_.emplace(
      Stored{arguments.weights, std::move(keeping), std::move(spec), std::move(method)});
}

model::ModelSpec PlannedModel::spec(const Arguments& arguments) {
  const EngineArgs& args = arguments.args;
  const Stored& stored = this->stored(arguments);
  model::ModelSpec spec = stored.spec;
  const std::string unknown = std::exchange(spec.quantization, stored.method);
  check_supported(args, spec);
  divide_experts(args, spec);
  if (!unknown.empty()) {
    fail(
        ExitCode::checkpoint_unusable,
        "the checkpoint is quantised ({}), which run does not have; plan the unquantised model, or "
        "--engine vllm",
        unknown);
  }
  spec.quantization.clear();
  quantization::assign_online(args.quantization, stored.keeping.activations, spec);
  return spec;
}

}  // namespace plimsoll::plan::own
