#include <cmath>
#include <cstring>

#include "checkpoint/copy_rows.h"

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

}  // namespace

void map_values(std::byte* values, size_t count) {
  for_each_float(values, count, [](double x) { return -std::exp(x); });
}

void unmap_values(std::byte* values, size_t count) {
  for_each_float(values, count, [](double x) { return std::log(-x); });
}

}  // namespace plimsoll::checkpoint
