#include "kernels/recurrent/recurrent.h"

#include <functional>
#include <numeric>

#include "base/rounding.h"
#include "kernels/fixture.h"
#include "reference/recurrent.h"

namespace plimsoll::testing {
namespace {

using kernels::DeviceBatch;
using kernels::Vector;

/// Rows of all sequences, one behind the other; a step has some of each, and padding's.
using RowNumbers = std::vector<int64_t>;
constexpr int64_t kPadding = -1;

Matrix pick(const Matrix& from, const RowNumbers& rows) {
  Matrix picked(std::ssize(rows), from.columns);
  for (int64_t i = 0; i < picked.rows; ++i)
    for (int64_t c = 0; c < from.columns; ++c)
      picked.at(i, c) =
          rows[static_cast<size_t>(i)] < 0 ? 1 : from.at(rows[static_cast<size_t>(i)], c);
  return picked;
}

/// Sequences of unlike lengths whose rows come in pieces, in slots full of what others left there.
class Sequences {
 public:
  static constexpr int64_t kLengths[] = {21, 2, 34};
  static constexpr int32_t kSlots[] = {3, 0, 1};
  static constexpr int64_t kRows = 21 + 2 + 34;

  explicit Sequences(int64_t floats)
      : floats_(floats),
        stride_(round_up(kOffset + floats + 1, kAlignment)),
        states_(std::vector<float>(static_cast<size_t>(4 * stride_), 9.f)) {}

  using Op = std::function<void(const RowNumbers&, const DeviceBatch&)>;
  /// op(rows, batch) for steps of at most `cut` rows of each sequence, behind whose last sequence
  /// is one of padding.
  void run(int64_t cut, const Op& op) {
    for (int64_t first = 0; first < kLengths[2]; first += cut) step(first, cut, op);
  }
  [[nodiscard]] backend::StateLayer layer() const {
    return {reinterpret_cast<std::byte*>(states_.data()),
            static_cast<size_t>(stride_) * sizeof(float), kOffset * sizeof(float)};
  }
  /// Nothing was written to the slot that nobody has, nor between states.
  void check_others() const {
    const std::vector<float> now = states_.download();
    bool intact = true;
    for (size_t i = 0; i < now.size(); ++i) {
      const auto slot = static_cast<int64_t>(i) / stride_, at = static_cast<int64_t>(i) % stride_;
      const bool own = slot != 2 && at >= kOffset && at < kOffset + floats_;
      intact = intact && (own || now[i] == 9.f);
    }
    CHECK(intact);
  }
  static Matrix of(const Matrix& all, size_t sequence) {
    RowNumbers rows(static_cast<size_t>(kLengths[sequence]));
    std::iota(rows.begin(), rows.end(), first_row(sequence));
    return pick(all, rows);
  }
  static int64_t first_row(size_t sequence) {
    return std::accumulate(kLengths, kLengths + sequence, int64_t{0});
  }

 private:
  static constexpr int64_t kAlignment = 64;  // floats, as the engine lays out slots
  static constexpr int64_t kOffset = kAlignment;

  void step(int64_t first, int64_t cut, const Op& op) {
    std::vector<int32_t> positions, row_sequence, starts = {0}, lengths, slots;
    RowNumbers rows;
    for (size_t s = 0; s < std::size(kLengths); ++s) {
      const int64_t end = std::min(first + cut, kLengths[s]);
      if (first >= end) continue;
      for (int64_t i = first; i < end; ++i) {
        positions.push_back(static_cast<int32_t>(i));
        row_sequence.push_back(static_cast<int32_t>(lengths.size()));
        rows.push_back(first_row(s) + i);
      }
      starts.push_back(static_cast<int32_t>(rows.size()));
      lengths.push_back(static_cast<int32_t>(end));
      slots.push_back(kSlots[s]);
    }
    positions.push_back(0);
    row_sequence.push_back(-1);
    rows.push_back(kPadding);
    starts.push_back(static_cast<int32_t>(rows.size()));
    lengths.push_back(0);
    slots.push_back(0);
    const DeviceArray<int32_t> device_positions(positions), device_rows(row_sequence),
        device_starts(starts), device_lengths(lengths), device_slots(slots);
    op(rows, {.positions = device_positions.data(),
              .row_sequence = device_rows.data(),
              .query_start = device_starts.data(),
              .context_length = device_lengths.data(),
              .state_slots = device_slots.data(),
              .rows = std::ssize(positions),
              .sequences = std::ssize(lengths)});
  }

