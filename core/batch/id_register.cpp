#include "batch/id_register.h"

#include <charconv>

namespace plimsoll::batch {
namespace {

// The line number that an id reads as ("17", not "017"); 0 for other ids.
uint64_t as_line_number(const std::string& id) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
  const bool whole = error == std::errc() && end == id.data() + id.size();
  return whole && !id.starts_with("0") ? number : 0;
}

}  // namespace

uint64_t IdRegister::take(const LineHead& head) {
  if (!head.id) return 0;
  if (head.id_is_line_number) {
    if (const uint64_t before = given_.find(digest(*head.id))) return before;
    // Lines come in order; doubling keeps this linear.
    if (head.number >= numbered_.size()) numbered_.resize(2 * head.number + 64);
    numbered_[head.number] = true;
    return 0;
  }
  const uint64_t number = as_line_number(*head.id);
  if (is_numbered(number)) return number;
  return given_.insert(digest(*head.id), head.number);
}

}  // namespace plimsoll::batch
