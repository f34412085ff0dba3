#include "checkpoint/fused_experts.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/find_tensor.h"
#include "checkpoint/json_events.h"
#include "checkpoint/mapped_file.h"

namespace plimsoll::checkpoint {
namespace {

using model::Part;
using model::WeightSpec;

/// The name that vLLM knows the one tensor by, from that of the first expert's.
std::string fused_name(const WeightSpec& weight) {
  constexpr std::string_view kExperts = ".experts";
  const std::string& first = weight.parts.front().tensor;
  const bool down = weight.split == model::Split::row;
  const bool short_names = first.ends_with(".w1.weight") || first.ends_with(".w2.weight");
  const char* const up_name = short_names ? ".w13" : ".gate_up_proj";
  const char* const down_name = short_names ? ".w2" : ".down_proj";
  return first.substr(0, first.rfind(kExperts) + kExperts.size()) + (down ? down_name : up_name);
}

/// Name of a tensor beside a stack of experts' codes, and the name of its like beside one matrix.
struct Beside {
  const char* stack;
  const char* matrix;
};
constexpr std::array kBeside = {
    Beside{"_scale_inv", "weight_scale_inv"},  // transformers' fp8
    Beside{"_weight_scale_inv", "weight_scale_inv"},
    Beside{"_activation_scale", "activation_scale"},
    Beside{"_scale", "weight_scale"},         // fbgemm_fp8
    Beside{"_weight_scale", "weight_scale"},  // ModelOpt
    Beside{"_weight_scale_2", "weight_scale_2"},
    Beside{"_input_scale", "input_scale"},
};

bool holds_codes(const TensorEntry& tensor) {
  return tensor.dtype == DType::f8_e4m3 || tensor.dtype == DType::u8;
}

/// A stack of codes and what stands beside it, as a quantized matrix `name`[i] of each expert.
void split_codes(Checkpoint& checkpoint, const std::string& name, int64_t count) {
  const auto split = [&](const std::string& stack, const char* ending) {
    const TensorEntry* const found = checkpoint.find(stack);
    if (found == nullptr) return;
    const bool of_each = !found->shape.empty() && found->shape.front() == count;
    if (of_each) {
      return checkpoint.split({.tensor = stack,
                               .stored_shape = found->shape,
                               .count = count,
                               .name = name,
                               .ending = fmt::format(".{}", ending)});
    }
    if (found->bytes != dtype_size(found->dtype)) {
      fail(ExitCode::checkpoint_unusable,
           "tensor \"{}\" in {} has shape {}; expected one of {} experts (from config.json)",
           shown(stack), found->file->path().string(), shape_text(found->shape), count);
    }
    std::vector<std::string> names;
    for (int64_t i = 0; i < count; ++i) names.push_back(fmt::format("{}[{}].{}", name, i, ending));
    checkpoint.share(stack, names);
  };
  split(name, "weight");
  for (const Beside& beside : kBeside) split(name + beside.stack, beside.matrix);
}

void split_stacks(Checkpoint& checkpoint, const model::ModelSpec& spec) {
  for (model::StackedTensor stack : spec.stacked_tensors) {
    const TensorEntry* const found = find_tensor(checkpoint, spec, stack.tensor);
    if (found == nullptr) continue;  // the reader says what is missing
    stack.tensor = found->name;      // or another spelling
    if (stack.name.empty() && stack.stored_shape.size() == 3 && holds_codes(*found)) {
      split_codes(checkpoint, stack.tensor, stack.count);
      continue;
    }
    if (found->shape != stack.stored_shape) {
      fail(ExitCode::checkpoint_unusable,
           "tensor \"{}\" in {} has shape {}; expected {} (from config.json)", shown(stack.tensor),
           found->file->path().string(), shape_text(found->shape), shape_text(stack.stored_shape));
    }
    checkpoint.split(stack);
  }
}

/// A stack of which the checkpoint has a tensor for each expert.
void take_apart(const Checkpoint& checkpoint, WeightSpec& weight) {
  if (weight.is_vector()) return;
  const std::string& stack = weight.parts.front().tensor;
  if (!stack.ends_with("[0]") || checkpoint.find(stack) != nullptr) return;
  const std::string experts = stack.substr(0, stack.rfind('.') + 1);
  const bool down = weight.split == model::Split::row;
  const auto names = down ? std::vector{"down_proj"} : std::vector{"gate_proj", "up_proj"};
  const auto tensor = [&](int64_t expert, const char* name) {
    return fmt::format("{}{}.{}.weight", experts, expert, name);
  };
  const auto stored = [&](const char* ending) {
    return checkpoint.find(fmt::format("{}0.{}.{}", experts, names[0], ending)) != nullptr;
  };
  if (!stored("weight") && !stored("qweight") && !stored("weight_packed")) return;
  const int64_t rows = weight.rows() / std::ssize(names);
  weight.rows_in_turn = false;
  weight.parts.clear();
  for (int64_t expert = 0; expert < weight.matrices(); ++expert) {
    for (const char* name : names) {
      weight.parts.push_back({.tensor = tensor(expert, name),
                              .stored_shape = {rows, weight.columns()},
                              .block_rows = rows,
                              .block_stride = rows});
    }
  }
}

/// Parts of a stack that split_codes() has split.
void take_codes(const Checkpoint& checkpoint, WeightSpec& weight) {
  if (weight.is_vector() || weight.rows_in_turn) return;
  const std::string& first = weight.parts.front().tensor;
  if (!first.ends_with("[0]") || checkpoint.find(first + ".weight") == nullptr) return;
  for (Part& part : weight.parts) part.tensor += ".weight";
}

/// Takes a quantized stack of experts apart: each expert becomes a tensor NAME[i].weight, in which
/// gate and up lie one under the other.
void take_fused_codes(Checkpoint& checkpoint, const std::string& name, WeightSpec& weight) {
  split_codes(checkpoint, name, weight.matrices());
  const size_t each = weight.parts_in_matrix();
  for (size_t i = 0; i < weight.parts.size(); ++i) {
    const int64_t rows = weight.parts[i].rows();
    weight.parts[i] = {.tensor = fmt::format("{}[{}].weight", name, i / each),
                       .stored_shape = {weight.rows(), weight.columns()},
                       .first_row = static_cast<int64_t>(i % each) * rows,
                       .block_rows = rows,
                       .block_stride = rows};
  }
}

}  // namespace

void resolve_fused_experts(Checkpoint& checkpoint, model::ModelSpec& spec) {
  split_stacks(checkpoint, spec);
  for (WeightSpec& weight : spec.weights) {
    if (weight.use != model::WeightUse::experts) continue;
    take_apart(checkpoint, weight);
    take_codes(checkpoint, weight);
    const std::string name = fused_name(weight);
    const TensorEntry* const fused = checkpoint.find(name);
    if (fused == nullptr || checkpoint.find(weight.parts.front().tensor) != nullptr) continue;
    if (holds_codes(*fused) && fused->shape.size() == 3) {
      take_fused_codes(checkpoint, name, weight);
      continue;
    }
    // A fused tensor whose shape is not the config's stays as it is, and the reader reports it.
    std::vector<int64_t> stored = weight.shape;
    if (fused->shape == stored) {
      stored = {weight.matrices() * weight.rows(), weight.columns()};
      checkpoint.reshape(name, stored);
    }
    int64_t row = 0;
    for (Part& part : weight.parts) {
      const int64_t rows = part.rows();
      part = {.tensor = name,
              .stored_shape = stored,
              .first_row = row,
              .block_rows = rows,
              .block_stride = rows};
      row += rows;
    }
  }
}

}  // namespace plimsoll::checkpoint