  int64_t floats_, stride_;
  DeviceArray<float> states_;
};

using StepOp =
    std::function<Matrix(const RowNumbers&, const backend::StateLayer&, const DeviceBatch&)>;

/// The op over steps of several sizes: the same bits in all, each sequence as `expected` within
/// `bound`, numbers for padding too.
void check(int64_t floats, int64_t columns, double bound, const StepOp& op,
           const std::function<Matrix(size_t)>& expected) {
  in_each_order([&] {
    Matrix whole(0, columns);
    for (const int64_t cut : {Sequences::kRows, int64_t{9}, int64_t{1}}) {
      INFO("cut to " << cut);
      Sequences sequences(floats);
      Matrix out(Sequences::kRows, columns);
      sequences.run(cut, [&](const RowNumbers& rows, const DeviceBatch& batch) {
        const Matrix some = op(rows, sequences.layer(), batch);
        for (int64_t i = 0; i < some.rows; ++i)
          for (int64_t c = 0; c < columns; ++c) {
            const int64_t row = rows[static_cast<size_t>(i)];
            if (row == kPadding) REQUIRE(std::isfinite(some.at(i, c)));
            if (row != kPadding) out.at(row, c) = some.at(i, c);
          }
      });
      sequences.check_others();
      if (whole.rows == 0) {
        whole = out;
        for (size_t s = 0; s < std::size(Sequences::kLengths); ++s)
          CHECK(largest_error(Sequences::of(out, s), expected(s), 1) <= bound);
      }
      CHECK(out.values == whole.values);
    }
  });
}

/// A vector of parameters on the device.
struct Parameters {
  Parameters(int64_t count, DType type, uint32_t seed, double size = 1)
      : values(random_matrix(1, count, type, seed, size)), dtype(type), rows(values, type) {}
  [[nodiscard]] Vector vector() const { return {rows.view().data, dtype}; }
  [[nodiscard]] const std::vector<double>& numbers() const { return values.values; }

  Matrix values;
  DType dtype;
  DeviceRows rows;
};

/// Rounding of the result, and sums of up to some hundred products in float on the way, through
/// states that are multiplied by numbers below 1.
double tolerance(DType dtype) {
  return 1.01 * epsilon(dtype) + 4e-6;
}

Matrix random_rows(int64_t columns, DType dtype, uint32_t seed) {
  return random_matrix(Sequences::kRows, columns, dtype, seed);
}

}  // namespace

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
      check(
          c.width * (c.taps - 1), c.width, tolerance(dtype),
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
      CHECK(worst <= tolerance(DType::bf16));
    }
  });
}

