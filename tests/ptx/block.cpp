#include "ptx/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "ptx/operands.h"

namespace plimsoll::ptx {
namespace {

using emulation::Misuse;
using emulation::Order;
using emulation::Previous;

/// Instructions of a warp before another one has its turn.
constexpr int64_t kTurn = 20000;
/// Jumps back before other lanes of the warp have their turn, which may do what a loop waits for.
constexpr unsigned kJumps = 512;
/// Instructions of the warps of a block that does not end.
constexpr uint64_t kMostInstructions = 400'000'000;
constexpr std::byte kPoison{0xff};  // NaN in every floating type

/// The fragment that is least far, of those that are ready: lanes meet again soonest so.
size_t next_fragment(const Warp& warp) {
  size_t next = warp.fragments.size();
  for (size_t n = 0; n < warp.fragments.size(); ++n) {
    const Fragment& fragment = warp.fragments[n];
    if (fragment.wait != Wait::none || fragment.rests) continue;
    if (next == warp.fragments.size() || fragment.at < warp.fragments[next].at) next = n;
  }
  return next;
}

/// Joins the lanes that stand where this fragment stands. Returns its new number.
size_t join_fragments(Warp& warp, size_t number) {
  auto& all = warp.fragments;
  for (size_t n = 0; n < all.size();) {
    const bool can = all[n].wait == Wait::none || all[n].wait == Wait::for_lanes;
    if (n == number || all[n].at != all[number].at || !can) {
      ++n;
      continue;
    }
    all[number].lanes |= all[n].lanes;
    all.erase(all.begin() + static_cast<ptrdiff_t>(n));
    if (n < number) --number;
  }
  return number;
}

/// The next place where other lanes of the warp stand.
int32_t next_meeting(const Warp& warp, size_t number) {
  int32_t place = std::numeric_limits<int32_t>::max();
  for (const Fragment& other : warp.fragments) {
    const bool comes = other.wait != Wait::for_block && other.wait != Wait::for_previous;
    if (comes && other.at > warp.fragments[number].at) place = std::min(place, other.at);
  }
  return place;
}

Mask mask_of(const Context& c, const Instruction& i, unsigned lane) {
  if (i.mask_operand < 0) return c.warp.present;
  return get<uint32_t>(c, i, static_cast<size_t>(i.mask_operand), lane);
}

/// Whether each lane's mask has all lanes.
bool is_of_all(const Context& c, const Instruction& i) {
  if (i.mask_operand < 0) return true;
  Mask masks = kAllLanes;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    masks &= get<uint32_t>(c, i, static_cast<size_t>(i.mask_operand), lane);
  return masks == kAllLanes;
}

}  // namespace

Block::Block(const Code& code, const emulation::Kernel& kernel, emulation::Size3 index, Order order,
             Previous previous, Watch watch)
    : kernel_(kernel), order_(order), previous_(previous) {
  threads_ = kernel.block.x * kernel.block.y * kernel.block.z;
  if (threads_ > code.most_threads)
    throw Misuse(fmt::format("{}: {} threads, which was compiled for {}", code.name, threads_,
                             code.most_threads));
  if (kernel.arguments.size() != code.parameters.size())
    throw Misuse(code.name + ": the launch has other parameters than the PTX");
  state_.code = &code;
  state_.grid = kernel.grid;
  state_.threads = kernel.block;
  state_.index = index;
  const size_t shared = dynamic_shared(code.shared_bytes) + kernel.shared_bytes;
  auto& spare = code.spare;
  const auto fit = std::ranges::find_if(
      spare, [&](const auto& memory) { return memory->fits(threads_, shared); });
  if (fit == spare.end()) {
    state_.memory = std::make_shared<BlockMemory>(code, threads_, shared);
  } else {
    state_.memory = std::move(*fit);
    spare.erase(fit);
  }
  if (watch == Watch::races) state_.races = &state_.memory->races;
  prepare();
}

Block::~Block() {
  constexpr size_t kMostSpare = 8;
  if (state_.code->spare.size() < kMostSpare)
    state_.code->spare.push_back(std::move(state_.memory));
}

void Block::prepare() {
  const Code& code = *state_.code;
  state_.shared = state_.memory->shared();
  std::ranges::fill(state_.shared, kPoison);
  for (size_t n = 0; n < code.parameters.size(); ++n)
    std::memcpy(state_.memory->parameters.data() + code.parameters[n].offset, kernel_.arguments[n],
                code.parameters[n].bytes);
  if (state_.races != nullptr) state_.races->start(state_.shared.size());
  for (Warp& warp : state_.memory->warps) {
    warp.alive = warp.present;
    warp.fragments.assign(1, {.lanes = warp.present});
    warp.copies.assign(kLanes, {});
    for (const auto& [slot, value] : code.specials)
      for (unsigned lane = 0; lane < kLanes; ++lane)
        warp.words[static_cast<size_t>(slot)].lane[lane] = value(state_, warp.number, lane);
  }
}

void Block::run() {
  auto& warps = state_.memory->warps;
  if (previous_ == Previous::done) {
    for (Warp& warp : warps)
      for (Fragment& fragment : warp.fragments)
        if (fragment.wait == Wait::for_previous) fragment.wait = Wait::none;
  }
  while (!ended()) {
    bool moved = false;
    for (size_t n = 0; n < warps.size(); ++n) {
      Warp& warp = warps[order_ == Order::forward ? n : warps.size() - 1 - n];
      if (warp.alive != 0 && run_warp(warp)) moved = true;
    }
    if (moved) continue;
    if (waits_for_previous()) return;
    report_stuck();
  }
  if (kernel_.overlaps && !waited_)
    throw Misuse(fmt::format(
        "{}: block {} ended without waiting for the kernels ahead: the next ones would not either",
        state_.code->name, state_.index.x));
}

bool Block::waits_for_previous() const {
  return std::ranges::any_of(state_.memory->warps, [](const Warp& warp) {
    return std::ranges::any_of(warp.fragments, [](const Fragment& fragment) {
      return fragment.wait == Wait::for_previous;
    });
  });
}

void Block::report_stuck() {
  for (const Warp& warp : state_.memory->warps)
    for (const Fragment& fragment : warp.fragments) {
      const auto at = static_cast<size_t>(fragment.at);
      if (fragment.wait == Wait::for_lanes)
        fault(state_, warp.number, state_.code->instructions[at],
              "waits for lanes, which do not come");
      if (fragment.wait == Wait::for_block)
        fault(
            state_, warp.number, state_.code->instructions[at - 1],
            fmt::format("threads wait at a barrier that others do not come to ({} ended)", ended_));
    }
  throw Misuse(state_.code->name + ": nothing can go on");
}

bool Block::run_warp(Warp& warp) {
  Context c{state_, warp, warp.words.data(), warp.wides.data(), warp.predicates.data()};
  bool moved = false;
  for (int64_t left = kTurn; left > 0;) {
    const size_t number = next_fragment(warp);
    if (number == warp.fragments.size()) break;
    moved = true;
    run_fragment(c, join_fragments(warp, number), left);
  }
  for (Fragment& fragment : warp.fragments) {
    moved = moved || fragment.rests;
    fragment.rests = false;
  }
  return moved;
}

/// Runs a fragment until it splits, waits, meets others or has had its turn.
void Block::run_fragment(Context& c, size_t number, int64_t& left) {
  const Fragment fragment = c.warp.fragments[number];
  const int32_t meeting = next_meeting(c.warp, number);
  const Instruction* const code = state_.code->instructions.data();
  const int64_t before = left;
  int32_t at = fragment.at;
  unsigned jumps = 0;
  for (bool goes_on = true; goes_on;) {
    const Instruction& i = code[at];
    Mask lanes = fragment.lanes;
    if (i.guard.is_there()) lanes &= get_predicate(c, i.guard);
    --left;
    if (lanes != 0) i.ran = true;
    if (lanes == 0) {
      ++at;
    } else if (i.flow == Flow::plain) {
      i.function(c, i, lanes);
      ++at;
    } else if (i.flow == Flow::branch && lanes == fragment.lanes) {
      jumps += i.target <= at ? 1 : 0;
      at = i.target;
      goes_on = c.warp.fragments.size() == 1;  // else others may stand between
    } else {
      goes_on = change_flow(c, number, i, lanes, at);
      if (!goes_on) break;
    }
    const bool rests = jumps > kJumps && c.warp.fragments.size() > 1;
    goes_on = goes_on && at < meeting && left > 0 && !rests;
    if (goes_on) continue;
    c.warp.fragments[number].at = at;
    c.warp.fragments[number].rests = rests;
  }
  instructions_ += static_cast<uint64_t>(before - left);
  if (instructions_ > kMostInstructions)
    fault(c, code[at], "the block does not end, or runs for very long");
}

bool Block::change_flow(Context& c, size_t number, const Instruction& i, Mask lanes, int32_t& at) {
  Fragment& fragment = c.warp.fragments[number];
  switch (i.flow) {
    case Flow::plain:
      break;
    case Flow::branch:
      branch(c, number, i, lanes, at);
      return false;
    case Flow::exit:
      leave(c, number, i, lanes, at);
      return false;
    case Flow::trap:
      fault(c, i, "trap");
    case Flow::together:
      if (run_together(c, i, lanes, fragment.lanes)) break;
      fragment.at = at;
      fragment.wait = Wait::for_lanes;
      return false;
    case Flow::wait_previous:
      waited_ = true;
      if (previous_ == Previous::done) break;
      fragment.at = at + 1;
      fragment.wait = Wait::for_previous;
      return false;
    case Flow::block_barrier:
      if (lanes != fragment.lanes) fault(c, i, "a barrier of the block for some of the lanes");
      fragment.at = at + 1;
      arrive(c, number, i, lanes);
      return false;
  }
  ++at;
  return true;
}

/// Some lanes jump, the others go on.
void Block::branch(Context& c, size_t number, const Instruction& i, Mask lanes, int32_t at) {
  Fragment& fragment = c.warp.fragments[number];
  fragment.at = at + 1;
  fragment.lanes &= ~lanes;
  c.warp.fragments.push_back({.at = i.target, .lanes = lanes});
}

void Block::leave(Context& c, size_t number, const Instruction&, Mask lanes, int32_t at) {
  Fragment& fragment = c.warp.fragments[number];
  c.warp.alive &= ~lanes;
  ended_ += static_cast<unsigned>(std::popcount(lanes));
  if (state_.races != nullptr) state_.races->tell(this, c.warp.number);
  fragment.lanes &= ~lanes;
  fragment.at = at + 1;
  if (fragment.lanes == 0)
    c.warp.fragments.erase(c.warp.fragments.begin() + static_cast<ptrdiff_t>(number));
  for (unsigned barrier = 0; barrier < kBarriers; ++barrier) release_if_complete(barrier);
}

/// Serves the lanes of each mask once all of them are here; false: some still come.
bool Block::run_together(Context& c, const Instruction& i, Mask lanes, Mask here) {
  if (lanes == kAllLanes && is_of_all(c, i)) {
    i.function(c, i, lanes);
    return true;
  }
  const auto group_of = [&](unsigned first, Mask left) {
    Mask group = 0;
    for (unsigned lane = first; lane < kLanes; ++lane)
      if ((left >> lane & 1u) != 0 && mask_of(c, i, lane) == mask_of(c, i, first))
        group |= Mask{1} << lane;
    return group;
  };
  for (Mask left = lanes; left != 0;) {
    const auto first = static_cast<unsigned>(std::countr_zero(left));
    const Mask missing = mask_of(c, i, first) & ~lanes & c.warp.present;
    if ((missing & ~c.warp.alive) != 0) fault(c, i, "lanes of the mask have ended");
    if ((missing & ~here) != 0) return false;
    if (missing != 0) fault(c, i, "lanes of the mask leave it out");
    left &= ~group_of(first, left);
  }
  for (Mask left = lanes; left != 0;) {
    const Mask group = group_of(static_cast<unsigned>(std::countr_zero(left)), left);
    i.function(c, i, group);
    left &= ~group;
  }
  return true;
}

void Block::arrive(Context& c, size_t number, const Instruction& i, Mask lanes) {
  const auto first = static_cast<unsigned>(std::countr_zero(lanes));
  const auto id = get<uint32_t>(c, i, 1, first);
  if (id >= kBarriers) fault(c, i, "there is no such barrier");
  Barrier& barrier = barriers_[id];
  const bool counted = i.operands[2].is_there();
  const unsigned expected = counted ? get<uint32_t>(c, i, 2, first) : threads_;
  if (barrier.arrived != 0 && barrier.expected != expected)
    fault(c, i, "a barrier of other numbers of threads");
  barrier.expected = expected;
  barrier.counted = counted;
  barrier.arrived += static_cast<unsigned>(std::popcount(lanes));
  if (barrier.arrived > expected) fault(c, i, "more threads come to a barrier than it expects");
  if (state_.races != nullptr) state_.races->tell(&barrier, c.warp.number);
  if (i.option != kArrivesAlone) {
    const Mask votes = i.operands[3].is_there() ? get_predicate(c, i.operands[3]) & lanes : 0;
    c.warp.fragments[number].wait = Wait::for_block;
    c.warp.fragments[number].barrier = id;
    barrier.waiting.push_back({&c.warp, &i, lanes, votes});
  }
  release_if_complete(id);
}

/// Threads that have ended are not waited for where a barrier is of the whole block.
void Block::release_if_complete(unsigned number) {
  Barrier& barrier = barriers_[number];
  const unsigned gone = barrier.counted ? 0 : ended_;
  if (barrier.arrived == 0 || barrier.arrived + gone < barrier.expected) return;
  answer(barrier);
  if (state_.races != nullptr) {
    for (const Barrier::Arrival& arrival : barrier.waiting) {
      state_.races->learn(&barrier, arrival.warp->number);
      if (!barrier.counted) state_.races->learn(this, arrival.warp->number);
    }
    state_.races->forget(&barrier);
  }
  barrier = {};
  for (Warp& warp : state_.memory->warps)
    for (Fragment& fragment : warp.fragments)
      if (fragment.wait == Wait::for_block && fragment.barrier == number)
        fragment.wait = Wait::none;
}

/// Gives every thread what all have voted.
void Block::answer(Barrier& barrier) {
  uint32_t votes = 0, voters = 0;
  for (const Barrier::Arrival& arrival : barrier.waiting) {
    votes += static_cast<uint32_t>(std::popcount(arrival.votes));
    voters += static_cast<uint32_t>(std::popcount(arrival.lanes));
  }
  for (const Barrier::Arrival& arrival : barrier.waiting) {
    const Instruction& i = *arrival.instruction;
    Warp& warp = *arrival.warp;
    Context c{state_, warp, warp.words.data(), warp.wides.data(), warp.predicates.data()};
    const auto reduction = static_cast<Reduction>(i.size);
    if (reduction == Reduction::count) {
      for_lanes(arrival.lanes, [&](unsigned lane) { put(c, i, 0, lane, votes); });
    } else if (reduction != Reduction::none) {
      const bool value = reduction == Reduction::any ? votes > 0 : votes == voters;
      put_predicate(c, i.operands[0], value ? kAllLanes : 0, arrival.lanes);
    }
  }
}

}  // namespace plimsoll::ptx
