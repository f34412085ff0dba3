#include "emulation/block.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "emulation/streams.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace plimsoll::emulation {

Block* running_block = nullptr;

namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr size_t kStack = size_t{128} << 10;
// Between the tops of a warp's stacks, which would else share the few cache lines of one address
// modulo 4096.
constexpr size_t kStagger = 640;
constexpr size_t kGuard = 256;
constexpr unsigned char kPoison = 0xff;  // NaN in every floating type
constexpr unsigned char kCanary = 0xa5;

// One fiber runs at a time, of whatever block.
fcontext_t scheduler = nullptr;
std::exception_ptr error;
std::vector<std::unique_ptr<std::byte[]>> spare_stacks;
#if defined(__SANITIZE_ADDRESS__)
const void* scheduler_stack = nullptr;
size_t scheduler_stack_bytes = 0;
void* scheduler_fake = nullptr;
#endif

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

std::unique_ptr<std::byte[]> take_stack() {
  if (spare_stacks.empty()) return std::make_unique_for_overwrite<std::byte[]>(kStack);
  std::unique_ptr<std::byte[]> stack = std::move(spare_stacks.back());
  spare_stacks.pop_back();
  return stack;
}

}  // namespace

Block::Block(const Kernel& kernel, Size3 index, Order order, Previous previous)
    : kernel_(kernel),
      index_(index),
      order_(order),
      previous_(previous),
      fibers_(kernel.block.x * kernel.block.y * kernel.block.z),
      shared_(std::make_unique_for_overwrite<std::byte[]>(kernel.shared_bytes + kGuard)) {
  std::memset(shared_.get(), kPoison, kernel.shared_bytes);
  std::memset(shared_.get() + kernel.shared_bytes, kCanary, kGuard);
  for (unsigned thread = 0; thread < fibers_.size(); ++thread) start(thread);
}

Block::~Block() {
  for (std::unique_ptr<std::byte[]>& stack : stacks_) spare_stacks.push_back(std::move(stack));
}

/// Keeps where the one stopped that switched to this fiber: another fiber, or the scheduler.
void Block::arrived(transfer_t from) {
  (from.data == nullptr ? scheduler : static_cast<Fiber*>(from.data)->context) = from.fctx;
}

void Block::enter(transfer_t from) {
#if defined(__SANITIZE_ADDRESS__)
  const bool from_scheduler = from.data == nullptr;
  __sanitizer_finish_switch_fiber(nullptr, from_scheduler ? &scheduler_stack : nullptr,
                                  from_scheduler ? &scheduler_stack_bytes : nullptr);
#endif
  arrived(from);
  try {
    running_block->kernel_.code();
  } catch (...) {
    error = std::current_exception();
  }
  Fiber& self = *running_block->running_;
  self.state = State::done;
  ++running_block->done_;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, scheduler_stack, scheduler_stack_bytes);
#endif
  jump_fcontext(scheduler, &self);
}

void Block::turn_to(Fiber& fiber) {
  running_ = &fiber;
  current = fiber.indices;
}

void Block::resume(Fiber& fiber) {
  turn_to(fiber);
  running_block = this;
  grid_size = kernel_.grid;
  block_size = kernel_.block;
#if defined(__SANITIZE_ADDRESS__)
  const auto number = static_cast<size_t>(&fiber - fibers_.data());
  __sanitizer_start_switch_fiber(&scheduler_fake, stacks_[number].get(), kStack);
#endif
  const transfer_t back = jump_fcontext(fiber.context, nullptr);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(scheduler_fake, nullptr, nullptr);
#endif
  static_cast<Fiber*>(back.data)->context = back.fctx;
  running_block = nullptr;
  if (error) std::rethrow_exception(std::exchange(error, nullptr));
}

void let_others_run() {
  Block* const block = std::exchange(running_block, nullptr);
  const Indices indices = current;
  const Size3 grid = grid_size, threads = block_size;
  const fcontext_t below = scheduler;
#if defined(__SANITIZE_ADDRESS__)
  const void* const stack = scheduler_stack;
  const size_t stack_bytes = scheduler_stack_bytes;
  void* const fake = scheduler_fake;
#endif
  hand_turn_on();
  running_block = block;
  current = indices;
  grid_size = grid;
  block_size = threads;
  scheduler = below;
#if defined(__SANITIZE_ADDRESS__)
  scheduler_stack = stack;
  scheduler_stack_bytes = stack_bytes;
  scheduler_fake = fake;
#endif
}

Fiber* Block::next_in_warp(const Fiber& fiber) {
  const auto number = static_cast<unsigned>(&fiber - fibers_.data());
  const unsigned warp = number / kWarp * kWarp;
  for (unsigned i = turned(number % kWarp, kWarp) + 1; i < kWarp; ++i) {
    Fiber& next = fibers_[warp + turned(i, kWarp)];
    if (next.state == State::ready) return &next;
  }
  return nullptr;
}

