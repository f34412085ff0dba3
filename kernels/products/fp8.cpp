#include "kernels/products/fp8.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/products/unpack_fp8.h"
#include "kernels/rows/random.h"
#include "kernels/rows/rows.h"
#include "kernels/runtime/cuda_error.h"
#include "memory/arena.h"

namespace plimsoll::kernels {
namespace {

using backend::cuda::Fp8Product;
using backend::cuda::kFp8Rows;
using model::Activation;

/// Both ways round rows to the same codes. The packed kernel rounds a code times its scale once
/// more, to 8 bits of bf16, and both round results: relative to all of them 2^-9 times a few.
constexpr double kLargestDifference = 0x1p-6;
/// An odd count too: scales of groups lie as far apart as there are rows.
constexpr std::array<int64_t, 2> kComparedRows{kFp8Rows, kFp8Rows + 3};
constexpr int kRounds = 3;

RoundInputs rows_of(const Fp8Linear& op) {
  const model::InputRounding rounding = op.part.packing->inputs;
  RoundInputs rows{.out = {}, .in = op.in, .rounding = rounding};
  if (model::has_input_scale(rounding))
    rows.scale = reinterpret_cast<const model::InputScale*>(op.part.data + op.part.layout.input);
  rows.most = op.shared.most;
  rows.most_count = op.shared.count;
  return rows;
}

}  // namespace

bool Fp8Products::multiply(const Fp8Linear& op) const {
  const backend::cuda::PackedMatrix& layout = op.part.layout;
  const Fp8Product at(layout, *op.part.packing, op.in.rows, op.weight_bytes);
  auto* const codes = reinterpret_cast<unsigned char*>(op.workspace + at.codes);
  auto* const scales = reinterpret_cast<float*>(op.workspace + at.scales);
  auto* const weight = reinterpret_cast<unsigned char*>(op.workspace + at.weight);
  const bool groups = at.groups > 1;
  auto* const turned = groups ? reinterpret_cast<float*>(op.workspace + at.weight_scales) : nullptr;
  const auto* own = reinterpret_cast<const float*>(op.part.data + layout.scales);
  const bool fuses =
      op.bias.data != nullptr && op.bias.dtype == op.out.dtype && dtype_size(op.out.dtype) == 2;
  quantize_rows(rows_of(op), {codes, scales}, stream_);
  for (int64_t first = 0; first < layout.rows; first += at.outputs) {
    const int64_t count = std::min(at.outputs, layout.rows - first);
    unpack_fp8({op.part, first, count, weight, turned}, stream_);
    const auto* bias = static_cast<const std::byte*>(op.bias.data);
    const bool made = products_.run_scaled(
        {.out = op.out.slice_columns(first, count),
         .in = codes,
         .weight = weight,
         .k = layout.columns,
         .in_scales = scales,
         .weight_scales = groups ? turned : own + first,
         .scaling = groups ? Scaling::groups : Scaling::outer,
         .bias = fuses ? bias + static_cast<size_t>(first) * dtype_size(op.bias.dtype) : nullptr});
    if (!made) return false;
  }
  const Vector rest = fuses ? Vector{} : op.bias;
  if (rest.data != nullptr || op.activation != Activation::none)
    bias_activation(op.out, rest, op.activation, stream_);
  return true;
}

bool Fp8Products::Known::is(const Fp8Linear& op) const {
  return n == op.part.layout.rows && k == op.part.layout.columns &&
         inputs == op.part.packing->inputs && in == op.in.dtype && out == op.out.dtype &&
         biased == (op.bias.data != nullptr);
}

Fp8Products::Known& Fp8Products::find(const Fp8Linear& op) {
  const auto found = std::ranges::find_if(known_, [&](const Known& one) { return one.is(op); });
  if (found != known_.end()) return *found;
  return known_.emplace_back(Known{.n = op.part.layout.rows,
                                   .k = op.part.layout.columns,
                                   .inputs = op.part.packing->inputs,
                                   .in = op.in.dtype,
                                   .out = op.out.dtype,
                                   .biased = op.bias.data != nullptr,
                                   .first = op});
}

bool Fp8Products::run(const Fp8Linear& op) {
  if (op.in.rows < kFp8Rows) return false;
  Known& known = find(op);
  known.most_rows = std::max(known.most_rows, op.in.rows);
  return op.in.rows >= known.from_rows && multiply(op);
}

/// A product both ways, of rows of random numbers.
class Fp8Products::Trial {
 public:
  Trial(const Known& known, std::span<std::byte> scratch, cudaStream_t stream)
      : op_(known.first), stream_(stream) {
    rows_ = known.most_rows;
    while (rows_ >= kFp8Rows && lay_out(rows_, nullptr) > scratch.size()) rows_ /= 2;
    if (rows_ < kFp8Rows) return;
    (void)lay_out(rows_, scratch.data());
    op_.shared = {};
    fill_random(op_.in.data, op_.in.dtype, rows_ * op_.in.columns, 1, 1, stream);
  }
  /// Rows that find room in the scratch; fewer than kFp8Rows: none do.
  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] Fp8Linear of(int64_t rows) const {
    Fp8Linear op = op_;
    op.in.rows = op.out.rows = rows;
    return op;
  }
  void by_packed(int64_t rows) const {
    const Fp8Linear op = of(rows);
    View out = packed_out_;
    out.rows = rows;
    PackedInputs inputs(op.in, rewritten_, stream_);
    packed_linear({.out = out,
                   .in = inputs.rows_for(op.part),
                   .part = op.part,
                   .bias = op.bias,
                   .activation = op.activation},
                  stream_);
  }
  /// Relative difference between both products in the first `rows` rows.
  [[nodiscard]] double difference(int64_t rows) const {
    double differs = 0, all = 0;
    const std::vector<float> found = download(op_.out, rows), packed = download(packed_out_, rows);
    for (size_t i = 0; i < found.size(); ++i) {
      differs += std::pow(double{found[i]} - double{packed[i]}, 2);
      all += std::pow(double{packed[i]}, 2);
    }
    return all > 0 ? std::sqrt(differs / all) : std::numeric_limits<double>::infinity();
  }

