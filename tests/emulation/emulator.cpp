#include "emulation/emulator.h"

#include <fmt/format.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace plimsoll::emulation {

Indices current;
Size3 grid_size;
Size3 block_size;

namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr size_t kStack = size_t{128} << 10;
constexpr size_t kGuard = 256;
constexpr unsigned char kPoison = 0xff;  // NaN in every floating type
constexpr unsigned char kCanary = 0xa5;

enum class State : uint8_t { ready, at_block_barrier, at_warp_op, done };

struct Fiber {
  fcontext_t context = nullptr;
  State state = State::ready;
  Indices indices;
  Site site;
  bool vote = false;
  WarpOp op = WarpOp::sync;
  uint32_t mask = 0;
  uint64_t value = 0;
  unsigned source = 0;
  uint64_t result = 0;
};

std::string place(const Site& site) {
  const std::string_view file = site.file_name();
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), site.line());
}

bool same_place(const Site& a, const Site& b) {
  return a.line() == b.line() &&
         (a.file_name() == b.file_name() || std::string_view(a.file_name()) == b.file_name());
}

template <typename... Args>
[[noreturn]] void misuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Misuse(fmt::format(format, std::forward<Args>(args)...));
}

/// All blocks of all launches, one after the other.
class Machine {
 public:
  void set_order(Order order) { order_ = order; }
  void run(Size3 grid, Size3 block, size_t shared_bytes, const std::function<void()>& kernel);
  void* shared() { return shared_.get(); }
  [[nodiscard]] size_t shared_bytes() const { return shared_bytes_; }
  [[nodiscard]] bool running() const { return running_ != nullptr; }
  Fiber& fiber() { return *running_; }
  /// Hands over to the scheduler until the running fiber is ready again.
  void wait(State state, Site site);
  [[nodiscard]] BlockVotes votes() const { return votes_; }

 private:
  static void enter(transfer_t from);
  void start(unsigned thread);
  void resume(Fiber& fiber);
  void run_block();
  void run_warp(unsigned warp);
  void check_shared() const;
  void release_block_if_complete();
  void release_warp_if_complete(unsigned warp, const Fiber& last);
  void answer(unsigned warp, uint32_t mask);
  [[noreturn]] void report_stuck() const;
  [[nodiscard]] unsigned turned(unsigned index, unsigned count) const {
    return order_ == Order::forward ? index : count - 1 - index;
  }

  Order order_ = Order::forward;
  const std::function<void()>* kernel_ = nullptr;
  std::vector<Fiber> fibers_;
  std::vector<std::unique_ptr<std::byte[]>> stacks_;
  Fiber* running_ = nullptr;
  fcontext_t scheduler_ = nullptr;
  std::exception_ptr error_;
  std::unique_ptr<std::byte[]> shared_;
  size_t shared_bytes_ = 0;
  BlockVotes votes_;
  unsigned done_ = 0;
  unsigned at_barrier_ = 0;
#if defined(__SANITIZE_ADDRESS__)
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_stack_bytes_ = 0;
  void* scheduler_fake_ = nullptr;
#endif
};

Machine& machine() {
  static Machine instance;
  return instance;
}

void Machine::enter(transfer_t from) {
  Machine& self = machine();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self.scheduler_stack_, &self.scheduler_stack_bytes_);
#endif
  self.scheduler_ = from.fctx;
  try {
    (*self.kernel_)();
  } catch (...) {
    self.error_ = std::current_exception();
  }
  self.running_->state = State::done;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, self.scheduler_stack_, self.scheduler_stack_bytes_);
#endif
  jump_fcontext(self.scheduler_, nullptr);
}

void Machine::resume(Fiber& fiber) {
  running_ = &fiber;
  current = fiber.indices;
#if defined(__SANITIZE_ADDRESS__)
  const auto number = static_cast<size_t>(&fiber - fibers_.data());
  __sanitizer_start_switch_fiber(&scheduler_fake_, stacks_[number].get(), kStack);
#endif
  const transfer_t back = jump_fcontext(fiber.context, nullptr);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(scheduler_fake_, nullptr, nullptr);
#endif
  fiber.context = back.fctx;
  running_ = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (fiber.state == State::done) ++done_;
  if (fiber.state == State::at_block_barrier) ++at_barrier_;
}

