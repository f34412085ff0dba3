// Threads as ranks: what passes between them, and what becomes of all when one fails.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <list>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/ranks/message_team.h"
#include "engine/ranks/rank_threads.h"
#include "engine/ranks/shared_team.h"
#include "engine/ranks/shared_world.h"

using namespace plimsoll::engine;

namespace {

using Bytes = std::array<std::byte, 1000>;

Bytes bytes_of(int seed) {
  Bytes bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(static_cast<size_t>(seed) * 31 + i * 7);
  }
  return bytes;
}

/// A matrix of floats that differ by rank and place.
struct RankMatrix {
  RankMatrix(int64_t row_count, int64_t column_count, float seed)
      : rows(row_count), columns(column_count), values(static_cast<size_t>(rows * columns)) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = seed * 1.1f + static_cast<float>(i) / 7.f;
    }
  }
  operator plimsoll::backend::View() {
    return {values.data(), plimsoll::DType::f32, rows, columns, columns};
  }
  int64_t rows, columns;
  std::vector<float> values;
};

/// Tensor-parallel ranks that are threads; of a team of messages these go from thread to thread, in
/// pieces of `buffer` bytes, and the team is the last ranks of a larger world.
class Team {
 public:
  Team(int64_t ranks, size_t buffer) : shared_(ranks), world_(ranks + 2) {
    for (int64_t rank = 0; rank < ranks && buffer > 0; ++rank) {
      std::vector<std::byte>& own = buffers_.emplace_back(buffer);
      ends_.push_back(std::make_unique<MessageTeam>(world_.rank(2 + rank), 2, rank, ranks, own));
    }
  }
  TensorRanks& rank(int64_t rank) {
    if (ends_.empty()) return shared_.rank(rank);
    return *ends_[static_cast<size_t>(rank)];
  }
  void abort() {
    shared_.abort();
    world_.abort();
  }

 private:
  SharedTeam shared_;
  SharedWorld world_;
  std::list<std::vector<std::byte>> buffers_;
  std::vector<std::unique_ptr<MessageTeam>> ends_;
};

}  // namespace

TEST_CASE("ranks sum in pairs, find the most, have each other's rows, the first all columns") {
  constexpr int kRanks = 4;
  const size_t buffer = GENERATE(0, 32, 200, 4096);
  Team team(kRanks, buffer);
  RankThreads rank_threads(kRanks, [&] { team.abort(); });
  for (int round = 0; round < 200; ++round) {
    const auto seed = [&](int64_t rank) { return static_cast<float>(rank * 1000 + round); };
    const int64_t columns = 1 + round % 50;
    std::vector<RankMatrix> sums, rows, all(kRanks, RankMatrix(3, 4 * columns - 2, 0));
    for (int64_t rank = 0; rank < kRanks; ++rank) sums.emplace_back(3, columns, seed(rank));
    const std::vector<RankMatrix> before = rows = sums;
    const auto sign = [](size_t i) { return i % 2 == 0 ? 1.f : -1.f; };  // of whom the most is
    std::vector<RankMatrix> most = sums;
    for (RankMatrix& matrix : most)
      for (size_t i = 0; i < matrix.values.size(); ++i) matrix.values[i] *= sign(i);
    rank_threads.run([&](int64_t rank) {
      const auto index = static_cast<size_t>(rank);
      TensorRanks& end = team.rank(rank);
      end.all_reduce_sum(sums[index]);
      end.all_reduce_max(most[index]);
      end.all_gather_rows(rows[index], std::array<int32_t, 3>{2, 0, 2});
      RankMatrix own = before[index];
      end.gather_columns(own, all[index]);
    });
    for (size_t i = 0; i < before.front().values.size(); ++i) {
      const auto of = [&](size_t rank) { return before[rank].values[i]; };
      const float sum = (of(0) + of(1)) + (of(2) + of(3));
      const size_t row = i / static_cast<size_t>(columns),
                   column = i % static_cast<size_t>(columns);
      for (size_t rank = 0; rank < kRanks; ++rank) {
        REQUIRE(sums[rank].values[i] == sum);
        REQUIRE(most[rank].values[i] == sign(i) * of(i % 2 == 0 ? 3 : 0));
        REQUIRE(rows[rank].values[i] == of(row == 1 ? 0 : 2));
        const size_t at = rank * static_cast<size_t>(columns) + column;
        const auto width = static_cast<size_t>(4 * columns - 2);
        if (at < width) REQUIRE(all.front().values[row * width + at] == of(rank));
      }
    }
  }
}

