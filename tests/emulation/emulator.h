// Runs CUDA kernels on the CPU, compiled as C++ from the very same sources: the threads of a block
// are fibers of one OS thread, blocks run one after the other. It detects what a device does not
// report: threads that wait at different barriers, lanes that leave a warp's operation, shared
// memory that was never written (poisoned with NaN) or lies past the end of what the launch asked
// for. Fibers run until they wait, in an order that can be reversed, so a missing barrier gives
// wrong values in at least one of the orders. block.h runs a block, emulator.cpp launches.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <stdexcept>
#include <vector>

namespace plimsoll::emulation {

struct Size3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

/// A kernel did something that is undefined on a device.
class Misuse : public std::logic_error {
  using std::logic_error::logic_error;
};

/// The order in which blocks, and threads that are ready, take their turns.
enum class Order : uint8_t { forward, backward };
void set_order(Order order);

/// Limits of the devices that kernels are compiled for.
inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMaxThreads = 1024;
inline constexpr size_t kSharedByDefault = size_t{48} << 10;
inline constexpr size_t kMaxShared = size_t{163} << 10;  // compute capability 8.0

/// A launch.
struct Kernel {
  Size3 grid;
  Size3 block;
  size_t shared_bytes = 0;
  std::function<void()> code;      // of a thread
  bool overlaps = false;           // may start before the one ahead has ended (programmatic launch)
  const void* function = nullptr;  // the host's, which names the kernel
  std::vector<void*> arguments;    // where each lies
  std::shared_ptr<void> keeps_them;  // owner of the arguments
};

/// Kernels that have been started since the program began, products of cuBLASLt among them.
extern std::atomic<uint64_t> launches;

/// Whether the kernels ahead of a block's kernel have run.
enum class Previous : uint8_t { ahead, done };

/// A block of threads under way.
class RunningBlock {
 public:
  RunningBlock() = default;
  virtual ~RunningBlock() = default;
  RunningBlock(const RunningBlock&) = delete;
  RunningBlock& operator=(const RunningBlock&) = delete;
  /// Runs until all threads have ended, or until no more can be done before the kernels ahead have
  /// run. Throws Misuse.
  virtual void run() = 0;
  virtual void set_previous_done() = 0;
  [[nodiscard]] virtual bool ended() const = 0;
};

/// Another way to run kernels than as fibers (tests/ptx).
class Machine {
 public:
  Machine() = default;
  virtual ~Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  /// A block that has not begun, of a kernel that outlives it; none: the machine does not have the
  /// kernel.
  virtual std::unique_ptr<RunningBlock> start(const Kernel& kernel, Size3 index, Order order,
                                              Previous previous) = 0;
};
/// From now on runs the kernels that the machine has on it; nullptr: all as fibers.
void set_machine(Machine* machine);

/// Device memory, or the host's memory that devices may use, of the allocation that `at` lies in;
/// empty: of none.
std::span<std::byte> allocation_of(void* at);

class RunningKernel;

/// The kernels of a stream. On a card that overlaps them (card.h) the first blocks of a kernel that
/// may start early run up to wait_for_previous() before the one ahead has run at all, so that what
/// they read too early shows in the results, and what they write too early is overwritten.
class KernelQueue {
 public:
  KernelQueue();
  ~KernelQueue();
  /// Runs the kernels before it. This one runs at once where none can overlap it, else with the
  /// next call. Throws Misuse.
  void run(Kernel kernel);
  void finish();

 private:
  std::unique_ptr<RunningKernel> last_;
};

// ---- of the thread that runs ----

struct Indices {
  Size3 thread{0, 0, 0};
  Size3 block{0, 0, 0};
};
extern Indices current;
extern Size3 grid_size;
extern Size3 block_size;

/// Shared memory of the launch, of exactly the bytes that it asked for.
void* shared_memory();
size_t shared_bytes();

using Site = std::source_location;

/// Waits for all threads of the block. The result is the OR (or the sum) of all threads' values.
struct BlockVotes {
  bool any = false;
  bool all = false;
  int count = 0;
};
BlockVotes block_barrier(bool vote, Site site);

/// Operations of a warp's lanes together.
enum class WarpOp : uint8_t { sync, shuffle, ballot, match };
/// Waits for the lanes of `mask` at the same place. shuffle: the value of lane `source`; ballot:
/// lanes whose value is not 0; match: lanes with an equal value.
uint64_t warp_together(WarpOp op, uint32_t mask, uint64_t value, unsigned source, Site site);
/// Number of the thread in its block, and in its warp.
unsigned thread();
unsigned lane();
/// 1, 0, 1 ... with each call of a thread: which of two buffers it uses.
unsigned next_buffer();

/// Waits until the kernels ahead have run.
void wait_for_previous(Site site);
/// Lets other host threads run, for a thread that waits for a kernel of one of them.
void let_others_run();

}  // namespace plimsoll::emulation
