// Steps of sequences with recurrent states, for the tests of kernels that carry them.
#pragma once

#include <functional>
#include <numeric>

#include "base/rounding.h"
#include "kernels/fixture.h"
#include "kernels/recurrent/recurrent.h"

namespace plimsoll::testing {

using kernels::DeviceBatch;
using kernels::Vector;

/// Rows of all sequences, one sequence after the other; a step has some of each, and padding rows.
using RowNumbers = std::vector<int64_t>;
inline constexpr int64_t kPadding = -1;

inline Matrix pick(const Matrix& from, const RowNumbers& rows) {
  Matrix picked(std::ssize(rows), from.columns);
  for (int64_t i = 0; i < picked.rows; ++i)
    for (int64_t c = 0; c < from.columns; ++c)
      picked.at(i, c) =
          rows[static_cast<size_t>(i)] < 0 ? 1 : from.at(rows[static_cast<size_t>(i)], c);
  return picked;
}

/// Sequences of unequal lengths whose rows come in pieces, in slots full of what others left there.
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
  /// Calls op(rows, batch) for steps of at most `cut` rows of each sequence; after the last
  /// sequence comes one of padding.
  void run(int64_t cut, const Op& op) {
    for (int64_t first = 0; first < kLengths[2]; first += cut) step(first, cut, op);
  }
  [[nodiscard]] backend::StateLayer layer() const {
    return {reinterpret_cast<std::byte*>(states_.data()),
            static_cast<size_t>(stride_) * sizeof(float), kOffset * sizeof(float)};
  }
  /// Checks that nothing was written to the slot that no sequence has, nor between states.
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

/// Runs the op over steps of several sizes: equal bits in all, each sequence as `expected` within
/// `bound`, numbers for padding too.
inline void check_steps(int64_t floats, int64_t columns, double bound, const StepOp& op,
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

/// Tolerance: rounding of the result, and sums of up to some hundred products in float, through
/// states that are multiplied by numbers below 1.
inline double recurrent_tolerance(DType dtype) {
  return 1.01 * epsilon(dtype) + 4e-6;
}

inline Matrix random_rows(int64_t columns, DType dtype, uint32_t seed) {
  return random_matrix(Sequences::kRows, columns, dtype, seed);
}

}  // namespace plimsoll::testing