TEST_CASE("ranks have the columns of all, and those that neighbours have alike once") {
  constexpr int64_t kRanks = 4, kRows = 3, kOwn = 5;
  const size_t buffer = GENERATE(0, 32, 200, 4096);
  for (const int64_t alike : {1, 2, 4}) {
    Team team(kRanks, buffer);
    RankThreads rank_threads(kRanks, [&] { team.abort(); });
    std::vector<RankMatrix> own, all(kRanks, RankMatrix(kRows, kRanks / alike * kOwn, 0));
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      own.emplace_back(kRows, kOwn + 2, static_cast<float>(rank / alike * 100));  // with gaps
    }
    rank_threads.run([&](int64_t rank) {
      const auto index = static_cast<size_t>(rank);
      const plimsoll::backend::View mine = own[index];
      team.rank(rank).share_columns(mine.slice_columns(0, kOwn), all[index]);
    });
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      REQUIRE(team.rank(rank).first_column(kOwn, all.front().columns) == rank / alike * kOwn);
    }
    for (const RankMatrix& matrix : all) {
      for (int64_t i = 0; i < kRows * matrix.columns; ++i) {
        const int64_t row = i / matrix.columns, column = i % matrix.columns;
        const auto& from = own[static_cast<size_t>(column / kOwn * alike)].values;
        REQUIRE(matrix.values[static_cast<size_t>(i)] ==
                from[static_cast<size_t>(row * (kOwn + 2) + column % kOwn)]);
      }
    }
  }
}

TEST_CASE("ranks share matrices without rows") {
  constexpr int64_t kRanks = 2;
  Team team(kRanks, GENERATE(0, 4096));
  RankThreads rank_threads(kRanks, [&] { team.abort(); });
  rank_threads.run([&](int64_t rank) {
    RankMatrix none(0, 3, 1), all(0, 6, 0);
    TensorRanks& end = team.rank(rank);
    end.all_reduce_sum(none);
    end.all_reduce_max(none);
    end.all_gather_rows(none, {});
    end.gather_columns(none, all);
    end.share_columns(none, all);
  });
}

TEST_CASE("ranks that meet are told when one has failed") {
  constexpr int kRanks = 4;
  Team team(kRanks, GENERATE(0, 4096));
  RankThreads rank_threads(kRanks, [&] { team.abort(); });
  std::atomic<int> lost = 0;
  const auto job = [&](int64_t rank) {
    if (rank == 1) throw std::runtime_error("broken");
    RankMatrix values(2, 2, 0);
    try {
      team.rank(rank).all_reduce_sum(values);
    } catch (const RankLost&) {
      ++lost;
      throw;
    }
  };
  CHECK_THROWS_WITH(rank_threads.run(job), "broken");
  CHECK(lost == kRanks - 1);
}

TEST_CASE("what one rank sends the next receives, round after round") {
  constexpr int kRanks = 4;
  SharedWorld world(kRanks);
  RankThreads rank_threads(kRanks, [&] { world.abort(); });
  for (int round = 0; round < 200; ++round) {
    Bytes last{};
    rank_threads.run([&](int64_t rank) {
      Bytes own = bytes_of(round);
      if (rank > 0) {
        own.fill(std::byte{0});
        world.rank(rank).receive(rank - 1, own);
      }
      if (rank + 1 < kRanks) world.rank(rank).send(rank + 1, own);
      if (rank + 1 == kRanks) last = own;
    });
    REQUIRE(last == bytes_of(round));
  }
}

TEST_CASE("the first error of a rank ends all at once, whoever waits for whom") {
  constexpr int kRanks = 4;
  for (int failing = 0; failing < kRanks; ++failing) {
    SharedWorld world(kRanks);
    std::atomic<int> lost = 0;
    RankThreads rank_threads(kRanks, [&] { world.abort(); });
    const auto job = [&](int64_t rank) {
      if (rank == failing) throw std::runtime_error("broken " + std::to_string(rank));
      Bytes bytes{};
      try {  // a ring in which nobody sends
        world.rank(rank).receive((rank + 1) % kRanks, bytes);
      } catch (const RankLost&) {
        ++lost;
        throw;
      }
    };
    CHECK_THROWS_WITH(rank_threads.run(job), "broken " + std::to_string(failing));
    CHECK(lost == kRanks - 1);
    // Later calls do not wait for what will never come.
    CHECK_THROWS_AS(rank_threads.run([&](int64_t rank) {
      const Bytes bytes{};
      world.rank(rank).send((rank + 1) % kRanks, bytes);
    }),
                    RankLost);
  }
}
