#include "quantization/formats/stored_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "base/error.h"
#include "base/float8.h"

namespace plimsoll::quantization {
namespace {

std::string show(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string quoted(const std::string& name) {
  constexpr size_t kShown = 200;
  return "\"" + name.substr(0, kShown) + "\"";
}

[[noreturn]] void never(const char* what) {
  throw std::logic_error(fmt::format("a packing without {} was asked for them", what));
}

float stored_number(const StoredTensor& tensor, int64_t i) {
  const std::byte* at = tensor.data + i * static_cast<int64_t>(dtype_size(tensor.dtype));
  switch (tensor.dtype) {
    case DType::f8_e4m3:
      return e4m3_to_float(static_cast<uint8_t>(*at));
    case DType::u8:
    case DType::f8_e8m0:
      return e8m0_to_float(static_cast<uint8_t>(*at));
    default: {
      float value = 0;
      convert(at, tensor.dtype, &value, DType::f32, 1);
      return value;
    }
  }
}

}  // namespace

int64_t StoredTensor::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

float StoredTensor::number(int64_t i) const {
  const float value = stored_number(*this, i);
  if (std::isfinite(value)) return value;
  fail(ExitCode::checkpoint_unusable,
       "tensor {} has a scale that is no finite number (element {}); the checkpoint is damaged, or "
       "was quantized from weights that were",
       quoted(name), i);
}

StoredRows::StoredRows(const model::Packing& packing, const StoredMatrix& matrix)
    : packing_(packing), matrix_(matrix) {
  const int64_t group = packing.group;
  if (matrix.inputs.count == 0) matrix_.inputs = {0, matrix.columns};
  if (group <= 0 || matrix.columns % group == 0 || packing.format == model::PackedFormat::fp8)
    return;
  fail(ExitCode::checkpoint_unusable,
       "{}: its {} inputs are no multiple of the groups of {} that the quantization configuration "
       "states",
       matrix.module, matrix.columns, group);
}

void StoredRows::refuse(const std::string& tensor, const std::string& what) const {
  fail(ExitCode::checkpoint_unusable,
       "tensor {} {} (a quantized matrix [{}, {}], from config.json)", quoted(tensor), what, rows(),
       columns());
}

StoredTensor StoredRows::require(const std::string& ending, std::initializer_list<DType> dtypes,
                                 const Shape& shape) const {
  const std::optional<StoredTensor> found = matrix_.find(ending);
  if (!found) {
    const std::optional<StoredTensor> plain = matrix_.find("weight");
    fail(ExitCode::checkpoint_unusable,
         "the checkpoint lacks tensor \"{}.{}\", which its quantization needs, shape {}{}",
         matrix_.module, ending, show(shape),
         plain && dtype_size(plain->dtype) > 1
             ? fmt::format("; the file holds plain weights ({}): take quantization_config out of "
                           "config.json",
                           safetensors_name(plain->dtype))
             : "");
  }
  if (std::ranges::find(dtypes, found->dtype) == dtypes.end()) {
    std::vector<std::string_view> names;
    for (const DType dtype : dtypes) names.push_back(safetensors_name(dtype));
    refuse(found->name, fmt::format("has dtype {}; expected {}", safetensors_name(found->dtype),
                                    fmt::join(names, " or ")));
  }
  const bool same = std::ranges::equal(
      found->shape, shape, [](int64_t has, int64_t wanted) { return wanted < 0 || has == wanted; });
  if (!same) {
    refuse(found->name, fmt::format("has shape {}; expected {}", show(found->shape), show(shape)));
  }
  return *found;
}

StoredTensor StoredRows::require_scales(const std::string& ending, const Shape& shape) const {
  return require(ending, {DType::f32, DType::f16, DType::bf16}, shape);
}

void StoredRows::copy_scale(const StoredTensor& tensor, int64_t i, std::byte* to) const {
  const float value = tensor.number(i);
  if (packing_.scale == model::ScaleType::f32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const auto size = static_cast<int64_t>(dtype_size(tensor.dtype));
  std::memcpy(to, tensor.data + i * size, static_cast<size_t>(size));
}

float StoredRows::single(const std::string& ending) const {
  const std::optional<StoredTensor> tensor = matrix_.find(ending);
  if (!tensor) (void)require(ending, {DType::f32}, {});
  if (tensor->dtype != DType::f32 && tensor->dtype != DType::f16 && tensor->dtype != DType::bf16) {
    refuse(tensor->name,
           fmt::format("has dtype {}; expected F32", safetensors_name(tensor->dtype)));
  }
  if (tensor->elements() != 1) {
    refuse(tensor->name, fmt::format("has shape {}; expected one value", show(tensor->shape)));
  }
  float value = 0;
  tensor->guarded([&] { value = tensor->number(0); });
  return value;
}

std::vector<int32_t> StoredRows::read_input_groups(const std::string& ending) const {
  const StoredTensor tensor = require(ending, {DType::i32}, {columns()});
  std::vector<int32_t> groups(static_cast<size_t>(columns()));
  tensor.guarded([&] { std::memcpy(groups.data(), tensor.data, groups.size() * 4); });
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] >= 0 && groups[i] < this->groups()) continue;
    refuse(tensor.name,
           fmt::format("puts input {} into group {}, of {}", i, groups[i], this->groups()));
  }
  return groups;
}

void StoredRows::zeros(int64_t, int64_t, uint8_t*) const {
  never("zero points");
}
void StoredRows::factors(int64_t, int64_t, float*) const {
  never("factors");
}
void StoredRows::table(std::span<float, 16>) const {
  never("numbers");
}
void StoredRows::nested(model::NestedScales&) const {
  never("nested scales");
}
void StoredRows::input_groups(int32_t* to) const {
  std::copy_n(input_groups_.begin() + first_input(), inputs(), to);
}

model::ScaleType scale_type(DType stored) {
  switch (stored) {
    case DType::f16:
      return model::ScaleType::f16;
    case DType::bf16:
      return model::ScaleType::bf16;
    default:
      return model::ScaleType::f32;
  }
}

model::ScaleType scale_type_of(const FindTensor& find, const std::string& ending) {
  const std::optional<StoredTensor> tensor = find(ending);
  return tensor ? scale_type(tensor->dtype) : model::ScaleType::f16;
}

}  // namespace plimsoll::quantization
