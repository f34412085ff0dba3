// Ranks on devices: what several of them make of their matrices, each in a thread and a stream of
// its own.
#include <exception>
#include <memory>
#include <thread>

#include "kernels/fixture.h"
#include "kernels/products/slices.h"
#include "kernels/ranks/ranks.h"
#include "kernels/runtime/device.h"
#include "model/slices.h"

using namespace plimsoll;
using namespace plimsoll::kernels;
using backend::View;
using plimsoll::testing::in_each_order;

namespace {

/// Ranks on one device.
class Ranks {
 public:
  explicit Ranks(int count) : aborted_(sizeof(int)) {
    *static_cast<int*>(aborted_.data()) = 0;
    for (int rank = 0; rank < count; ++rank) {
      memory_.push_back(std::make_unique<DeviceMemory>(backend::cuda::rank_area_bytes(count)));
      testing::require(cudaMemset(memory_.back()->data(), 0, backend::cuda::kBarrierBytes));
      streams_.push_back(std::make_unique<Stream>());
    }
    testing::require(cudaDeviceSynchronize());
  }

  /// job(rank, its areas, its stream), all at once; then waits for the devices.
  template <typename F>
  void run(const F& job) {
    std::vector<std::exception_ptr> thrown(streams_.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < streams_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          job(rank, areas(rank), streams_[rank]->get());
          streams_[rank]->wait();
        } catch (...) {
          thrown[rank] = std::current_exception();
          *static_cast<int*>(aborted_.data()) = 1;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : thrown) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  [[nodiscard]] RankAreas areas(size_t rank) const {
    RankAreas areas{.rank = static_cast<int>(rank),
                    .ranks = static_cast<int>(memory_.size()),
                    .blocks = 4,
                    .aborted = static_cast<const int*>(aborted_.data())};
    for (size_t i = 0; i < memory_.size(); ++i) {
      areas.area[i] = static_cast<unsigned char*>(memory_[i]->data());
    }
    return areas;
  }

  PinnedMemory aborted_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

/// A matrix of each rank, of numbers whose sums are exact only in the right order.
struct Matrices {
  Matrices(int ranks, int64_t row_count, int64_t width) : rows(row_count), columns(width) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> values(-3, 3);
    for (int rank = 0; rank < ranks; ++rank) {
      host.emplace_back(static_cast<size_t>(rows * columns));
      for (float& x : host.back()) x = values(random);
      device.push_back(std::make_unique<testing::DeviceBytes>(host.back().size() * 4));
      device.back()->upload(host.back().data());
    }
  }
  [[nodiscard]] View view(size_t rank) const {
    return {device[rank]->data(), DType::f32, rows, columns, columns};
  }
  [[nodiscard]] std::vector<float> download(size_t rank) const {
    std::vector<float> values(host[rank].size());
    testing::require(
        cudaMemcpy(values.data(), device[rank]->data(), values.size() * 4, cudaMemcpyDeviceToHost));
    return values;
  }
  [[nodiscard]] float tree(size_t i) const {
    std::vector<float> sums;
    for (const auto& values : host) sums.push_back(values[i]);
    for (size_t step = 1; step < sums.size(); step *= 2)
      for (size_t to = 0; to < sums.size(); to += 2 * step) sums[to] += sums[to + step];
    return sums.front();
  }

  int64_t rows, columns;
  std::vector<std::vector<float>> host;
  std::vector<std::unique_ptr<testing::DeviceBytes>> device;
};

void check_sum(int ranks, int64_t rows, int64_t columns, int calls) {
  INFO(ranks << " ranks, " << rows << " x " << columns);
  Ranks team(ranks);
  std::vector<std::unique_ptr<Matrices>> all;
  for (int call = 0; call < calls; ++call) {
    all.push_back(std::make_unique<Matrices>(ranks, rows + call, columns));
  }
  team.run([&](size_t rank, const RankAreas& areas, cudaStream_t stream) {
    for (const auto& matrices : all) sum_ranks(matrices->view(rank), areas, stream);
  });
  for (const auto& matrices : all) {
    for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank) {
      const std::vector<float> found = matrices->download(rank);
      size_t wrong = 0;
      for (size_t i = 0; i < found.size(); ++i) wrong += found[i] != matrices->tree(i) ? 1 : 0;
      CHECK(wrong == 0);
    }
  }
}

}  // namespace

TEST_CASE("ranks on devices add what each of them has, in a tree of pairs") {
  in_each_order([] {
    check_sum(2, 3, 40, 4);
    check_sum(4, 1, 7, 3);
    check_sum(8, 5, 24, 2);
  });
}

TEST_CASE("ranks on devices tell each other what is largest") {
  in_each_order([] {
    for (const int ranks : {2, 4, 8}) {
      Ranks team(ranks);
      const Matrices own(ranks, 3, 5);
      team.run([&](size_t rank, const RankAreas& areas, cudaStream_t stream) {
        most_ranks(own.view(rank), areas, stream);
      });
      std::vector<float> expected = own.host.front();
      for (const auto& values : own.host)
        for (size_t i = 0; i < values.size(); ++i) expected[i] = std::max(expected[i], values[i]);
      for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank)
        CHECK(own.download(rank) == expected);
    }
  });
}

