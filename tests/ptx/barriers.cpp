// Barriers in shared memory, at which threads and bytes arrive (mbarrier).
#include <cstring>

#include "ptx/copies.h"
#include "ptx/instructions.h"
#include "ptx/operands.h"

namespace plimsoll::ptx {
namespace {

/// What the 8 bytes of a barrier hold: its phase, arrivals of a phase, arrivals and bytes that this
/// one lacks.
struct Barrier {
  uint32_t phase : 1;
  uint32_t expected : 15;
  uint32_t pending : 16;
  int32_t bytes;
};
static_assert(sizeof(Barrier) == 8);
constexpr uint32_t kMostArrivals = 0x7fff;

Barrier* barrier_at(Context& c, const Instruction& i, size_t operand, unsigned lane) {
  const uint64_t address = get_bits(c, i, operand, lane) + static_cast<uint64_t>(i.offset);
  return reinterpret_cast<Barrier*>(place(c, i, i.space, address, sizeof(Barrier)));
}

void end_phase_if_complete(Barrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.phase ^= 1;
  barrier.pending = barrier.expected;
}

void tell(Context& c, const Barrier* barrier) {
  if (c.block.races != nullptr) c.block.races->tell(barrier, c.warp.number);
}

void arrive(Context& c, const Instruction& i, Barrier& barrier, uint32_t count) {
  tell(c, &barrier);
  if (count > barrier.pending) fault(c, i, "more arrive at a barrier than it expects");
  barrier.pending = (barrier.pending - count) & 0xffff;
  end_phase_if_complete(barrier);
}

}  // namespace

void barrier_init(Context& c, const Instruction& i, Mask lanes) {
  for_lanes(lanes, [&](unsigned lane) {
    const auto count = static_cast<uint32_t>(get_bits(c, i, 1, lane));
    if (count == 0 || count > kMostArrivals) fault(c, i, "a barrier of so many arrivals");
    *barrier_at(c, i, 0, lane) = {0, count & kMostArrivals, count & kMostArrivals, 0};
  });
}

void barrier_arrive(Context& c, const Instruction& i, Mask lanes) {
  for_lanes(lanes, [&](unsigned lane) {
    Barrier& barrier = *barrier_at(c, i, 1, lane);
    uint64_t before = 0;
    std::memcpy(&before, &barrier, sizeof before);
    put_bits(c, i, 0, lane, before);
    uint32_t count = 1;
    if (i.option != 0) {
      barrier.bytes += static_cast<int32_t>(get_bits(c, i, 2, lane));
    } else if (i.operands[2].is_there()) {
      count = static_cast<uint32_t>(get_bits(c, i, 2, lane));
    }
    arrive(c, i, barrier, count);
  });
}

void barrier_expect(Context& c, const Instruction& i, Mask lanes) {
  for_lanes(lanes, [&](unsigned lane) {
    barrier_at(c, i, 0, lane)->bytes += static_cast<int32_t>(get_bits(c, i, 1, lane));
  });
}

void barrier_test(Context& c, const Instruction& i, Mask lanes) {
  Mask ended = 0;
  for_lanes(lanes, [&](unsigned lane) {
    Barrier& barrier = *barrier_at(c, i, 1, lane);
    uint32_t phase = static_cast<uint32_t>(get_bits(c, i, 2, lane)) & 1;  // a state's lowest bit
    // What is waited for may come now: one copy each time.
    uint32_t bytes = 0;
    if (barrier.phase == phase && bring_bulk(c, &barrier, bytes)) {
      barrier.bytes -= static_cast<int32_t>(bytes);
      end_phase_if_complete(barrier);
    }
    if (barrier.phase == phase) return;
    ended |= Mask{1} << lane;
    if (c.block.races != nullptr) c.block.races->learn(&barrier, c.warp.number);
  });
  put_predicate(c, i.operands[0], ended, lanes);
}

void barrier_arrive_after_copies(Context& c, const Instruction& i, Mask lanes) {
  for_lanes(lanes, [&](unsigned lane) {
    bring_all(c, lane);
    Barrier& barrier = *barrier_at(c, i, 0, lane);
    if (i.option == 0) barrier.pending = (barrier.pending + 1) & 0xffff;
    arrive(c, i, barrier, 1);
  });
}

}  // namespace plimsoll::ptx
