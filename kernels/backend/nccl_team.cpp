#include "kernels/backend/nccl_team.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "kernels/backend/device_ranks.h"
#include "kernels/ranks/join_parts.h"
#include "kernels/ranks/ranks.h"
#include "kernels/runtime/cuda_error.h"
#include "memory/device_overheads.h"

namespace plimsoll::kernels {
namespace {

using backend::View;
using backend::cuda::kMostRanks;

/// Places of parts are multiples of it.
constexpr size_t kAlignment = 16;
/// Time that abort() waits for calls that hang in NCCL, the abort itself among them: the process
/// leaves anyway.
constexpr auto kPatience = std::chrono::milliseconds(200);
using Clock = std::chrono::steady_clock;

bool is_recorded(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

size_t bytes_of(const View& view) {
  return static_cast<size_t>(view.rows * view.columns) * dtype_size(view.dtype);
}

std::byte* require_whole(const View& view) {
  if (view.rows > 1 && view.stride != view.columns) {
    throw std::logic_error("ranks share a matrix with gaps between its rows");
  }
  return static_cast<std::byte*>(view.data);
}

}  // namespace

/// A rank's communicator.
class NcclTeam::Wire {
 public:
  Wire(const Nccl& nccl, const NcclTeam& team, CudaBackend& backend, int64_t number, int64_t all)
      : own(backend),
        rank(static_cast<int>(number)),
        ranks(static_cast<int>(all)),
        nccl_(nccl),
        team_(team) {}
  ~Wire() { abort(Clock::now() + kPatience); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  /// Amid a group of those of all ranks of this process.
  void join(const backend::Membership& membership) {
    own.use_here();
    NcclConfig config;
    config.most_blocks = memory::kNcclChannels;
    nccl_.check(nccl_.init_rank(&comm_, ranks, membership.id, rank, &config), "ncclCommInitRank");
  }

  /// f() enqueues calls of NCCL with comm(), as one, and returns the first status that is not 0.
  template <typename F>
  void enqueue(const char* call, const F& f) {
    const std::lock_guard lock(mutex_);
    if (lost_) throw backend::RankLost();
    if (team_.aside_ && !is_recorded(stream())) return;
    nccl_.check(nccl_.group_start(), "ncclGroupStart", comm_);
    const int status = f();
    const int end = nccl_.group_end();
    nccl_.check(status != 0 ? status : end, call, comm_);
  }

  void all_gather(const void* own_bytes, void* all, size_t bytes) {
    enqueue("ncclAllGather",
            [&] { return nccl_.all_gather(own_bytes, all, bytes, Nccl::kByte, comm_, stream()); });
  }
  void broadcast(void* bytes, size_t count, int root) {
    enqueue("ncclBroadcast", [&] {
      return nccl_.broadcast(bytes, bytes, count, Nccl::kByte, root, comm_, stream());
    });
  }
  [[nodiscard]] int send(const void* bytes, size_t count, int to) const {
    return nccl_.send(bytes, count, Nccl::kByte, to, comm_, stream());
  }
  [[nodiscard]] int receive(void* bytes, size_t count, int from) const {
    return nccl_.receive(bytes, count, Nccl::kByte, from, comm_, stream());
  }

  // A call that hangs has the lock: then the lost rank is noted, and no more. ncclCommAbort waits
  // for the end of all graphs that recorded calls of the communicator, which may come after it: its
  // thread is left behind then.
  void abort(Clock::time_point until) noexcept {
    lost_ = true;
    const std::unique_lock lock(mutex_, until);
    if (!lock.owns_lock() || comm_ == nullptr) return;
    try {
      std::promise<void> ended;
      const std::future<void> end = ended.get_future();
      std::thread([abort = nccl_.abort, comm = std::exchange(comm_, nullptr),
                   ended = std::move(ended)]() mutable {
        (void)abort(comm);
        ended.set_value();
      }).detach();
      end.wait_until(until);
    } catch (const std::exception&) {
      // There is no room for a thread: the communicator is left as it is.
    }
  }

  [[nodiscard]] cudaStream_t stream() const { return own.stream(); }

  CudaBackend& own;
  const int rank, ranks;

 private:
  const Nccl& nccl_;
  const NcclTeam& team_;
  std::timed_mutex mutex_;  // of the calls of a communicator
  std::atomic<bool> lost_ = false;
  Nccl::Comm comm_ = nullptr;
};

class NcclTeam::Line final : public backend::Communicator {
 public:
  explicit Line(Wire& wire) : wire_(wire) {}

