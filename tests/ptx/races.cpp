#include "ptx/races.h"

#include <algorithm>
#include <bit>

namespace plimsoll::ptx {

void Races::start(size_t shared_bytes) {
  cells_.resize((shared_bytes + 1) / 2);
  ++block_;
  barriers_.clear();
  for (unsigned warp = 0; warp < kWarps; ++warp) {
    clocks_[warp].fill(0);
    clocks_[warp][warp] = 1;
  }
}

void Races::tell(const void* barrier, unsigned warp) {
  Clock& known = barriers_[barrier];
  for (unsigned other = 0; other < kWarps; ++other)
    known[other] = std::max(known[other], clocks_[warp][other]);
  ++clocks_[warp][warp];
}

void Races::learn(const void* barrier, unsigned warp) {
  const auto known = barriers_.find(barrier);
  if (known == barriers_.end()) return;
  for (unsigned other = 0; other < kWarps; ++other) {
    if (other != warp) clocks_[warp][other] = std::max(clocks_[warp][other], known->second[other]);
  }
}

Races::Cell& Races::cell(size_t number) {
  Cell& found = cells_[number];
  if (found.block != block_) {
    found.block = block_;
    found.writer = kNobody;
    found.readers = 0;
    found.atomic = false;
  }
  return found;
}

std::optional<unsigned> Races::foreign_writer(const Cell& cell, unsigned warp, bool atomic) const {
  if (cell.writer == kNobody || cell.writer == warp || (atomic && cell.atomic)) return {};
  if (clocks_[warp][cell.writer] >= cell.epoch) return {};
  return cell.writer;
}

std::optional<unsigned> Races::foreign_reader(const Cell& cell, unsigned warp) const {
  for (uint32_t left = cell.readers & ~(1u << warp); left != 0; left &= left - 1) {
    const auto reader = static_cast<unsigned>(std::countr_zero(left));
    if (clocks_[warp][reader] < cell.read[reader]) return reader;
  }
  return {};
}

std::optional<unsigned> Races::read(size_t offset, size_t bytes, unsigned warp) {
  std::optional<unsigned> other;
  for (size_t number = offset / 2; number <= (offset + bytes - 1) / 2; ++number) {
    Cell& touched = cell(number);
    const bool again = (touched.readers >> warp & 1u) != 0 && touched.read[warp] == epoch(warp);
    if (again) continue;  // nothing was written since
    if (const auto writer = foreign_writer(touched, warp, false)) other = writer;
    touched.readers |= 1u << warp;
    touched.read[warp] = epoch(warp);
  }
  return other;
}

std::optional<unsigned> Races::write(size_t offset, size_t bytes, unsigned warp, Write how) {
  std::optional<unsigned> other;
  const bool compared = !how.same && bytes > 1;  // a cell has two bytes, which two warps may own
  for (size_t number = offset / 2; number <= (offset + bytes - 1) / 2; ++number) {
    Cell& touched = cell(number);
    if (compared) {
      if (const auto writer = foreign_writer(touched, warp, how.atomic)) other = writer;
      if (const auto reader = foreign_reader(touched, warp)) other = reader;
    }
    if (!how.recorded) continue;
    touched.writer = static_cast<uint8_t>(warp);
    touched.epoch = epoch(warp);
    touched.atomic = how.atomic;
    touched.readers = 0;
  }
  return other;
}

void Races::arrive(size_t offset, size_t bytes, unsigned warp, uint32_t epoch) {
  for (size_t number = offset / 2; number <= (offset + bytes - 1) / 2; ++number) {
    Cell& touched = cell(number);
    touched.writer = static_cast<uint8_t>(warp);
    touched.epoch = epoch;
    touched.atomic = false;
    touched.readers = 0;
  }
}

}  // namespace plimsoll::ptx
