#include "emulation/emulator.h"

#include <fmt/format.h>

#include <deque>
#include <utility>

#include "emulation/block.h"
#include "emulation/card.h"

namespace plimsoll::emulation {

Indices current;
std::atomic<uint64_t> launches = 0;
Size3 grid_size;
Size3 block_size;

namespace {

/// Threads of the blocks that start early; a card has room for a few blocks beside a kernel's.
constexpr unsigned kEarlyThreads = 1024;
/// Capability from which on code waits by itself.
constexpr int kOverlaps = 90;

Order blocks_order = Order::forward;
Machine* other_machine = nullptr;

template <typename... Args>
void require(bool good, fmt::format_string<Args...> format, Args&&... args) {
  if (!good) throw Misuse(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

/// A launch under way.
class RunningKernel {
 public:
  explicit RunningKernel(Kernel kernel) : kernel_(std::move(kernel)), order_(blocks_order) {
    const Size3 grid = kernel_.grid, block = kernel_.block;
    threads_ = block.x * block.y * block.z;
    require(running_block == nullptr, "a kernel launched a kernel");
    require(threads_ > 0 && threads_ <= kMaxThreads, "{} threads in a block", threads_);
    require(threads_ % kWarp == 0, "{} threads in a block are no whole warps", threads_);
    require(grid.x > 0 && grid.y > 0 && grid.z > 0, "a launch of no blocks");
    require(grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535,
            "a grid of {} x {} x {} blocks", grid.x, grid.y, grid.z);
    blocks_ = uint64_t{grid.x} * grid.y * grid.z;
  }

  /// Runs as many blocks as find room up to where they wait for the kernels ahead.
  void start_early() {
    while (next_ < blocks_ && (early_.size() + 1) * threads_ <= kEarlyThreads) {
      early_.push_back(start(Previous::ahead));
      early_.back()->run();
    }
  }

  /// The kernels ahead have run.
  void finish() {
    for (const std::unique_ptr<RunningBlock>& block : early_) {
      block->set_previous_done();
      if (!block->ended()) block->run();
    }
    early_.clear();
    while (next_ < blocks_) start(Previous::done)->run();
  }

 private:
  /// The next block.
  std::unique_ptr<RunningBlock> start(Previous previous) {
    const Size3 at = index(next_++);
    std::unique_ptr<RunningBlock> block;
    if (other_machine != nullptr) block = other_machine->start(kernel_, at, order_, previous);
    return block ? std::move(block) : std::make_unique<Block>(kernel_, at, order_, previous);
  }
  [[nodiscard]] Size3 index(uint64_t turn) const {
    const uint64_t number = order_ == Order::forward ? turn : blocks_ - 1 - turn;
    const Size3 grid = kernel_.grid;
    return {static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
            static_cast<unsigned>(number / grid.x / grid.y)};
  }

  Kernel kernel_;
  Order order_;
  unsigned threads_ = 0;
  uint64_t blocks_ = 0;
  uint64_t next_ = 0;
  std::deque<std::unique_ptr<RunningBlock>> early_;
};

KernelQueue::KernelQueue() = default;
KernelQueue::~KernelQueue() = default;

void KernelQueue::run(Kernel kernel) {
  ++launches;
  kernel.overlaps = kernel.overlaps && card.code >= kOverlaps;
  auto next = std::make_unique<RunningKernel>(kernel);
  if (kernel.overlaps && last_) next->start_early();
  finish();
  last_ = std::move(next);
  if (card.code < kOverlaps) finish();
}

void KernelQueue::finish() {
  if (const std::unique_ptr<RunningKernel> last = std::move(last_)) last->finish();
}

void set_order(Order order) {
  blocks_order = order;
}

void set_machine(Machine* machine) {
  other_machine = machine;
}

void* shared_memory() {
  return running_block->shared();
}

size_t shared_bytes() {
  return running_block->shared_bytes();
}

BlockVotes block_barrier(bool vote, Site site) {
  running_block->fiber().vote = vote;
  running_block->wait(State::at_block_barrier, site);
  return running_block->votes();
}

void wait_for_previous(Site site) {
  running_block->wait_for_previous(site);
}

unsigned thread() {
  const Size3 at = current.thread;
  return at.x + block_size.x * (at.y + block_size.y * at.z);
}

unsigned lane() {
  return thread() % kWarp;
}

}  // namespace plimsoll::emulation
