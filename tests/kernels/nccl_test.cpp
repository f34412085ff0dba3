// NCCL's library as it is opened, and what ranks that talk over it make of what they are sent.
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "kernels/backend/cuda_backend.h"
#include "kernels/backend/nccl_team.h"
#include "kernels/fixture.h"
#include "kernels/ranks/join_parts.h"
#include "kernels/ranks/nccl_library.h"
#include "kernels/runtime/device.h"

using namespace plimsoll;
using namespace plimsoll::kernels;
using Catch::Contains;
using plimsoll::testing::in_each_order;

TEST_CASE("parts of all ranks are joined in a tree of pairs") {
  in_each_order([] {
    for (const int ranks : {2, 4, 8}) {
      for (const int64_t columns : {1, 7, 64, 1030}) {
        INFO(ranks << " ranks, " << columns);
        const auto count = static_cast<size_t>(columns);
        std::mt19937 random(3);
        std::uniform_real_distribution<float> values(-3, 3);
        std::vector<std::vector<float>> host;
        std::vector<std::unique_ptr<testing::DeviceBytes>> device;
        RankParts parts{.ranks = ranks};
        for (int rank = 0; rank < ranks; ++rank) {
          host.emplace_back(count);
          for (float& x : host.back()) x = values(random);
          device.push_back(std::make_unique<testing::DeviceBytes>(count * 4));
          device.back()->upload(host.back().data());
          parts.part[rank] = device.back()->data();
        }
        // The result takes the place of the last rank's part.
        const backend::View out{device.back()->data(), DType::f32, 1, columns, columns};
        std::vector<float> sums(count), most(count), found(count);
        for (size_t i = 0; i < count; ++i) {
          std::vector<float> tree;
          for (const auto& of_rank : host) tree.push_back(of_rank[i]);
          most[i] = *std::ranges::max_element(tree);
          for (size_t step = 1; step < tree.size(); step *= 2)
            for (size_t to = 0; to < tree.size(); to += 2 * step) tree[to] += tree[to + step];
          sums[i] = tree.front();
        }
        const auto join = [&](RankJoin kind) {
          device.back()->upload(host.back().data());
          join_parts(out, parts, kind, nullptr);
          testing::require(cudaMemcpy(found.data(), out.data, count * 4, cudaMemcpyDeviceToHost));
        };
        join(RankJoin::sum);
        CHECK(found == sums);
        join(RankJoin::most);
        CHECK(found == most);
      }
    }
  });
}

TEST_CASE("NCCL that is not there is named with the cure") {
  CHECK_THROWS_WITH(load_nccl({"libnccl_of_nobody.so.2"}),
                    Contains("NCCL is missing: install it (pip install nvidia-nccl-cu13") &&
                        Contains("VLLM_NCCL_SO_PATH") && Contains("libnccl_of_nobody.so.2"));
}

#ifdef PLIMSOLL_EMULATION
namespace {

/// An environment variable that is set while the object lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

Nccl load_fake() {
  return load_nccl({"libnccl_of_nobody.so.2", PLIMSOLL_BINARY_DIR "/tests/emulation/fake_nccl.so"});
}

}  // namespace

TEST_CASE("the first library of NCCL that is there is taken, unless it is too old") {
  CHECK(load_fake().version == 23203);
  const Variable old("FAKE_NCCL_VERSION", "21403");
  CHECK_THROWS_WITH(load_fake(),
                    Contains("NCCL 2.14.3 is too old, 2.18.0 is the oldest that will do: install"));
}

TEST_CASE("a library without NCCL's functions is refused") {
  CHECK_THROWS_WITH(load_nccl({"libm.so.6"}), Contains("has no function ncclGetVersion"));
}

// As NCCL waits for graphs that have calls of the communicator.
TEST_CASE("a communicator that NCCL does not end is left behind") {
  const Nccl nccl = load_fake();
  const Variable hangs("FAKE_NCCL_HANGS", "abort");
  backend::CommunicatorId id{};
  REQUIRE(nccl.unique_id(&id) == 0);
  CudaBackend device({});
  const auto team = std::make_unique<NcclTeam>(
      nccl, std::vector{&device}, backend::Membership{.id = id, .first = 0, .ranks = 1});
  team->abort();
}

TEST_CASE("a call of NCCL that fails says what NCCL says") {
  const Nccl nccl = load_fake();
  const Variable fails("FAKE_NCCL_FAILS", "init");
  backend::CommunicatorId id{};
  REQUIRE(nccl.unique_id(&id) == 0);
  NcclConfig config;
  Nccl::Comm comm = nullptr;
  const int status = nccl.init_rank(&comm, 1, id, 0, &config);
  try {
    nccl.check(status, "ncclCommInitRank");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::device_lost);
    CHECK_THAT(error.what(),
               Contains("ncclCommInitRank: unhandled system error: no network interface"));
  }
  CHECK_THROWS_WITH(nccl.check(5, "ncclCommInitRank"), Contains("invalid usage"));
}
#endif
