#include "engine/ranks/shared_team.h"

#include <algorithm>
#include <cstring>

#include "base/rounding.h"

namespace plimsoll::engine {

class SharedTeam::End final : public TensorRanks {
 public:
  End(SharedTeam& team, int64_t rank) : team_(team), rank_(rank) {}

  [[nodiscard]] int64_t rank() const override { return rank_; }
  [[nodiscard]] int64_t ranks() const override { return std::ssize(team_.shown_); }

  void all_reduce_sum(backend::View values) override {
    join(values, [](float a, float b) { return a + b; });
  }

  void all_reduce_max(backend::View values) override {
    join(values, [](float a, float b) { return b > a ? b : a; });
  }

  void all_gather_rows(backend::View rows, std::span<const int32_t> owners) override {
    team_.show(rank_, rows);
    const size_t bytes = rows.columns * dtype_size(rows.dtype);
    for (int64_t t = 0; t < rows.rows; ++t) {
      const int64_t owner = owners[t];
      if (owner != rank_) std::memcpy(team_.row(rank_, t), team_.row(owner, t), bytes);
    }
    team_.barrier();
  }

  void share_columns(backend::View columns, backend::View all) override {
    const int64_t own = columns.columns, first = first_column(own, all.columns);
    const size_t element = dtype_size(columns.dtype), bytes = own * element;
    for (int64_t t = 0; t < columns.rows; ++t) {
      std::memcpy(all.slice_columns(first, own).slice_rows(t, 1).data,
                  columns.slice_rows(t, 1).data, bytes);
    }
    team_.show(rank_, all);
    const int64_t alike = own * ranks() / all.columns;  // ranks that have the same columns
    for (int64_t column = 0; column < all.columns; column += own) {
      if (column == first) continue;
      const size_t at = column * element;
      for (int64_t t = 0; t < all.rows; ++t) {
        std::memcpy(team_.row(rank_, t) + at, team_.row(column / own * alike, t) + at, bytes);
      }
    }
    team_.barrier();
  }

  void gather_columns(backend::View columns, backend::View all) override {
    team_.show(rank_, all);
    const size_t element = dtype_size(columns.dtype);
    const int64_t first = std::min(all.columns, rank_ * columns.columns);
    const int64_t count = std::min(all.columns - first, columns.columns);
    for (int64_t t = 0; t < columns.rows; ++t) {
      std::memcpy(team_.row(0, t) + first * element, columns.slice_rows(t, 1).data,
                  count * element);
    }
    team_.barrier();
  }

 private:
  // Each rank joins its share of the elements for all of them, in a tree of pairs.
  template <typename F>
  void join(const backend::View& values, const F& f) {
    constexpr int64_t kLine = 16;  // floats
    const int64_t count = values.rows * values.columns;
    if (count == 0) return;  // on all: a step of which no logits are wanted ends so
    const int64_t share = round_up(divide_up(count, ranks()), kLine);
    const int64_t first = std::min(count, rank_ * share);
    const int64_t own = std::min(count, first + share) - first;
    const auto at = [&](int64_t rank) {
      return reinterpret_cast<float*>(team_.row(rank, 0)) + first;
    };
    team_.show(rank_, values);
    for (int64_t step = 1; step < ranks(); step *= 2) {
      for (int64_t to = 0; to < ranks(); to += 2 * step) join_floats(at(to), at(to + step), own, f);
    }
    for (int64_t to = 1; to < ranks(); ++to) {
      std::memcpy(at(to), at(0), own * sizeof(float));
    }
    team_.barrier();
  }

  template <typename F>
  static void join_floats(float* to, const float* from, int64_t count, const F& f) {
    for (int64_t i = 0; i < count; ++i) to[i] = f(to[i], from[i]);
  }

  SharedTeam& team_;
  int64_t rank_;
};

SharedTeam::SharedTeam(int64_t ranks) : shown_(ranks) {
  for (int64_t rank = 0; rank < ranks; ++rank) ends_.push_back(std::make_unique<End>(*this, rank));
}

SharedTeam::~SharedTeam() = default;

void SharedTeam::show(int64_t rank, const backend::View& matrix) {
  if (matrix.stride != matrix.columns) {
    throw std::logic_error("ranks share a matrix with gaps between its rows");
  }
  shown_[rank] = matrix;
  barrier();
}

std::byte* SharedTeam::row(int64_t rank, int64_t row) const {
  return static_cast<std::byte*>(shown_[rank].slice_rows(row, 1).data);
}

// A rank that is the last to come lets the others go; they come again only after that.
void SharedTeam::barrier() {
  const uint32_t barrier = barriers_;
  if (aborted_) throw RankLost();
  if (++here_ == std::ssize(shown_)) {
    here_ = 0;
    ++barriers_;
    barriers_.notify_all();
  } else {
    while (barriers_ == barrier) barriers_.wait(barrier);
  }
  if (aborted_) throw RankLost();
}

void SharedTeam::abort() noexcept {
  aborted_ = true;
  ++barriers_;
  barriers_.notify_all();
}

}  // namespace plimsoll::engine