namespace {

struct ScanCase {
  model::RecurrentSpec spec;
  Layout layout = kAligned;
  DType vectors = DType::f32;
};

void check_scan(const ScanCase& c, DType dtype) {
  const model::RecurrentSpec& spec = c.spec;
  const bool each = spec.kind == model::RecurrentKind::mamba1;
  const bool steps = spec.kind != model::RecurrentKind::linear;
  Parameters decay(spec.heads * (each ? spec.state : 1), c.vectors, 1, 0.3);
  for (double& a : decay.values.values) a = -std::abs(a);
  decay.rows.upload(decay.values);
  const Parameters skip(spec.heads, dtype, 2), bias(spec.heads, dtype, 3);
  const int64_t shared = spec.groups * spec.state;
  // Sums of squares of a state's size: of size 1, as what models have.
  const double size = 1 / std::sqrt(double(spec.state));
  const Matrix x = random_rows(spec.width(), dtype, 4), step = random_rows(spec.heads, dtype, 5);
  const Matrix b = random_rows(shared, dtype, 6);
  const Matrix c_of_all = random_matrix(Sequences::kRows, shared, dtype, 7, size);
  check(
      spec.state_floats(), spec.width(), tolerance(dtype),
      [&](const RowNumbers& rows, const backend::StateLayer& states, const DeviceBatch& batch) {
        const DeviceRows x_of(pick(x, rows), dtype, c.layout),
            step_of(pick(step, rows), dtype, c.layout), b_of(pick(b, rows), dtype, c.layout),
            c_of(pick(c_of_all, rows), dtype, c.layout),
            out(std::ssize(rows), spec.width(), dtype, c.layout);
        kernels::selective_scan(
            {.out = out.view(),
             .in = {x_of.view(), steps ? step_of.view() : View{}, b_of.view(), c_of.view()},
             .spec = &spec,
             .decay = decay.vector(),
             .decays_each = each,
             .skip = steps ? skip.vector() : Vector{},
             .step_bias = steps ? bias.vector() : Vector{},
             .states = states},
            batch, kStream);
        return out.matrix();
      },
      [&](size_t s) {
        const std::vector<double> none;
        return reference::selective_scan(
            {Sequences::of(x, s), steps ? Sequences::of(step, s) : Matrix(0, 0),
             Sequences::of(b, s), Sequences::of(c_of_all, s), decay.numbers(),
             steps ? skip.numbers() : none, steps ? bias.numbers() : none},
            spec);
      });
}

using model::RecurrentKind;

/// heads, head_dim, groups, state.
model::RecurrentSpec sizes(RecurrentKind kind, int64_t heads, int64_t head_dim, int64_t groups,
                           int64_t state) {
  return {.kind = kind, .heads = heads, .head_dim = head_dim, .groups = groups, .state = state};
}

}  // namespace

TEST_CASE("selective scans decay by number or by head") {
  const ScanCase cases[] = {
      {sizes(RecurrentKind::mamba1, 70, 1, 1, 16)},
      {sizes(RecurrentKind::mamba1, 37, 1, 1, 16), kOdd, DType::bf16},
      {sizes(RecurrentKind::mamba1, 21, 1, 3, 10)},
      {sizes(RecurrentKind::mamba1, 18, 1, 1, 130)},
      {sizes(RecurrentKind::mamba2, 6, 5, 3, 19)},
      {sizes(RecurrentKind::mamba2, 4, 8, 2, 12), {.gap = 4}},
      {sizes(RecurrentKind::mamba2, 2, 64, 1, 128)},
      {sizes(RecurrentKind::mamba2, 3, 32, 1, 64), kOdd},
      {sizes(RecurrentKind::mamba2, 2, 16, 2, 256)},
      {sizes(RecurrentKind::linear, 3, 21, 3, 21)},
      {sizes(RecurrentKind::linear, 2, 96, 2, 96)},
  };
  for (const DType dtype : kActivationTypes)
    for (const ScanCase& c : cases) {
      INFO(torch_name(dtype) << ", " << c.spec.heads << " heads of " << c.spec.head_dim
                             << ", states of " << c.spec.state);
      check_scan(c, dtype);
    }
}