void Machine::wait(State state, Site site) {
  Fiber& self = *running_;
  self.state = state;
  self.site = site;
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, scheduler_stack_, scheduler_stack_bytes_);
#endif
  const transfer_t back = jump_fcontext(scheduler_, nullptr);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  scheduler_ = back.fctx;
}

void Machine::start(unsigned thread) {
  if (stacks_.size() <= thread)
    stacks_.push_back(std::make_unique_for_overwrite<std::byte[]>(kStack));
  Fiber& fiber = fibers_[thread];
  fiber = Fiber{};
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stacks_[thread].get(), kStack);  // of a thread that ended here
#endif
  fiber.context = make_fcontext(stacks_[thread].get() + kStack, kStack, &Machine::enter);
  const unsigned plane = block_size.x * block_size.y;
  fiber.indices.thread = {thread % block_size.x, thread / block_size.x % block_size.y,
                          thread / plane};
  fiber.indices.block = current.block;
}

void Machine::run(Size3 grid, Size3 block, size_t shared_bytes,
                  const std::function<void()>& kernel) {
  if (running()) misuse("a kernel launched a kernel");
  const unsigned threads = block.x * block.y * block.z;
  if (threads == 0 || threads > kMaxThreads) misuse("{} threads in a block", threads);
  if (threads % kWarp != 0) misuse("{} threads in a block are no whole warps", threads);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) misuse("a launch of no blocks");
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    misuse("a grid of {} x {} x {} blocks", grid.x, grid.y, grid.z);
  kernel_ = &kernel;
  grid_size = grid;
  block_size = block;
  fibers_.resize(threads);
  shared_bytes_ = shared_bytes;
  shared_ = std::make_unique_for_overwrite<std::byte[]>(shared_bytes + kGuard);
  const uint64_t plane = uint64_t{grid.x} * grid.y;
  const uint64_t blocks = plane * grid.z;
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t number = order_ == Order::forward ? i : blocks - 1 - i;
    current.block = {static_cast<unsigned>(number % grid.x),
                     static_cast<unsigned>(number / grid.x % grid.y),
                     static_cast<unsigned>(number / plane)};
    run_block();
  }
}

void Machine::run_block() {
  std::memset(shared_.get(), kPoison, shared_bytes_);
  std::memset(shared_.get() + shared_bytes_, kCanary, kGuard);
  const auto threads = static_cast<unsigned>(fibers_.size());
  done_ = at_barrier_ = 0;
  for (unsigned thread = 0; thread < threads; ++thread) start(thread);
  const unsigned warps = threads / kWarp;
  while (done_ < threads) {
    const unsigned before = done_;
    for (unsigned i = 0; i < warps; ++i) run_warp(turned(i, warps));
    if (done_ == before && at_barrier_ < threads) report_stuck();
    release_block_if_complete();
  }
  check_shared();
}

void Machine::run_warp(unsigned warp) {
  for (bool moved = true; moved;) {
    moved = false;
    for (unsigned i = 0; i < kWarp; ++i) {
      Fiber& fiber = fibers_[warp * kWarp + turned(i, kWarp)];
      if (fiber.state != State::ready) continue;
      moved = true;
      resume(fiber);
      if (fiber.state == State::at_warp_op) release_warp_if_complete(warp, fiber);
    }
  }
}

void Machine::check_shared() const {
  for (size_t i = 0; i < kGuard; ++i)
    if (shared_[shared_bytes_ + i] != std::byte{kCanary})
      misuse("block {}: byte {} past the {} of shared memory was written", current.block.x, i,
             shared_bytes_);
}

