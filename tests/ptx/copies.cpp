// Copies to shared memory that go on beside the threads. They arrive as late as the waits for them
// allow, so that a wait too few shows.
#include "ptx/copies.h"

#include <cstring>

#include "ptx/instructions.h"
#include "ptx/operands.h"

namespace plimsoll::ptx {
namespace {

void arrive(Context& c, const Copy& copy) {
  if (c.block.races != nullptr)
    c.block.races->arrive(static_cast<size_t>(copy.to - c.block.shared.data()), copy.bytes,
                          c.warp.number, c.block.races->epoch(c.warp.number));
  if (copy.from_bytes > 0) std::memcpy(copy.to, copy.from, copy.from_bytes);
  std::memset(copy.to + copy.from_bytes, 0, copy.bytes - copy.from_bytes);
}

const std::byte* source(Context& c, const Instruction& i, uint64_t address, size_t bytes) {
  const std::byte* const at = c.block.find(address, bytes);
  if (at == nullptr) fault(c, i, "copies from outside all memory of the device");
  return at;
}

}  // namespace

void bring(Context& c, unsigned lane, size_t others) {
  auto& groups = c.warp.copies[lane].groups;
  for (; groups.size() > others; groups.pop_front())
    for (const Copy& copy : groups.front()) arrive(c, copy);
}

void bring_all(Context& c, unsigned lane) {
  bring(c, lane, 0);
  for (const Copy& copy : c.warp.copies[lane].open) arrive(c, copy);
  c.warp.copies[lane].open.clear();
}

bool bring_bulk(Context& c, const void* barrier, uint32_t& bytes) {
  auto& all = c.block.bulk_copies;
  for (auto copy = all.begin(); copy != all.end(); ++copy) {
    if (copy->barrier != barrier) continue;
    std::memcpy(copy->to, copy->from, copy->bytes);
    if (c.block.races != nullptr)
      c.block.races->arrive(static_cast<size_t>(copy->to - c.block.shared.data()), copy->bytes,
                            copy->warp, copy->epoch);
    bytes = copy->bytes;
    all.erase(copy);
    return true;
  }
  return false;
}

void copy_async(Context& c, const Instruction& i, Mask lanes) {
  for_lanes(lanes, [&](unsigned lane) {
    const uint64_t to = get_bits(c, i, 0, lane) + static_cast<uint64_t>(i.offset);
    const uint64_t from = get_bits(c, i, 1, lane) + static_cast<uint64_t>(i.second_offset);
    std::byte* const at = place(c, i, Space::shared, to, i.size);
    const uint32_t bytes =
        i.operands[2].is_there() ? static_cast<uint32_t>(get_bits(c, i, 2, lane)) : i.size;
    if (bytes > i.size) fault(c, i, "copies more than it has room for");
    if (from % i.size != 0) fault(c, i, "misaligned address");
    note_write(c, i, at, i.size, {.recorded = false});
    // Of no bytes the address may be any.
    const std::byte* const first = bytes == 0 ? nullptr : source(c, i, from, bytes);
    c.warp.copies[lane].open.push_back({at, first, i.size, bytes});
  });
}

void close_group(Context& c, const Instruction&, Mask lanes) {
  for_lanes(lanes, [&](unsigned lane) {
    LaneCopies& copies = c.warp.copies[lane];
    copies.groups.push_back(std::move(copies.open));
    copies.open.clear();
  });
}

void wait_for_groups(Context& c, const Instruction& i, Mask lanes) {
  for_lanes(lanes, [&](unsigned lane) { bring(c, lane, i.option); });
}

void wait_for_copies(Context& c, const Instruction&, Mask lanes) {
  for_lanes(lanes, [&](unsigned lane) { bring_all(c, lane); });
}

void copy_bulk(Context& c, const Instruction& i, Mask lanes) {
  for_lanes(lanes, [&](unsigned lane) {
    const auto bytes = static_cast<uint32_t>(get_bits(c, i, 2, lane));
    const uint64_t from = get_bits(c, i, 1, lane), to = get_bits(c, i, 0, lane);
    if (from % kBulkUnit != 0 || to % kBulkUnit != 0 || bytes % kBulkUnit != 0)
      fault(c, i, "a bulk copy that is not in pieces of 16 bytes");
    if (bytes == 0) return;
    std::byte* const at = place(c, i, Space::shared, to, kBulkUnit);
    (void)place(c, i, Space::shared, to + bytes - kBulkUnit, kBulkUnit);
    const std::byte* const barrier =
        place(c, i, Space::shared, get_bits(c, i, 3, lane), sizeof(uint64_t));
    uint32_t epoch = 0;
    if (c.block.races != nullptr) {
      note_write(c, i, at, bytes, {.recorded = false});
      epoch = c.block.races->epoch(c.warp.number);
      c.block.races->tell(barrier, c.warp.number);
    }
    c.block.bulk_copies.push_back(
        {at, source(c, i, from, bytes), bytes, barrier, c.warp.number, epoch});
  });
}

}  // namespace plimsoll::ptx