 private:
  /// Lays out all parts; returns their bytes. With a null `at` they are only counted.
  size_t lay_out(int64_t rows, std::byte* at) {
    size_t end = 0;
    const auto take = [&](size_t bytes) {
      std::byte* const here = at == nullptr ? nullptr : at + end;
      end += memory::Arena::aligned(bytes);
      return here;
    };
    const auto view = [&](int64_t columns, DType dtype) {
      const auto bytes = static_cast<size_t>(rows * columns) * dtype_size(dtype);
      return View{take(bytes), dtype, rows, columns, columns};
    };
    const int64_t k = op_.part.layout.columns, n = op_.part.layout.rows;
    op_.in = view(k, op_.in.dtype);
    op_.out = view(n, op_.out.dtype);
    packed_out_ = view(n, op_.out.dtype);
    rewritten_ = static_cast<std::byte*>(view(k, op_.in.dtype).data);
    op_.workspace = take(Fp8Product(op_.part.layout, *op_.part.packing, rows).bytes);
    return end;
  }
  [[nodiscard]] std::vector<float> download(const View& view, int64_t rows) const {
    const auto count = static_cast<size_t>(rows * view.columns);
    std::vector<std::byte> bytes(count * dtype_size(view.dtype));
    copy_to_host(bytes.data(), view.data, bytes.size(), stream_);
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    std::vector<float> values(count);
    convert(bytes.data(), view.dtype, values.data(), DType::f32, count);
    return values;
  }

  Fp8Linear op_;
  View packed_out_{};
  std::byte* rewritten_ = nullptr;
  cudaStream_t stream_;
  int64_t rows_ = 0;
};

void Fp8Products::tune(std::span<std::byte> scratch) {
  for (Known& known : known_) {
    if (!known.tried) try_both(known, scratch);
  }
}

void Fp8Products::try_both(Known& known, std::span<std::byte> scratch) {
  known.tried = true;
  const Trial trial(known, scratch, stream_);
  if (trial.rows() < kFp8Rows) return;
  for (const int64_t rows : kComparedRows) {
    if (rows > trial.rows()) continue;
    if (!multiply(trial.of(rows))) return;
    trial.by_packed(rows);
    if (!(trial.difference(rows) < kLargestDifference)) return;
  }
  const auto seconds = [&](const auto& make) {
    make();
    start_.record(stream_);
    for (int round = 0; round < kRounds; ++round) make();
    end_.record(stream_);
    end_.wait();
    return end_.seconds_since(start_);
  };
  // Trials go from the most rows down, for as long as fp8 is faster.
  for (size_t bucket = row_bucket(known.most_rows) + 1; bucket-- > row_bucket(kFp8Rows);) {
    const int64_t rows = std::min(kRowBuckets[bucket], trial.rows());
    bool made = true;
    const double fp8 = seconds([&] { made = made && multiply(trial.of(rows)); });
    if (!made || fp8 >= seconds([&] { trial.by_packed(rows); })) return;
    known.from_rows = bucket == 0 ? 1 : std::max(kFp8Rows, kRowBuckets[bucket - 1] + 1);
  }
}

}  // namespace plimsoll::kernels