  void send(int64_t to, std::span<const std::byte> bytes) override {
    if (bytes.empty()) return;
    wire_.enqueue("ncclSend",
                  [&] { return wire_.send(bytes.data(), bytes.size(), static_cast<int>(to)); });
  }
  void receive(int64_t from, std::span<std::byte> bytes) override {
    if (bytes.empty()) return;
    wire_.enqueue("ncclRecv", [&] {
      return wire_.receive(bytes.data(), bytes.size(), static_cast<int>(from));
    });
  }

 private:
  Wire& wire_;
};

class NcclTeam::End final : public DeviceRanks {
 public:
  explicit End(Wire& wire) : wire_(wire) {}

  [[nodiscard]] int64_t rank() const override { return wire_.rank; }
  [[nodiscard]] int64_t ranks() const override { return wire_.ranks; }

  void all_reduce_sum(View values) override { join(values, RankJoin::sum); }
  void all_reduce_max(View values) override { join(values, RankJoin::most); }

  // The rank's own are added where the first of them is; behind rows there may be a few floats
  // more.
  void sum_slices(const View& out, const SliceSums& sums) override {
    auto* const own = const_cast<float*>(sums.sums);
    const int64_t floats = sums.rows * sums.stride;
    kernels::sum_slices({own, DType::f32, sums.rows, sums.columns, sums.stride}, sums,
                        wire_.stream());
    join({own, DType::f32, 1, floats, floats}, RankJoin::sum);
    kernels::sum_slices(
        out, {.sums = own, .rows = sums.rows, .columns = sums.columns, .stride = sums.stride},
        wire_.stream());
  }

  // Before steps are recorded: a recording has no room for what makes connections.
  void connect_peers() override {
    std::byte* at = room().data();
    wire_.all_gather(at + offset(kAlignment), at, kAlignment);
    wire_.broadcast(at, kAlignment, 0);
    if (wire_.ranks > 2) exchange_shares(at, kAlignment);
    wire_.own.synchronize();
  }

  void self_test() override {
    if (trial_succeeds(*this, wire_.own)) return;
    fail(ExitCode::device_lost,
         "GPU {} gets over NCCL other numbers than were sent, or none in 20 seconds",
         wire_.own.device().index);
  }

  void all_gather_rows(View rows, std::span<const int32_t> owners) override {
    const int32_t owner = one_owner(owners);
    if (rows.rows > 0) wire_.broadcast(require_whole(rows), bytes_of(rows), owner);
  }
  void gather_columns(View columns, View all) override {
    collect(columns, wire_.rank == 0 ? all : View{}, 1);
  }
  void share_columns(View columns, View all) override {
    collect(columns, all, columns.columns * wire_.ranks / all.columns);
  }

 private:
  /// Memory for other ranks' parts.
  [[nodiscard]] std::span<std::byte> room() const {
    return wire_.own.rank_area().subspan(backend::cuda::kBarrierBytes);
  }
  [[nodiscard]] size_t offset(size_t part) const { return static_cast<size_t>(wire_.rank) * part; }
  [[nodiscard]] size_t size() const { return static_cast<size_t>(wire_.ranks); }

  void join(View values, RankJoin kind) {
    std::byte* at = require_whole(values);
    for (size_t left = bytes_of(values); left > 0;) {
      const size_t share = std::min(left, room().size()) / size() / kAlignment * kAlignment;
      const bool whole = wire_.ranks == 2 || left <= kWholeBytes || share == 0;
      const size_t piece =
          whole ? std::min(left, room().size() / size() / kAlignment * kAlignment) : share * size();
      whole ? join_whole(at, piece, values.dtype, kind)
            : join_shares(at, share, values.dtype, kind);
      at += piece;
      left -= piece;
    }
  }

  void join_whole(std::byte* at, size_t bytes, DType dtype, RankJoin kind) {
    wire_.all_gather(at, room().data(), bytes);
    join_at(at, bytes, dtype, kind, at);
  }

  void join_shares(std::byte* at, size_t share, DType dtype, RankJoin kind) {
    exchange_shares(at, share);
    std::byte* own = at + offset(share);
    join_at(own, share, dtype, kind, own);
    wire_.all_gather(own, at, share);
  }

