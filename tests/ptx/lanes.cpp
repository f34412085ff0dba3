// Operations of the lanes of a warp together.
#include "ptx/instructions.h"
#include "ptx/operands.h"

namespace plimsoll::ptx {
namespace {

constexpr uint32_t kLaneBits = kLanes - 1;

/// The lane that a shuffle reads, and whether it lies in the segment (PTX ISA, shfl.sync).
struct Chosen {
  unsigned lane;
  bool is_inside;
};
Chosen choose(Source source, unsigned lane, uint32_t argument, uint32_t segment) {
  const uint32_t by = argument & kLaneBits, mask = segment >> 8 & kLaneBits;
  const auto own = static_cast<int>(lane);
  const auto limit = static_cast<int>((lane & mask) | (segment & kLaneBits & ~mask));
  int other = own;
  switch (source) {
    case Source::up:
      other = own - static_cast<int>(by);
      break;
    case Source::down:
      other = own + static_cast<int>(by);
      break;
    case Source::butterfly:
      other = static_cast<int>(lane ^ by);
      break;
    case Source::index:
      other = static_cast<int>((lane & mask) | (by & ~mask));
      break;
  }
  const bool inside = source == Source::up ? other >= limit : other <= limit;
  return {static_cast<unsigned>(inside ? other : own), inside};
}

}  // namespace

void shuffle(Context& c, const Instruction& i, Mask lanes) {
  const Words values = c.words[i.operands[1].slot];
  Mask inside = 0;
  for_lanes(lanes, [&](unsigned lane) {
    if ((get<uint32_t>(c, i, 4, lane) >> lane & 1u) == 0)
      fault(c, i, "lane " + std::to_string(lane) + " is not in its mask");
    const Chosen from = choose(static_cast<Source>(i.option), lane, get<uint32_t>(c, i, 2, lane),
                               get<uint32_t>(c, i, 3, lane));
    if ((lanes >> from.lane & 1u) == 0)
      fault(c, i,
            "lane " + std::to_string(lane) + " reads lane " + std::to_string(from.lane) +
                ", which takes no part");
    put(c, i, 0, lane, values.lane[from.lane]);
    inside |= static_cast<Mask>(from.is_inside) << lane;
  });
  put_predicate(c, i.operands[5], inside, lanes);
}

void vote(Context& c, const Instruction& i, Mask lanes) {
  const Mask votes = get_predicate(c, i.operands[1]) & lanes;
  bool result = false;
  switch (static_cast<Vote>(i.option)) {
    case Vote::ballot:
      for_lanes(lanes, [&](unsigned lane) { put(c, i, 0, lane, votes); });
      return;
    case Vote::any:
      result = votes != 0;
      break;
    case Vote::all:
      result = votes == lanes;
      break;
    case Vote::uniform:
      result = votes == 0 || votes == lanes;
      break;
  }
  put_predicate(c, i.operands[0], result ? kAllLanes : 0, lanes);
}

void match_any(Context& c, const Instruction& i, Mask lanes) {
  Mask equal[kLanes] = {};
  for_lanes(lanes, [&](unsigned lane) {
    for_lanes(lanes, [&](unsigned other) {
      const bool same = get_bits(c, i, 1, lane) == get_bits(c, i, 1, other);
      equal[lane] |= static_cast<Mask>(same) << other;
    });
  });
  for_lanes(lanes, [&](unsigned lane) { put(c, i, 0, lane, equal[lane]); });
}

}  // namespace plimsoll::ptx
