// Tensor-parallel ranks that have no memory in common: their data goes through a communicator, in
// pieces as large as a buffer of fixed size.
#pragma once

#include <functional>
#include <span>

#include "engine/ranks/communicator.h"

namespace plimsoll::engine {

/// Bytes of each rank's buffer for pieces on their way: one half for each direction.
inline constexpr size_t kMessageBytes = size_t{512} << 10;

/// One rank's end of such a team. The sums are those of SharedTeam to the bit: in each round two
/// ranks exchange their matrices and both add them, the lower rank's first.
class MessageTeam final : public TensorRanks {
 public:
  /// `ranks` (a power of two) from `first` on make the team; this one is `first` + `rank`. `world`
  /// and `buffer` must outlive it.
  MessageTeam(Communicator& world, int64_t first, int64_t rank, int64_t ranks,
              std::span<std::byte> buffer);

  [[nodiscard]] int64_t rank() const override { return rank_; }
  [[nodiscard]] int64_t ranks() const override { return ranks_; }
  void all_reduce_sum(backend::View values) override;
  void all_reduce_max(backend::View values) override;
  void all_gather_rows(backend::View rows, std::span<const int32_t> owners) override;
  void gather_columns(backend::View columns, backend::View all) override;
  void share_columns(backend::View columns, backend::View all) override;

 private:
  /// Bytes of row t; empty where no part of it goes this way.
  using Rows = std::function<std::span<std::byte>(int64_t row)>;

  void exchange(int64_t other, std::span<const std::byte> sent, std::span<std::byte> received);
  /// Sends and receives parts of `rows` rows, each at most `row_bytes` long.
  void exchange_rows(int64_t other, int64_t rows, size_t row_bytes, const Rows& sent,
                     const Rows& received);
  template <typename F>
  void join(backend::View values, const F& f);

  Communicator& world_;
  int64_t first_, rank_, ranks_;
  std::span<std::byte> sent_, received_;  // the buffer's halves
};

}  // namespace plimsoll::engine
