#include "kernels/recurrent_fixture.h"
#include "reference/recurrent.h"

namespace plimsoll::testing {

TEST_CASE("convolutions look back over steps") {
  struct Case {
    int64_t width, taps;
    bool biased;
    Layout layout;
  };
  for (const DType dtype : kActivationTypes)
    for (const Case& c :
         {Case{1, 4, true, kAligned}, Case{37, 3, false, kAligned}, Case{64, 1, true, kAligned},
          Case{72, 3, true, {.gap = 8}}, Case{1100, 4, true, kAligned}, Case{48, 4, false, kOdd},
          Case{16, 16, true, kAligned}}) {
      INFO(torch_name(dtype) << " [" << c.width << "], taps " << c.taps);
      const model::ConvSpec spec{
          .width = c.width, .taps = c.taps, .activation = model::Activation::silu};
      const Parameters weight(c.width * c.taps, DType::bf16, 1), bias(c.width, dtype, 2);
      Matrix matrix(c.width, c.taps);
      matrix.values = weight.numbers();
      const Matrix in = random_rows(c.width, dtype, 3);
      check_steps(
          c.width * (c.taps - 1), c.width, recurrent_tolerance(dtype),
          [&](const RowNumbers& rows, const backend::StateLayer& states, const DeviceBatch& batch) {
            const DeviceRows from(pick(in, rows), dtype, c.layout),
                out(std::ssize(rows), c.width, dtype, c.layout);
            kernels::convolve({.out = out.view(),
                               .in = from.view(),
                               .spec = spec,
                               .weight = weight.vector(),
                               .bias = c.biased ? bias.vector() : Vector{},
                               .states = states},
                              batch, kStream);
            return out.matrix();
          },
          [&](size_t s) {
            return reference::convolve(Sequences::of(in, s), spec, matrix,
                                       c.biased ? bias.numbers() : std::vector<double>());
          });
    }
}

TEST_CASE("a convolution's tiles of several rows") {
  // Wide enough that a step of 57 rows is cut into tiles of more than one.
  constexpr int64_t kWidth = 128 * 1100;
  const model::ConvSpec spec{.width = kWidth, .taps = 4};
  const Parameters weight(kWidth * 4, DType::bf16, 1);
  const Matrix in = random_rows(kWidth, DType::bf16, 3);
  Matrix matrix(kWidth, 4);
  matrix.values = weight.numbers();
  Sequences sequences(kWidth * 3);
  sequences.run(30, [&](const RowNumbers& rows, const DeviceBatch& batch) {
    const DeviceRows from(pick(in, rows), DType::bf16), out(std::ssize(rows), kWidth, DType::bf16);
    kernels::convolve({.out = out.view(),
                       .in = from.view(),
                       .spec = spec,
                       .weight = weight.vector(),
                       .states = sequences.layer()},
                      batch, kStream);
    const Matrix found = out.matrix();
    const Matrix last = reference::convolve(Sequences::of(in, 2), spec, matrix, {});
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t at = rows[i] - Sequences::first_row(2);
      if (at < 0) continue;
      double worst = 0;
      for (int64_t c = 0; c < kWidth; ++c)
        worst = std::max(worst, std::abs(found.at(static_cast<int64_t>(i), c) - last.at(at, c)) /
                                    (1 + std::abs(last.at(at, c))));
      CHECK(worst <= recurrent_tolerance(DType::bf16));
    }
  });
}

}  // namespace plimsoll::testing
