#include "shard/quantized/quantized_parameters.h"

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "model/vocabulary.h"

namespace plimsoll::shard {

using model::kVocabularyPadding;
using model::OutputAxis;
using model::Part;
using model::Repack;
using model::Split;
using model::WeightSpec;
using quantization::WeightScheme;

namespace {

// "model.layers.0.mlp.down_proj." of a weight, "...experts.w2_" of a stack.
std::string without_weight(const std::string& name) {
  return name.substr(0, name.size() - std::string_view("weight").size());
}

// A part whose outputs are packed `unit` to a row or column.
void divide_outputs(Part& part, int64_t unit, const std::string& name) {
  const bool whole =
      part.first_row % unit == 0 &&
      (part.block_count == 1 || (part.block_rows % unit == 0 && part.block_stride % unit == 0));
  if (!whole) {
    refuse_quantized(fmt::format("{}: its parts do not begin on groups of {} outputs", name, unit));
  }
  part.first_row /= unit;
  part.block_rows = divide_up(part.block_rows, unit);
  part.block_stride = divide_up(part.block_stride, unit);
}

void make_single(Part& part, std::vector<int64_t> stored_shape) {
  part.stored_shape = std::move(stored_shape);
  part.first_row = 0;
  part.block_rows = part.block_stride = part.block_count = 1;
}

}  // namespace

void refuse_quantized(const std::string& what) {
  fail(ExitCode::checkpoint_unusable,
       "quantized checkpoint: {}; shard the unquantized model, or load this one without shards",
       what);
}

WeightSpec& QuantizedParameters::next(const std::string& suffix, Split split) {
  WeightSpec& next = result_.emplace_back(weight_);
  next.name = without_weight(weight_.name) + suffix;
  next.split = split;
  for (Part& part : next.parts) part.tensor = without_weight(part.tensor) + suffix;
  return next;
}

std::vector<int64_t> QuantizedParameters::stacked(std::vector<int64_t> matrix) const {
  if (weight_.is_stack()) matrix.insert(matrix.begin(), weight_.matrices());
  return matrix;
}

bool QuantizedParameters::all_have(const std::string& suffix) const {
  return std::ranges::all_of(weight_.parts, [&](const Part& part) {
    return stored_.has(without_weight(part.tensor) + suffix);
  });
}

bool QuantizedParameters::any_has(const std::string& suffix) const {
  return std::ranges::any_of(weight_.parts, [&](const Part& part) {
    return stored_.has(without_weight(part.tensor) + suffix);
  });
}

// ---- matrices ----

void QuantizedParameters::as_stored(DType dtype) {
  next("weight", weight_.split).dtype = dtype;
}

WeightSpec& QuantizedParameters::by_rows(const std::string& suffix, std::optional<DType> dtype,
                                         Split split, int64_t unit, int64_t columns) {
  WeightSpec& made = next(suffix, split);
  made.dtype = dtype;
  made.output_multiple = made.input_multiple = 1;
  const bool packed = dtype == DType::i32;
  const bool exact = packed && (weight_.is_stack() || split == Split::vocabulary);
  int64_t rows = 0;
  for (Part& part : made.parts) {
    if (exact && part.rows() % unit != 0) {
      refuse_quantized(
          fmt::format("{}: {} outputs do not fill words of {}", part.tensor, part.rows(), unit));
    }
    part.stored_shape = {divide_up(part.stored_shape[0], unit), columns};
    divide_outputs(part, unit, made.name);
    rows += part.rows();
  }
  if (packed) made.outputs_per_row = unit;
  made.shape = stacked({rows / weight_.matrices(), columns});
  return made;
}

void QuantizedParameters::by_columns(const std::string& suffix, std::optional<DType> dtype,
                                     Split split, int64_t rows, int64_t unit) {
  WeightSpec& made = next(suffix, split);
  made.dtype = dtype;
  made.outputs = OutputAxis::columns;
  int64_t columns = 0;
  for (Part& part : made.parts) {
    if (part.rows() % unit != 0) {
      refuse_quantized(fmt::format("{}: {} outputs of {} do not fill words of {}", made.name,
                                   part.rows(), part.tensor, unit));
    }
    if (split == Split::vocabulary && part.rows() % kVocabularyPadding != 0) {
      refuse_quantized(fmt::format("{} has {} outputs, no multiple of {}; vLLM cannot pad it",
                                   part.tensor, part.rows(), kVocabularyPadding));
    }
    part.stored_shape = {rows, part.stored_shape[0] / unit};
    divide_outputs(part, unit, made.name);
    columns += part.rows();
  }
  made.outputs_per_row = unit;
  made.shape = stacked({rows, columns / weight_.matrices()});
}

void QuantizedParameters::turned(const std::string& suffix, int64_t columns, Repack repack) {
  constexpr int64_t kInWord = 8;  // AWQ: outputs of 4 bits
  constexpr int64_t kInByte = 2;
  const bool awq = repack == Repack::awq_words || repack == Repack::awq_zeros;
  const int64_t outputs_in_row = repack == Repack::awq_zeros ? kInByte : 1;
  WeightSpec& made = next(suffix, weight_.split);
  made.repack = repack;
  made.dtype = std::nullopt;
  if (repack != Repack::none) {
    made.dtype = DType::u8;
    made.stored_dtype = DType::i32;
  }
  for (Part& part : made.parts) {
    const int64_t outputs = part.stored_shape[0];
    part.stored_shape = {repack == Repack::awq_words ? columns * kInWord : columns,
                         awq ? outputs / kInWord : outputs};
    part.transposed = true;
    divide_outputs(part, outputs_in_row, made.name);
  }
  made.shape = stacked({weight_.rows() / outputs_in_row, columns});
}

void QuantizedParameters::by_output(const std::string& suffix, DType dtype, Axes parameter,
                                    Axes stored) {
  WeightSpec& made = by_rows(suffix, dtype, outputs_only(), 1, 1);
  if (parameter == Axes::vector) made.shape.pop_back();
  if (stored == Axes::column) return;
  for (Part& part : made.parts) part.stored_shape.pop_back();
}

// ---- single values ----

void QuantizedParameters::by_part(const std::string& suffix, std::optional<DType> dtype) {
  WeightSpec& made = next(suffix, Split::replicated);
  made.dtype = dtype;
  for (Part& part : made.parts) make_single(part, stored_.scalar_shape(part.tensor));
  const auto parts = static_cast<int64_t>(made.parts.size());
  const int64_t in_matrix = parts / weight_.matrices();
  const bool one_each = weight_.is_stack() && in_matrix == 1;
  made.shape = one_each ? std::vector<int64_t>{parts} : stacked({in_matrix});
}

void QuantizedParameters::by_last(const std::string& suffix, DType dtype) {
  WeightSpec& made = next(suffix, Split::replicated);
  made.dtype = dtype;
  made.outputs = OutputAxis::none;
  for (Part& part : made.parts) make_single(part, stored_.scalar_shape(part.tensor));
  made.shape = {weight_.matrices()};
}

// ---- parameters that follow from the config ----

void QuantizedParameters::add_constant(const std::string& suffix, std::optional<DType> dtype,
                                       float value, std::vector<int64_t> shape) {
  WeightSpec& made = next(suffix, Split::replicated);
  made.use = model::WeightUse::vector;
  made.dtype = dtype;
  made.shape = std::move(shape);
  made.parts.clear();
  made.constant.assign(static_cast<size_t>(made.elements()), value);
}

void QuantizedParameters::add_shape() {
  WeightSpec& made = next("weight_shape", Split::replicated);
  made.stored_dtype = DType::i64;
  if (!weight_.is_stack()) made.dtype = DType::i64;
  made.outputs = OutputAxis::none;
  made.shape = stacked({2});
  for (Part& part : made.parts) {
    part.values = {part.stored_shape[0], part.stored_shape[1]};
    make_single(part, {2});
    part.block_rows = part.block_stride = 2;
  }
}

void QuantizedParameters::add_group_indices(int64_t group) {
  WeightSpec& made = next("g_idx", Split::replicated);
  made.use = model::WeightUse::vector;
  made.dtype = DType::i32;
  made.kept = model::Kept::in_checkpoint;
  made.outputs = OutputAxis::none;
  made.shape = {inputs()};
  for (Part& part : made.parts) {
    make_single(part, {inputs()});
    part.block_rows = part.block_stride = inputs();
    part.index_group = group > 0 ? group : inputs();
  }
}

void QuantizedParameters::add_expert_bias() {
  const bool stored = all_have("bias");
  WeightSpec& made = next("bias", outputs_only());
  made.shape = {weight_.matrices(), weight_.rows()};
  for (Part& part : made.parts) {
    if (!stored && stored_.has(part.tensor)) {
      refuse_quantized(part.tensor + " is a bias that not all experts have");
    }
    part.stored_shape = {part.rows()};
  }
  if (!stored) made.parts.clear();
}

// ---- how they are cut ----

Split QuantizedParameters::outputs_only() const {
  return weight_.split == Split::row ? Split::replicated : weight_.split;
}

int64_t QuantizedParameters::groups(const WeightScheme& scheme) const {
  if (scheme.group <= 0) return 1;
  if (inputs() % scheme.group != 0) {
    refuse_quantized(fmt::format("{}: {} inputs are no multiple of its groups of {}", weight_.name,
                                 inputs(), scheme.group));
  }
  return inputs() / scheme.group;
}

int64_t QuantizedParameters::integers_per_word(const WeightScheme& scheme) const {
  if (scheme.bits != 4 && scheme.bits != 8) {
    refuse_quantized(fmt::format("{}: {} bits; 4 and 8 are known", weight_.name, scheme.bits));
  }
  const int64_t packed = 32 / scheme.bits;
  if (inputs() % packed != 0) {
    refuse_quantized(
        fmt::format("{}: {} inputs do not fill words of {}", weight_.name, inputs(), packed));
  }
  return packed;
}

}  // namespace plimsoll::shard