  /// Share i of `at` goes to rank i, whose part of this one's comes into the room.
  void exchange_shares(std::byte* at, size_t share) {
    wire_.enqueue("ncclSend, ncclRecv", [&] {
      int status = 0;
      for (int other = 0; other < wire_.ranks && status == 0; ++other) {
        if (other == wire_.rank) continue;
        const size_t place = static_cast<size_t>(other) * share;
        status = wire_.send(at + place, share, other);
        if (status == 0) status = wire_.receive(room().data() + place, share, other);
      }
      return status;
    });
  }

  /// Joins the parts in the room, with this rank's own part from `own`.
  void join_at(std::byte* out, size_t bytes, DType dtype, RankJoin kind, std::byte* own) {
    RankParts parts{.ranks = wire_.ranks};
    for (int rank = 0; rank < wire_.ranks; ++rank) {
      parts.part[rank] = room().data() + static_cast<size_t>(rank) * bytes;
    }
    parts.part[wire_.rank] = own;
    const auto columns = static_cast<int64_t>(bytes / dtype_size(dtype));
    join_parts({out, dtype, 1, columns, columns}, parts, kind, wire_.stream());
  }

  /// Collects columns [i n, (i + 1) n) of `all` from rank i * alike; without data, `all` is of no
  /// interest here.
  void collect(View columns, View all, int64_t alike) {
    const size_t width = static_cast<size_t>(columns.columns) * dtype_size(columns.dtype);
    const auto most = static_cast<int64_t>(room().size() / (width * size()));
    if (most == 0) throw std::logic_error("ranks share rows that are too wide");
    for (int64_t first = 0; first < columns.rows; first += most) {
      const int64_t count = std::min(most, columns.rows - first);
      const size_t part = static_cast<size_t>(count) * width;
      std::byte* own = room().data() + offset(part);
      const View from = columns.slice_rows(first, count);
      copy_rows(own, width, from.data, row_bytes(from), width, count);
      wire_.all_gather(own, room().data(), part);
      for (int64_t i = 0; i * columns.columns < all.columns; ++i) {
        const View to =
            all.slice_rows(first, count)
                .slice_columns(i * columns.columns,
                               std::min(columns.columns, all.columns - i * columns.columns));
        copy_rows(to.data, row_bytes(to), room().data() + static_cast<size_t>(i * alike) * part,
                  width, static_cast<size_t>(to.columns) * dtype_size(to.dtype), count);
      }
    }
  }

  [[nodiscard]] static size_t row_bytes(const View& view) {
    return static_cast<size_t>(view.stride) * dtype_size(view.dtype);
  }
  void copy_rows(void* to, size_t to_stride, const void* from, size_t from_stride, size_t width,
                 int64_t rows) const {
    check(cudaMemcpy2DAsync(to, to_stride, from, from_stride, width, static_cast<size_t>(rows),
                            cudaMemcpyDeviceToDevice, wire_.stream()),
          "cudaMemcpy2DAsync");
  }

  Wire& wire_;
};

NcclTeam::NcclTeam(const Nccl& nccl, std::vector<CudaBackend*> ranks,
                   const backend::Membership& membership) {
  if (membership.ranks > kMostRanks) {
    fail(ExitCode::usage, "{} ranks on devices talk together, at most {} can", membership.ranks,
         kMostRanks);
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    Wire& wire = *wires_.emplace_back(std::make_unique<Wire>(
        nccl, *this, *ranks[i], membership.first + static_cast<int64_t>(i), membership.ranks));
    ends_.push_back(std::make_unique<End>(wire));
    lines_.push_back(std::make_unique<Line>(wire));
  }
  nccl.check(nccl.group_start(), "ncclGroupStart");
  for (const auto& wire : wires_) wire->join(membership);
  nccl.check(nccl.group_end(), "ncclCommInitRank");
}

NcclTeam::~NcclTeam() {
  abort();  // of all ranks within one time
}

backend::TensorRanks& NcclTeam::rank(int64_t index) {
  return *ends_[static_cast<size_t>(index)];
}

backend::Communicator& NcclTeam::line(int64_t index) {
  return *lines_[static_cast<size_t>(index)];
}

void NcclTeam::abort() noexcept {
  const Clock::time_point until = Clock::now() + kPatience;
  for (const auto& wire : wires_) wire->abort(until);
}

}  // namespace plimsoll::kernels