TEST_CASE("the gated delta rule forgets, corrects and reads") {
  struct Case {
    model::RecurrentSpec spec;
    bool biased;
    Layout layout;
  };
  model::RecurrentSpec doubled = sizes(RecurrentKind::gated_delta, 2, 128, 2, 64);
  doubled.beta_factor = 2;
  const Case cases[] = {
      {sizes(RecurrentKind::gated_delta, 4, 37, 2, 21), true, kAligned},
      {doubled, false, kAligned},
      {sizes(RecurrentKind::gated_delta, 4, 40, 1, 128), true, {.gap = 4}},
      {sizes(RecurrentKind::gated_delta, 1, 32, 1, 200), true, kOdd},
      {sizes(RecurrentKind::channel_delta, 3, 19, 3, 19), true, kAligned},
      {sizes(RecurrentKind::channel_delta, 1, 40, 1, 128), true, kAligned},
  };
  for (const DType dtype : kActivationTypes)
    for (const Case& c : cases) {
      const model::RecurrentSpec& spec = c.spec;
      INFO(torch_name(dtype) << ", " << spec.heads << " heads of " << spec.head_dim << ", keys of "
                             << spec.state);
      const int64_t decays =
          spec.heads * (spec.kind == RecurrentKind::channel_delta ? spec.state : 1);
      const Parameters decay(spec.heads, DType::f32, 1), bias(decays, dtype, 3);
      const int64_t keys = spec.groups * spec.state;
      const Matrix q = random_rows(keys, dtype, 4), k = random_rows(keys, dtype, 5);
      const Matrix v = random_rows(spec.width(), dtype, 6);
      const Matrix beta = random_rows(spec.heads, dtype, 7), step = random_rows(decays, dtype, 8);
      check(
          spec.state_floats(), spec.width(), tolerance(dtype),
          [&](const RowNumbers& rows, const backend::StateLayer& states, const DeviceBatch& batch) {
            const auto of = [&](const Matrix& all) { return pick(all, rows); };
            const DeviceRows q_of(of(q), dtype, c.layout), k_of(of(k), dtype, c.layout),
                v_of(of(v), dtype, c.layout), beta_of(of(beta), dtype, c.layout),
                step_of(of(step), dtype, c.layout),
                out(std::ssize(rows), spec.width(), dtype, c.layout);
            kernels::gated_delta(
                {.out = out.view(),
                 .in = {q_of.view(), k_of.view(), v_of.view(), beta_of.view(), step_of.view()},
                 .spec = &spec,
                 .decay_log = decay.vector(),
                 .step_bias = c.biased ? bias.vector() : Vector{},
                 .states = states},
                batch, kStream);
            return out.matrix();
          },
          [&](size_t s) {
            return reference::gated_delta(
                {Sequences::of(q, s), Sequences::of(k, s), Sequences::of(v, s),
                 Sequences::of(beta, s), Sequences::of(step, s), decay.numbers(),
                 c.biased ? bias.numbers() : std::vector<double>()},
                spec);
          });
    }
}

TEST_CASE("gated linear recurrences take each channel by itself") {
  for (const DType dtype : kActivationTypes)
    for (const int64_t channels : {1, 21, 64}) {
      INFO(torch_name(dtype) << ", heads of " << channels);
      const model::RecurrentSpec spec = sizes(RecurrentKind::gated_linear, 3, channels, 3, 1);
      // Decays near 1 and near 0: softplus of -6 to 2.
      const Parameters decay(spec.width(), DType::f32, 1, 2);
      const Matrix x = random_rows(spec.width(), dtype, 2);
      const Matrix gates = random_rows(2 * spec.width(), dtype, 3);
      check(
          spec.width(), spec.width(), tolerance(dtype),
          [&](const RowNumbers& rows, const backend::StateLayer& states, const DeviceBatch& batch) {
            const DeviceRows x_of(pick(x, rows), dtype), gates_of(pick(gates, rows), dtype, kOdd),
                out(std::ssize(rows), spec.width(), dtype, kOdd);
            kernels::linear_recurrence({.out = out.view(),
                                        .in = {x_of.view(), gates_of.view()},
                                        .head_dim = spec.head_dim,
                                        .decay = decay.vector(),
                                        .states = states},
                                       batch, kStream);
            return out.matrix();
          },
          [&](size_t s) {
            return reference::linear_recurrence(
                {Sequences::of(x, s), Sequences::of(gates, s), decay.numbers()}, spec);
          });
    }
}

}  // namespace plimsoll::testing