TEST_CASE("large sums of ranks are made in shares") {
  check_sum(4, 40, 4096, 2);
}

TEST_CASE("ranks on devices put their columns side by side") {
  in_each_order([] {
    for (const int64_t wanted : {int64_t{24}, int64_t{21}}) {  // columns of all; some are left out
      Ranks team(4);
      const Matrices own(4, 5, 6), all(4, 5, wanted);
      team.run([&](size_t rank, const RankAreas& areas, cudaStream_t stream) {
        const View to = rank == 0 ? all.view(rank) : View{};
        collect_columns({.from = own.view(rank), .to = to}, areas, stream);
        collect_columns({.from = own.view(rank), .to = own.view(rank), .first = 2}, areas, stream);
      });
      const std::vector<float> found = all.download(0);
      for (int64_t row = 0; row < 5; ++row) {
        for (int64_t i = 0; i < wanted; ++i) {
          CHECK(found[static_cast<size_t>(row * wanted + i)] ==
                own.host[static_cast<size_t>(i / 6)][static_cast<size_t>(row * 6 + i % 6)]);
        }
      }
      CHECK(all.download(1) == all.host[1]);
      for (size_t rank = 0; rank < 4; ++rank) CHECK(own.download(rank) == own.host[2]);
    }
  });
}

TEST_CASE("ranks that have the same columns are asked once") {
  Ranks team(4);
  const Matrices own(4, 3, 8), all(4, 3, 16);
  team.run([&](size_t rank, const RankAreas& areas, cudaStream_t stream) {
    collect_columns({.from = own.view(rank), .to = all.view(rank), .alike = 2}, areas, stream);
  });
  for (size_t rank = 0; rank < 4; ++rank) {
    const std::vector<float> found = all.download(rank);
    for (size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i] == own.host[i % 16 / 8 * 2][i / 16 * 8 + i % 8]);
    }
  }
}

TEST_CASE("columns that ranks share may lie in wider rows") {
  Ranks team(2);
  const Matrices wide(2, 3, 10), all(2, 3, 8);
  team.run([&](size_t rank, const RankAreas& areas, cudaStream_t stream) {
    const View from = wide.view(rank).slice_columns(2, 4);
    collect_columns({.from = from, .to = all.view(rank)}, areas, stream);
  });
  for (size_t rank = 0; rank < 2; ++rank) {
    const std::vector<float> found = all.download(rank);
    for (size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i] == wide.host[i % 8 / 4][i / 8 * 10 + 2 + i % 4]);
    }
  }
}

TEST_CASE("a rank that waits for one that has failed goes on") {
  Ranks team(2);
  const Matrices matrices(2, 1, 8);
  CHECK_THROWS_WITH(team.run([&](size_t rank, const RankAreas& areas, cudaStream_t stream) {
    if (rank == 1) throw std::runtime_error("lost");
    sum_ranks(matrices.view(rank), areas, stream);
  }),
                    "lost");
}

namespace {

/// All eight slices of a sum [rows, columns], whose order shows in the bits.
struct Slices {
  static constexpr int64_t kRows = 3, kStride = 24;

  explicit Slices(int64_t width) : columns(width) {
    std::mt19937 random(11);
    std::uniform_real_distribution<float> values(-3, 3);
    for (auto& x : host) x = values(random);
    device.upload(host.data());
  }
  /// The `count` slices from `first` on; the bias joins the first of all.
  [[nodiscard]] SliceSums part(int64_t first, int64_t count,
                               const testing::DeviceRows& bias) const {
    return {.sums = static_cast<const float*>(device.data()) + first * kRows * kStride,
            .slices = count,
            .rows = kRows,
            .columns = columns,
            .stride = kStride,
            .bias = first == 0 ? Vector{bias.view().data, bias.view().dtype} : Vector{}};
  }
  /// Sum of all slices at a row and column, added by a plain tree.
  [[nodiscard]] float tree(int64_t row, int64_t column, float bias) const {
    std::vector<float> sums;
    for (int64_t s = 0; s < model::kMostSlices; ++s)
      sums.push_back(host[static_cast<size_t>((s * kRows + row) * kStride + column)]);
    sums.front() += bias;
    for (size_t step = 1; step < sums.size(); step *= 2)
      for (size_t to = 0; to < sums.size(); to += 2 * step) sums[to] += sums[to + step];
    return sums.front();
  }

  int64_t columns;
  std::vector<float> host =
      std::vector<float>(static_cast<size_t>(model::kMostSlices * kRows * kStride));
  testing::DeviceBytes device{host.size() * sizeof(float)};
};

}  // namespace

