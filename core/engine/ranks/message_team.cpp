#include "engine/ranks/message_team.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace plimsoll::engine {
namespace {

/// Columns [first, first + count) of a row.
std::span<std::byte> row_bytes(const backend::View& matrix, int64_t row, int64_t first,
                               int64_t count) {
  const backend::View part = matrix.slice_rows(row, 1).slice_columns(first, count);
  return {static_cast<std::byte*>(part.data), count * dtype_size(matrix.dtype)};
}

void copy_bytes(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace

MessageTeam::MessageTeam(Communicator& world, int64_t first, int64_t rank, int64_t ranks,
                         std::span<std::byte> buffer)
    : world_(world),
      first_(first),
      rank_(rank),
      ranks_(ranks),
      sent_(buffer.first(buffer.size() / 2)),
      received_(buffer.last(buffer.size() / 2)) {}

void MessageTeam::exchange(int64_t other, std::span<const std::byte> sent,
                           std::span<std::byte> received) {
  world_.exchange(first_ + rank_, first_ + other, sent, received);
}

void MessageTeam::exchange_rows(int64_t other, int64_t rows, size_t row_bytes, const Rows& sent,
                                const Rows& received) {
  const auto at_once = static_cast<int64_t>(sent_.size() / std::max<size_t>(row_bytes, 1));
  if (at_once <= 1) {
    for (int64_t t = 0; t < rows; ++t) exchange(other, sent(t), received(t));
    return;
  }
  for (int64_t first = 0; first < rows; first += at_once) {
    const int64_t end = std::min(rows, first + at_once);
    size_t out = 0, in = 0;
    for (int64_t t = first; t < end; ++t) {
      const std::span<const std::byte> row = sent(t);
      copy_bytes(row, sent_.subspan(out));
      out += row.size();
      in += received(t).size();
    }
    exchange(other, sent_.first(out), received_.first(in));
    in = 0;
    for (int64_t t = first; t < end; ++t) {
      const std::span<std::byte> row = received(t);
      copy_bytes(received_.subspan(in, row.size()), row);
      in += row.size();
    }
  }
}

template <typename F>
void MessageTeam::join(backend::View values, const F& f) {
  if (values.stride != values.columns) {
    throw std::logic_error("ranks share a matrix with gaps between its rows");
  }
  const std::span all(static_cast<float*>(values.data),
                      static_cast<size_t>(values.rows * values.columns));
  const std::span piece(reinterpret_cast<float*>(received_.data()),
                        received_.size() / sizeof(float));
  for (int64_t step = 1; step < ranks_; step *= 2) {
    const int64_t other = rank_ ^ step;
    for (size_t first = 0; first < all.size(); first += piece.size()) {
      const std::span own = all.subspan(first, std::min(piece.size(), all.size() - first));
      const std::span theirs = piece.first(own.size());
      exchange(other, std::as_bytes(own), std::as_writable_bytes(theirs));
      if (other > rank_) {
        for (size_t i = 0; i < own.size(); ++i) own[i] = f(own[i], theirs[i]);
      } else {
        for (size_t i = 0; i < own.size(); ++i) own[i] = f(theirs[i], own[i]);
      }
    }
  }
}

void MessageTeam::all_reduce_sum(backend::View values) {
  join(values, [](float a, float b) { return a + b; });
}

void MessageTeam::all_reduce_max(backend::View values) {
  join(values, [](float a, float b) { return b > a ? b : a; });
}

void MessageTeam::all_gather_rows(backend::View rows, std::span<const int32_t> owners) {
  const auto of = [&](int64_t owner) {
    return [&rows, owners, owner](int64_t t) {
      const bool owned = owners[t] == owner;
      return owned ? row_bytes(rows, t, 0, rows.columns) : std::span<std::byte>();
    };
  };
  const size_t bytes = rows.columns * dtype_size(rows.dtype);
  for (int64_t step = 1; step < ranks_; ++step) {
    exchange_rows(rank_ ^ step, rows.rows, bytes, of(rank_), of(rank_ ^ step));
  }
}

void MessageTeam::share_columns(backend::View columns, backend::View all) {
  const int64_t own = columns.columns, alike = own * ranks_ / all.columns;
  const size_t bytes = own * dtype_size(columns.dtype);
  const auto place = [&](int64_t rank) {  // of a rank's columns, in `all`
    return [&all, own, first = rank / alike * own](int64_t t) {
      return row_bytes(all, t, first, own);
    };
  };
  for (int64_t t = 0; t < all.rows; ++t) {
    copy_bytes(row_bytes(columns, t, 0, own), place(rank_)(t));
  }
  // Neighbouring ranks that have the same columns are interchangeable, so the exchange skips all
  // but one.
  for (int64_t step = alike; step < ranks_; step += alike) {
    const int64_t other = rank_ ^ step;
    exchange_rows(other, all.rows, bytes, place(rank_), place(other));
  }
}

void MessageTeam::gather_columns(backend::View columns, backend::View all) {
  const size_t bytes = columns.columns * dtype_size(columns.dtype);
  const auto first = [&](int64_t rank) { return std::min(all.columns, rank * columns.columns); };
  const auto count = [&](int64_t rank) {  // columns of the rank in `all`
    return std::min(all.columns - first(rank), columns.columns);
  };
  const auto own = [&](int64_t t) { return row_bytes(columns, t, 0, count(rank_)); };
  const Rows nothing = [](int64_t) { return std::span<std::byte>(); };
  if (rank_ != 0) return exchange_rows(0, columns.rows, bytes, own, nothing);
  for (int64_t t = 0; t < columns.rows; ++t) {
    copy_bytes(own(t), row_bytes(all, t, 0, count(0)));
  }
  for (int64_t other = 1; other < ranks_; ++other) {
    exchange_rows(other, columns.rows, bytes, nothing,
                  [&](int64_t t) { return row_bytes(all, t, first(other), count(other)); });
  }
}

}  // namespace plimsoll::engine
