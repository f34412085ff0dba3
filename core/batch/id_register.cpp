#include "batch/id_register.h"

#include <charconv>

namespace plimsoll::batch {
namespace {

// Marks the number of a record in the table, where otherwise a line's is.
constexpr uint64_t kRecord = uint64_t{1} << 39;

// The line number that an id reads as ("17", not "017"); 0 for other ids.
uint64_t as_line_number(const std::string& id) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
  const bool whole = error == std::errc() && end == id.data() + id.size();
  return whole && !id.starts_with("0") ? number : 0;
}

}  // namespace

uint64_t IdRegister::add_record(const Digest& id, uint64_t record) {
  return ids_.insert(id, kRecord | record) & ~kRecord;
}

IdRegister::Taken IdRegister::take(const LineHead& head) {
  if (!head.id) return {};
  const uint64_t number = head.id_is_line_number ? 0 : as_line_number(*head.id);
  if (is_numbered(number)) return {.before = number};
  const Digest id = digest(*head.id);
  const uint64_t known = ids_.find(id);
  const uint64_t record = (known & kRecord) != 0 ? known & ~kRecord : 0;
  const uint64_t taker = record != 0 ? takers_[record] : known;
  if (taker != 0 && taker != head.number) return {.before = taker};
  if (head.id_is_line_number) {
    // Lines come in order; doubling keeps this linear.
    if (head.number >= numbered_.size()) numbered_.resize(2 * head.number + 64);
    numbered_[head.number] = true;
  }
  if (record != 0) {
    // Records follow each other nearly as their lines do, slots of the table do not.
    takers_.set(record, head.number);
  } else if (!head.id_is_line_number) {
    (void)ids_.insert(id, head.number);
  }
  return {.record = taker == 0 ? record : 0};
}

}  // namespace plimsoll::batch