void Machine::release_block_if_complete() {
  if (at_barrier_ == 0) return;
  if (at_barrier_ < fibers_.size()) {
    if (done_ + at_barrier_ == fibers_.size())
      misuse("{} of {} threads ended while others wait for them", done_, fibers_.size());
    return;
  }
  votes_ = {.any = false, .all = true, .count = 0};
  for (const Fiber& fiber : fibers_) {
    if (!same_place(fiber.site, fibers_.front().site))
      misuse("threads wait at {} and at {}", place(fiber.site), place(fibers_.front().site));
    votes_.any = votes_.any || fiber.vote;
    votes_.all = votes_.all && fiber.vote;
    votes_.count += fiber.vote ? 1 : 0;
  }
  for (Fiber& fiber : fibers_) fiber.state = State::ready;
  at_barrier_ = 0;
}

void Machine::release_warp_if_complete(unsigned warp, const Fiber& last) {
  const Fiber* first = &fibers_[warp * kWarp];
  for (unsigned i = 0; i < kWarp; ++i) {
    if ((last.mask >> i & 1u) == 0) continue;
    if (first[i].state != State::at_warp_op || first[i].mask != last.mask) return;
  }
  for (unsigned i = 0; i < kWarp; ++i) {
    const Fiber& other = first[i];
    if ((last.mask >> i & 1u) != 0 && (!same_place(other.site, last.site) || other.op != last.op))
      misuse("lanes of a warp meet at {} and at {}", place(other.site), place(last.site));
  }
  answer(warp, last.mask);
}

void Machine::answer(unsigned warp, uint32_t mask) {
  Fiber* first = &fibers_[warp * kWarp];
  uint32_t ballot = 0;
  for (unsigned i = 0; i < kWarp; ++i)
    if ((mask >> i & 1u) != 0 && first[i].value != 0) ballot |= 1u << i;
  for (unsigned i = 0; i < kWarp; ++i) {
    if ((mask >> i & 1u) == 0) continue;
    Fiber& fiber = first[i];
    fiber.state = State::ready;
    switch (fiber.op) {
      case WarpOp::sync:
        break;
      case WarpOp::shuffle:
        if ((mask >> fiber.source & 1u) == 0)
          misuse("{}: lane {} reads lane {}, which takes no part", place(fiber.site), i,
                 fiber.source);
        fiber.result = first[fiber.source].value;
        break;
      case WarpOp::ballot:
        fiber.result = ballot;
        break;
      case WarpOp::match:
        fiber.result = 0;
        for (unsigned j = 0; j < kWarp; ++j)
          if ((mask >> j & 1u) != 0 && first[j].value == fiber.value)
            fiber.result |= uint64_t{1} << j;
        break;
    }
  }
}

void Machine::report_stuck() const {
  for (const Fiber& fiber : fibers_) {
    if (fiber.state != State::at_warp_op) continue;
    misuse("block {}, thread {} waits at {} for lanes {:#x}, which do not come", current.block.x,
           fiber.indices.thread.x, place(fiber.site), fiber.mask);
  }
  misuse("block {}: {} of {} threads wait at a barrier, {} ended", current.block.x, at_barrier_,
         fibers_.size(), done_);
}

}  // namespace

void set_order(Order order) {
  machine().set_order(order);
}

void run(Size3 grid, Size3 block, size_t shared_bytes, const std::function<void()>& kernel) {
  machine().run(grid, block, shared_bytes, kernel);
}

void* shared_memory() {
  return machine().shared();
}

size_t shared_bytes() {
  return machine().shared_bytes();
}

BlockVotes block_barrier(bool vote, Site site) {
  machine().fiber().vote = vote;
  machine().wait(State::at_block_barrier, site);
  return machine().votes();
}

uint64_t warp_together(WarpOp op, uint32_t mask, uint64_t value, unsigned source, Site site) {
  Fiber& fiber = machine().fiber();
  if ((mask >> lane() & 1u) == 0)
    misuse("{}: lane {} is not in the mask {:#x}", place(site), lane(), mask);
  fiber.op = op;
  fiber.mask = mask;
  fiber.value = value;
  fiber.source = source;
  machine().wait(State::at_warp_op, site);
  return fiber.result;
}

unsigned lane() {
  const Size3 thread = current.thread;
  return (thread.x + block_size.x * (thread.y + block_size.y * thread.z)) % kWarp;
}

}  // namespace plimsoll::emulation