TEST_CASE("slices of a sum are added in one tree, whatever ranks have them") {
  for (const auto& [dtype, columns] : {std::pair{DType::bf16, int64_t{24}},
                                       {DType::f16, int64_t{21}},
                                       {DType::f32, int64_t{24}}}) {
    const Slices slices(columns);
    const testing::Matrix bias_values = testing::random_matrix(1, columns, dtype, 3);
    const testing::DeviceRows bias(bias_values, dtype);
    testing::Matrix expected(Slices::kRows, columns);
    for (int64_t row = 0; row < Slices::kRows; ++row)
      for (int64_t i = 0; i < columns; ++i) {
        const auto at = static_cast<size_t>(row * columns + i);
        const auto of_bias = static_cast<float>(bias_values.values[static_cast<size_t>(i)]);
        expected.values[at] = testing::rounded(slices.tree(row, i, of_bias), dtype);
      }
    in_each_order([&] {
      const testing::DeviceRows alone(Slices::kRows, columns, dtype);
      sum_slices(alone.view(), slices.part(0, model::kMostSlices, bias), testing::kStream);
      CHECK((alone.matrix().values == expected.values));
      for (const int64_t ranks : {2, 4, 8}) {
        INFO(ranks << " ranks, " << torch_name(dtype));
        Ranks team(static_cast<int>(ranks));
        std::vector<std::unique_ptr<testing::DeviceRows>> outs;
        for (int64_t rank = 0; rank < ranks; ++rank)
          outs.push_back(std::make_unique<testing::DeviceRows>(Slices::kRows, columns, dtype));
        const int64_t own = model::kMostSlices / ranks;
        team.run([&](size_t rank, const RankAreas& areas, cudaStream_t stream) {
          const SliceSums part = slices.part(static_cast<int64_t>(rank) * own, own, bias);
          sum_slices(outs[rank]->view(), part, areas, stream);
        });
        for (const auto& out : outs) CHECK((out->matrix().values == expected.values));
      }
    });
  }
}

namespace {

/// Results of add and norm on ranks, of a residual that each has and of deltas of their own: sum
/// and norm.
std::vector<testing::Matrix> add_and_norm(int ranks, int64_t rows, int64_t width, DType dtype,
                                          bool at_once) {
  Ranks team(ranks);
  const testing::DeviceRows gains(testing::random_matrix(1, width, dtype, 5), dtype);
  std::vector<std::unique_ptr<testing::DeviceRows>> residuals, deltas, outs;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto rows_of = [&](uint32_t seed) {
      return std::make_unique<testing::DeviceRows>(testing::random_matrix(rows, width, dtype, seed),
                                                   dtype);
    };
    residuals.push_back(rows_of(7));
    deltas.push_back(rows_of(20 + static_cast<uint32_t>(rank)));
    outs.push_back(std::make_unique<testing::DeviceRows>(rows, width, dtype));
  }
  const model::Norm spec{.epsilon = 1e-5f, .present = true};
  team.run([&](size_t rank, const RankAreas& areas, cudaStream_t stream) {
    const NormOp op{.out = outs[rank]->view(),
                    .in = residuals[rank]->view(),
                    .delta = deltas[rank]->view(),
                    .spec = spec,
                    .weight = {gains.view().data, dtype}};
    for (int call = 0; call < 2;
         ++call) {  // the second finds the first one's residual and meetings
      if (at_once) {
        if (!sum_add_norm(op, areas, stream)) throw std::logic_error("too large");
      } else {
        sum_ranks(op.delta, areas, stream);
        norm(op, stream);
        continue;
      }
      sum_ranks(op.delta, areas, stream);  // as the two steps leave it
    }
  });
  std::vector<testing::Matrix> found;
  for (size_t rank = 0; rank < outs.size(); ++rank) {
    found.push_back(residuals[rank]->matrix());
    found.push_back(outs[rank]->matrix());
  }
  return found;
}

}  // namespace

TEST_CASE("a sum over ranks with the norm behind it has the bits of the two") {
  for (const DType dtype : testing::kActivationTypes)
    for (const int ranks : {2, 4})
      for (const auto& [rows, width] : {std::pair{int64_t{1}, int64_t{72}},
                                        {int64_t{7}, int64_t{256}},
                                        {int64_t{2}, int64_t{33}}}) {
        INFO(torch_name(dtype) << ", " << ranks << " ranks, " << rows << " x " << width);
        in_each_order([&] {
          const auto expected = add_and_norm(ranks, rows, width, dtype, false);
          const auto found = add_and_norm(ranks, rows, width, dtype, true);
          for (size_t i = 0; i < expected.size(); ++i)
            CHECK((found[i].values == expected[i].values));
        });
      }
}

TEST_CASE("large sums over ranks are not made with the norm behind them") {
  Ranks team(2);
  const Matrices residuals(2, 40, 4096), deltas(2, 40, 4096);
  team.run([&](size_t rank, const RankAreas& areas, cudaStream_t stream) {
    const NormOp op{
        .out = deltas.view(rank), .in = residuals.view(rank), .delta = deltas.view(rank)};
    if (sum_add_norm(op, areas, stream)) throw std::logic_error("it was made");
  });
  CHECK(residuals.download(0) == residuals.host[0]);
}