void Block::wait(State state, Site site) {
  Fiber& self = *running_;
  self.state = state;
  self.site = site;
  if (state == State::at_block_barrier) ++at_barrier_;
  Fiber* const next = next_in_warp(self);
  if (next != nullptr) turn_to(*next);
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  if (next == nullptr) {
    __sanitizer_start_switch_fiber(&fake, scheduler_stack, scheduler_stack_bytes);
  } else {
    const auto number = static_cast<size_t>(next - fibers_.data());
    __sanitizer_start_switch_fiber(&fake, stacks_[number].get(), kStack);
  }
#endif
  const transfer_t back = jump_fcontext(next == nullptr ? scheduler : next->context, &self);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  arrived(back);
}

void Block::wait_for_previous(Site site) {
  waited_ = true;
  if (previous_ == Previous::ahead) wait(State::at_previous, site);
}

void Block::start(unsigned thread) {
  stacks_.push_back(take_stack());
  Fiber& fiber = fibers_[thread];
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stacks_[thread].get(), kStack);  // of a thread that ended here
#endif
  const size_t depth = kStack - thread % kWarp * kStagger;
  fiber.context = make_fcontext(stacks_[thread].get() + depth, depth, &Block::enter);
  const Size3 block = kernel_.block;
  const unsigned plane = block.x * block.y;
  fiber.indices.thread = {thread % block.x, thread / block.x % block.y, thread / plane};
  fiber.indices.block = index_;
}

void Block::run() {
  const auto threads = static_cast<unsigned>(fibers_.size());
  const unsigned warps = threads / kWarp;
  if (previous_ == Previous::done) release_previous();
  while (done_ < threads) {
    const unsigned before = done_;
    for (unsigned i = 0; i < warps; ++i) run_warp(turned(i, warps));
    if (done_ == before && at_barrier_ < threads) {
      if (waits_for_previous()) return;
      report_stuck();
    }
    release_block_if_complete();
  }
  check_shared();
  if (kernel_.overlaps && !waited_) {
    misuse("block {} ended without waiting for the kernels ahead: the next ones would not either",
           index_.x);
  }
}

void Block::release_previous() {
  for (Fiber& fiber : fibers_) {
    if (fiber.state == State::at_previous) fiber.state = State::ready;
  }
}

bool Block::waits_for_previous() const {
  for (const Fiber& fiber : fibers_) {
    if (fiber.state == State::at_previous) return true;
  }
  return false;
}

void Block::run_warp(unsigned warp) {
  Fiber* const first = &fibers_[warp * kWarp];
  const auto ready = [&]() -> Fiber* {
    for (unsigned i = 0; i < kWarp; ++i)
      if (Fiber& fiber = first[turned(i, kWarp)]; fiber.state == State::ready) return &fiber;
    return nullptr;
  };
  while (Fiber* fiber = ready()) {
    do {
      resume(*fiber);  // and those behind it, up to running_
    } while ((fiber = next_in_warp(*running_)) != nullptr);
    for (unsigned i = 0; i < kWarp; ++i)
      if (first[i].state == State::at_warp_op) release_warp_if_complete(warp, first[i]);
  }
}

void Block::check_shared() const {
  for (size_t i = 0; i < kGuard; ++i)
    if (shared_[kernel_.shared_bytes + i] != std::byte{kCanary})
      misuse("block {}: byte {} past the {} of shared memory was written", index_.x, i,
             kernel_.shared_bytes);
}

void Block::release_block_if_complete() {
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

void Block::release_warp_if_complete(unsigned warp, const Fiber& last) {
  const Fiber* first = &fibers_[warp * kWarp];
  for (unsigned i = 0; i < kWarp; ++i) {
    const unsigned lane = turned(kWarp - 1 - i, kWarp);  // those whose turn is last first
    if ((last.mask >> lane & 1u) == 0) continue;
    if (first[lane].state != State::at_warp_op || first[lane].mask != last.mask) return;
  }
  for (unsigned i = 0; i < kWarp; ++i) {
    const Fiber& other = first[i];
    if ((last.mask >> i & 1u) != 0 && (!same_place(other.site, last.site) || other.op != last.op))
      misuse("lanes of a warp meet at {} and at {}", place(other.site), place(last.site));
  }
  answer(warp, last.mask);
}

void Block::answer(unsigned warp, uint32_t mask) {
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

void Block::report_stuck() const {
  for (const Fiber& fiber : fibers_) {
    if (fiber.state != State::at_warp_op) continue;
    misuse("block {}, thread {} waits at {} for lanes {:#x}, which do not come", index_.x,
           fiber.indices.thread.x, place(fiber.site), fiber.mask);
  }
  misuse("block {}: {} of {} threads wait at a barrier, {} ended", index_.x, at_barrier_,
         fibers_.size(), done_);
}

unsigned next_buffer() {
  return running_block->fiber().buffer ^= 1u;
}

uint64_t warp_together(WarpOp op, uint32_t mask, uint64_t value, unsigned source, Site site) {
  Fiber& fiber = running_block->fiber();
  if ((mask >> lane() & 1u) == 0)
    misuse("{}: lane {} is not in the mask {:#x}", place(site), lane(), mask);
  fiber.op = op;
  fiber.mask = mask;
  fiber.value = value;
  fiber.source = source;
  running_block->wait(State::at_warp_op, site);
  return fiber.result;
}

}  // namespace plimsoll::emulation
