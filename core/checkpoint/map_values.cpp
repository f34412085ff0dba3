#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "checkpoint/copy_rows.h"
#include "checkpoint/mapped_file.h"

namespace plimsoll::checkpoint {
namespace {

template <typename F>
void for_each_float(std::byte* values, size_t count, F f) {
  for (size_t i = 0; i < count; ++i) {
    float value = 0;
    std::memcpy(&value, values + i * sizeof value, sizeof value);
    value = static_cast<float>(f(static_cast<double>(value)));
    std::memcpy(values + i * sizeof value, &value, sizeof value);
  }
}

/// The last bit of the sum that vLLM divides depends on the processor; here it is rounded right.
float mean_of(const TensorEntry& tensor) {
  std::vector<float> values(tensor.bytes / dtype_size(tensor.dtype));
  const GuardedRead guard(*tensor.file);
  convert(tensor.data, tensor.dtype, values.data(), DType::f32, values.size());
  guard.finish();
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const auto count = static_cast<double>(std::max<size_t>(1, values.size()));
  return rounded(static_cast<float>(sum / count), tensor.dtype);
}

}  // namespace

void map_values(const TensorEntry& tensor, model::Mapping mapping, std::byte* values,
                size_t count) {
  switch (mapping) {
    case model::Mapping::none:
    case model::Mapping::unit_rows:  // of whole rows: change_values()
      return;
    case model::Mapping::minus_exp:
      return for_each_float(values, count, [](double x) { return -std::exp(x); });
    case model::Mapping::log_minus:
      return unmap_values(values, count);
    case model::Mapping::less_mean: {
      const double mean = mean_of(tensor);
      return for_each_float(values, count, [&](double x) {
        return rounded(static_cast<float>(x - mean), tensor.dtype);
      });
    }
  }
}

void unmap_values(std::byte* values, size_t count) {
  for_each_float(values, count, [](double x) { return std::log(-x); });
}

}  // namespace plimsoll::checkpoint
