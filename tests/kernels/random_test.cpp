#include "kernels/rows/random.h"

#include "kernels/fixture.h"

namespace plimsoll::testing {

TEST_CASE("random numbers are uniform, and those of their seed and place") {
  constexpr int64_t kCount = 20000;
  for (const DType dtype : kActivationTypes) {
    INFO(torch_name(dtype));
    const DeviceRows all(1, kCount, dtype), part(1, 77, dtype), other(1, kCount, dtype);
    kernels::fill_random(all.view().data, dtype, kCount, 5, 0.5f, kStream);
    kernels::fill_random(part.view().data, dtype, 77, 5, 0.5f, kStream);
    kernels::fill_random(other.view().data, dtype, kCount, 6, 0.5f, kStream);
    const Matrix numbers = all.matrix(), others = other.matrix(), few = part.matrix();
    double mean = 0, square = 0, product = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const double x = numbers.values[i];
      REQUIRE((x >= -0.5 && x <= 0.5));  // 0.5 by rounding
      mean += x / kCount;
      square += x * x / kCount;
      product += x * others.values[i] / kCount;
    }
    // Five standard deviations of the means of 20,000 numbers.
    CHECK(mean == Approx(0).margin(5 * 0.289 / std::sqrt(kCount)));
    CHECK(square == Approx(1. / 12).margin(5 * 0.0745 / std::sqrt(kCount)));
    CHECK(product == Approx(0).margin(5 * 0.0833 / std::sqrt(kCount)));
    for (int64_t i = 0; i < 77; ++i) CHECK(few.at(0, i) == numbers.at(0, i));
  }
}

}  // namespace plimsoll::testing
