#include <algorithm>

#include "grammar/patterns/automaton.h"
#include "text/unicode/unicode.h"

namespace plimsoll::grammar {
namespace {

thread_local int64_t work_left = 0;
thread_local bool work_counts = false;

}  // namespace

WorkLimit::WorkLimit(int64_t units) : outermost_(!work_counts) {
  if (outermost_) {
    work_left = units;
    work_counts = true;
  }
}
WorkLimit::~WorkLimit() {
  if (outermost_) work_counts = false;
}
void WorkLimit::spend(int64_t units) {
  if (!work_counts) return;
  work_left -= units;
  if (work_left < 0) throw TooLarge("it takes more work than is allowed");
}

FreeWork::FreeWork() : counted_(work_counts) {
  work_counts = false;
}
FreeWork::~FreeWork() {
  work_counts = counted_;
}

CharSet normalized(CharSet ranges) {
  std::ranges::sort(ranges, {}, &Range::first);
  CharSet out;
  const auto put = [&](uint32_t first, uint32_t last) {
    if (first > last) return;
    if (!out.empty() && first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, last);
    } else {
      out.push_back({first, last});
    }
  };
  for (const Range& range : ranges) {
    const uint32_t last = std::min(range.last, kLastCodePoint);
    if (range.first < 0xD800) put(range.first, std::min<uint32_t>(last, 0xD7FF));
    if (last > 0xDFFF) put(std::max<uint32_t>(range.first, 0xE000), last);
  }
  return out;
}

CharSet all_chars() {
  return {{0, 0xD7FF}, {0xE000, kLastCodePoint}};
}

CharSet complement_of(const CharSet& set) {
  CharSet out;
  uint32_t next = 0;
  for (const Range& range : set) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) out.push_back({next, kLastCodePoint});
  return normalized(std::move(out));
}

CharSet intersection_of(const CharSet& a, const CharSet& b) {
  CharSet out;
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    const uint32_t first = std::max(a[i].first, b[j].first);
    const uint32_t last = std::min(a[i].last, b[j].last);
    if (first <= last) out.push_back({first, last});
    (a[i].last < b[j].last ? i : j)++;
  }
  return out;
}

std::u32string code_points_of(std::string_view utf8) {
  std::u32string out;
  for (size_t at = 0; at < utf8.size();) out.push_back(text::next_character(utf8, at));
  return out;
}

std::string utf8_of(std::u32string_view points) {
  std::string out;
  for (const char32_t c : points) text::append_character(out, c);
  return out;
}

}  // namespace plimsoll::grammar
