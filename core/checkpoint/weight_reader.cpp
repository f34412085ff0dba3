#include <algorithm>
#include <cassert>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/copy_rows.h"
#include "checkpoint/find_tensor.h"
#include "checkpoint/json_events.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/packed_weights.h"
#include "quantization/online.h"

namespace plimsoll::checkpoint {
namespace {

using model::ModelSpec;
using model::Part;
using model::WeightSpec;

std::string more(size_t count) {
  return count > 1 ? fmt::format(" (and {} more)", count - 1) : "";
}

void check_tensor(const TensorEntry& tensor, const Part& part, const WeightSpec& weight) {
  const auto refuse = [&](const std::string& found, const std::string& expected) {
    fail(ExitCode::checkpoint_unusable,
         "tensor \"{}\" in {} has {}; expected {} (for {}, from config.json)", shown(tensor.name),
         tensor.file->path().string(), found, expected, weight.name);
  };
  if (tensor.shape != part.stored_shape) {
    refuse("shape " + shape_text(tensor.shape), shape_text(part.stored_shape));
  }
  const std::optional<DType> stored = weight.stored_dtype ? weight.stored_dtype : weight.dtype;
  const bool exact = stored && !is_convertible(*stored);
  if (exact ? tensor.dtype != *stored : !is_convertible(tensor.dtype)) {
    refuse("dtype " + std::string(safetensors_name(tensor.dtype)),
           exact ? std::string(safetensors_name(*stored)) : "BF16, F16, F32 or F64");
  }
}

/// Zeros then: what vLLM alone has, and biases of routers' choices that it does without.
bool may_be_absent(const WeightSpec& weight) {
  return weight.kept == model::Kept::in_vllm || weight.zeros_if_absent;
}

bool is_absent(const Checkpoint& checkpoint, const ModelSpec& spec, const WeightSpec& weight) {
  if (!may_be_absent(weight) || !weight.constant.empty()) return false;
  return weight.kept == model::Kept::in_vllm ||
         find_tensor(checkpoint, spec, weight.parts.front().tensor) == nullptr;
}

bool is_ignorable(const std::string& name, const ModelSpec& spec) {
  return std::ranges::any_of(spec.ignored_suffixes,
                             [&](const std::string& suffix) { return name.ends_with(suffix); }) ||
         std::ranges::any_of(spec.ignored_prefixes,
                             [&](const std::string& prefix) { return name.starts_with(prefix); });
}

/// Notes the tensors of a quantized part.
void use_packed(const Checkpoint& checkpoint, const ModelSpec& spec, const Part& part,
                std::unordered_set<const TensorEntry*>& used) {
  const std::string module = part.tensor.substr(0, part.tensor.rfind('.') + 1);
  for (const char* ending : quantization::endings_of(part.packing->format)) {
    if (const TensorEntry* tensor = find_tensor(checkpoint, spec, module + ending))
      used.insert(tensor);
  }
}

/// Notes the tensors of a part, plain or quantized, as far as they are there.
void use_any(const Checkpoint& checkpoint, const ModelSpec& spec, const Part& part,
             std::unordered_set<const TensorEntry*>& used) {
  if (part.packing) return use_packed(checkpoint, spec, part, used);
  if (const TensorEntry* tensor = find_tensor(checkpoint, spec, part.tensor)) used.insert(tensor);
}

/// Returns the biases among the tensors that are left over: the model has no parameter for them,
/// and leaves them out as vLLM does.
std::vector<const TensorEntry*> check_left_over(
    const Checkpoint& checkpoint, const ModelSpec& spec,
    const std::unordered_set<const TensorEntry*>& used) {
  const TensorEntry* first = nullptr;
  size_t count = 0;
  std::vector<const TensorEntry*> biases;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (used.contains(&tensor) || is_ignorable(name, spec)) continue;
    if (name.ends_with(".bias")) {
      biases.push_back(&tensor);
    } else if (count++ == 0) {
      first = &tensor;
    }
  }
  if (first == nullptr) return biases;
  fail(ExitCode::checkpoint_unusable,
       "tensor \"{}\"{} in {} is none that {} with this config.json has; do config and weights "
       "belong together?",
       shown(first->name), more(count), first->file->path().string(), spec.architecture);
}

bool holds_zeros(const TensorEntry& tensor) {
  std::vector<float> values(tensor.bytes / dtype_size(tensor.dtype));
  const GuardedRead guard(*tensor.file);
  convert(tensor.data, tensor.dtype, values.data(), DType::f32, values.size());
  guard.finish();
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

/// Why a tensor may be missing: a file's names that begin with a word more or less, as wrappers
/// (torch.compile, DDP, PEFT) save them, or a head that is the token table. Empty: no guess.
std::string guess_missing(const Checkpoint& checkpoint, const ModelSpec& spec,
                          const std::string& name) {
  const auto begin_all = [&](const std::string& found, const std::string& wanted) {
    return fmt::format("; a file calls it \"{}\": rename its tensors to begin with \"{}\"",
                       shown(found), shown(wanted));
  };
  for (const auto& [there, tensor] : checkpoint.tensors()) {
    const size_t longer = there.size() - std::min(there.size(), name.size());
    if (longer > 0 && there.ends_with(name) && there[longer - 1] == '.') {
      return fmt::format("; a file calls it \"{}\": take \"{}\" off the names of its tensors",
                         shown(there), shown(there.substr(0, longer)));
    }
    const size_t shorter = name.size() - std::min(there.size(), name.size());
    if (shorter > 0 && name.ends_with(there) && name[shorter - 1] == '.' &&
        there.find('.') != std::string::npos) {
      return begin_all(there, name.substr(0, shorter));
    }
  }
  const bool is_head = spec.head != model::kNoWeight && spec.head != spec.embedding &&
                       spec.weights[static_cast<size_t>(spec.head)].parts.front().tensor == name;
  return is_head ? "; where the head is the token table config.json says \"tie_word_embeddings\": "
                   "true"
                 : "";
}

/// The tensors that the spec's weights are made of. Throws where one is missing or is not as the
/// spec says.
std::unordered_set<const TensorEntry*> find_needed(const Checkpoint& checkpoint,
                                                   const ModelSpec& spec, Towers towers) {
  std::unordered_set<const TensorEntry*> used;
  const Part* missing = nullptr;
  size_t missing_count = 0;
  const quantization::FindStored find = find_stored(checkpoint, spec);
  const auto look_up = [&](const WeightSpec& weight) {
    for (const Part& part : weight.parts) {
      if (part.packing && part.packing->format != model::PackedFormat::online_fp8) {
        (void)open_part(weight, part, whole_part(weight, part), find);
        use_packed(checkpoint, spec, part, used);
        continue;
      }
      const TensorEntry* tensor = find_tensor(checkpoint, spec, part.tensor);
      if (tensor == nullptr && may_be_absent(weight)) continue;
      if (tensor == nullptr) {
        if (missing_count++ == 0) missing = &part;
        continue;
      }
      check_tensor(*tensor, part, weight);
      used.insert(tensor);
    }
  };
  if (towers == Towers::wanted) {
    std::ranges::for_each(spec.towers, look_up);
  } else {
    for (const WeightSpec& weight : spec.towers)
      for (const Part& part : weight.parts) use_any(checkpoint, spec, part, used);
  }
  const size_t of_towers = missing_count;
  std::ranges::for_each(spec.weights, look_up);
  if (missing != nullptr) {
    const std::string file = checkpoint.promised_file(missing->tensor);
    fail(ExitCode::checkpoint_unusable,
         "the checkpoint lacks tensor \"{}\"{}, which {} with this config.json needs, shape "
         "{}{}{}{}",
         missing->tensor, more(missing_count), spec.architecture, shape_text(missing->stored_shape),
         file.empty() ? "" : fmt::format("; the index says that it is in {}", shown(file)),
         missing_count == of_towers ? "; without its tower the model answers text: "
                                      "--language-model-only"
                                    : "",
         guess_missing(checkpoint, spec, missing->tensor));
  }
  return used;
}

}  // namespace

const TensorEntry* find_tensor(const Checkpoint& checkpoint, const ModelSpec& spec,
                               const std::string& name) {
  if (const TensorEntry* found = checkpoint.find(name)) return found;
  for (const auto& [first, second] : spec.tensor_prefixes) {
    if (!name.starts_with(first)) continue;
    if (const TensorEntry* found = checkpoint.find(second + name.substr(first.size())))
      return found;
  }
  for (const auto& [word, other] : spec.tensor_words) {
    const size_t at = name.find(word);
    if (at == std::string::npos) continue;
    if (const TensorEntry* found =
            checkpoint.find(std::string(name).replace(at, word.size(), other)))
      return found;
  }
  return nullptr;
}

bool is_convertible(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32 || dtype == DType::f64;
}

DType common_dtype(const std::vector<DType>& stored) {
  std::optional<DType> common;
  for (const DType dtype : stored) {
    if (!is_convertible(dtype)) continue;
    if (common && *common != dtype) return DType::f32;
    common = dtype;
  }
  return common.value_or(DType::f32);
}

DType model_dtype(const Checkpoint& checkpoint, const ModelSpec& spec) {
  if (spec.dtype_stated) return spec.dtype;
  std::vector<DType> stored;
  for (const auto& [name, tensor] : checkpoint.tensors()) stored.push_back(tensor.dtype);
  return common_dtype(stored);
}

void check_present(const Checkpoint& checkpoint, const ModelSpec& spec, Towers towers) {
  (void)find_needed(checkpoint, spec, towers);
}

WeightReader::WeightReader(const Checkpoint& checkpoint, const ModelSpec& spec, Towers towers)
    : checkpoint_(&checkpoint), spec_(&spec) {
  if (!spec.quantization.empty()) {
    fail(ExitCode::checkpoint_unusable,
         "the checkpoint is quantized ({}), which is not run so; use the unquantized model",
         spec.quantization);
  }
  left_out_ = check_left_over(checkpoint, spec, find_needed(checkpoint, spec, towers));
}

void WeightReader::require_zero_biases() const {
  for (const TensorEntry* bias : left_out_) {
    // A mask of some GPT is called a bias too, and has more dimensions.
    if (bias->shape.size() != 1 || !is_convertible(bias->dtype) || holds_zeros(*bias)) continue;
    fail(
        ExitCode::checkpoint_unusable,
        "tensor \"{}\" in {} is not zero, and {} with this config.json has no such bias; do config "
        "and weights belong together?",
        shown(bias->name), bias->file->path().string(), spec_->architecture);
  }
}

const TensorEntry& WeightReader::tensor(const Part& part) const {
  return *find_tensor(*checkpoint_, *spec_, part.tensor);
}

void WeightSource::read_block(const WeightSpec& weight, const Block& block, DType dtype,
                              void* to) const {
  const size_t row = static_cast<size_t>(weight.columns()) * dtype_size(dtype);
  const size_t part = static_cast<size_t>(block.columns) * dtype_size(dtype);
  std::vector<std::byte> rows(static_cast<size_t>(block.rows) * row);
  read_rows(weight, block.row, block.rows, dtype, rows.data());
  const std::byte* from = rows.data() + static_cast<size_t>(block.column) * dtype_size(dtype);
  for (int64_t i = 0; i < block.rows; ++i, from += row) {
    std::memcpy(static_cast<std::byte*>(to) + static_cast<size_t>(i) * part, from, part);
  }
}

std::unique_ptr<model::PackedRows> WeightSource::packed(const WeightSpec& weight, size_t part,
                                                        const Block& block) const {
  if (weight.parts[part].packing->format != model::PackedFormat::online_fp8) {
    throw std::logic_error(weight.name + " is quantized, and its source is not");
  }
  int64_t first_row = block.row;
  for (size_t i = 0; i < part; ++i) first_row += weight.parts[i].rows();
  const auto read = [this, &weight, first_row](int64_t first, int64_t count, float* to) {
    read_rows(weight, first_row + first, count, DType::f32, to);
  };
  return quantization::online_rows(weight.columns(), {block.column, block.columns}, read);
}

std::unique_ptr<model::PackedRows> WeightReader::packed(const WeightSpec& weight, size_t part,
                                                        const Block& block) const {
  if (weight.parts[part].packing->format == model::PackedFormat::online_fp8) {
    return WeightSource::packed(weight, part, block);
  }
  return open_part(weight, weight.parts[part], block, find_stored(*checkpoint_, *spec_));
}

uint64_t WeightReader::stored_bytes(const WeightSpec& weight, int64_t first, int64_t count) const {
  uint64_t bytes = 0;
  if (is_absent(*checkpoint_, *spec_, weight) || !weight.constant.empty()) return bytes;
  for_each_part(weight, first, count, [&](const Part& part, int64_t, int64_t, int64_t rows) {
    const TensorEntry& from = tensor(part);
    bytes += static_cast<uint64_t>(rows * weight.columns()) * dtype_size(from.dtype);
  });
  return bytes;
}

// Bytes of a quantized part; a tensor that several parts share counts by this part's share of its
// rows.
uint64_t WeightReader::stored_bytes(const WeightSpec& weight, size_t index) const {
  const Part& part = weight.parts[index];
  const std::string module = part.tensor.substr(0, part.tensor.rfind('.') + 1);
  uint64_t bytes = 0;
  for (const char* ending : quantization::endings_of(part.packing->format)) {
    const TensorEntry* const from = find_tensor(*checkpoint_, *spec_, module + ending);
    if (from != nullptr) bytes += from->bytes;
  }
  const int64_t rows = part.stored_shape.empty() ? part.rows() : part.stored_rows();
  return bytes * static_cast<uint64_t>(part.rows()) /
         static_cast<uint64_t>(std::max(rows, part.rows()));
}

void WeightReader::read_block(const WeightSpec& weight, const Block& block, DType dtype,
                              void* to) const {
  assert(block.row >= 0 && block.row + block.rows <= weight.matrices() * weight.rows());
  const int64_t row_bytes = block.columns * static_cast<int64_t>(dtype_size(dtype));
  auto* const out = static_cast<std::byte*>(to);
  if (is_absent(*checkpoint_, *spec_, weight)) {
    std::memset(out, 0, static_cast<size_t>(block.rows * row_bytes));
    return;
  }
  if (!weight.constant.empty()) return copy_constant(weight, block, dtype, out);
  for_each_part(weight, block.row, block.rows,
                [&](const Part& part, int64_t from, int64_t at, int64_t rows) {
                  const TensorEntry& source = tensor(part);
                  std::byte* const here = out + at * row_bytes;
                  const GuardedRead guard(*source.file);
                  copy_rows(source, part, {from, rows, block.column, block.columns}, dtype, here);
                  guard.finish();
                  const auto values = static_cast<size_t>(rows * block.columns);
                  if (model::maps_each(part.mapping)) {
                    if (dtype != DType::f32) throw std::logic_error("a mapped weight is float32");
                    map_values(source, part.mapping, here, values);
                  }
                  if (part.is_changed()) change_values(part, here, dtype, rows, block.columns);
                });
}

}  // namespace plimsoll::checkpoint
