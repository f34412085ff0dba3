#include "engine/admission.h"

#include <algorithm>
#include <bit>

namespace plimsoll::engine {
namespace {

constexpr int64_t kRemembered = 4096;
constexpr int64_t kUsual = 512;  // tokens of an answer, while little is known
constexpr int64_t kDoubt = 4;    // answers that this counts as

}  // namespace

size_t AnswerLengths::bucket_of(int64_t length) {
  const auto value = static_cast<uint64_t>(std::max<int64_t>(length, 1)) << 2;
  const auto doubling = static_cast<size_t>(std::bit_width(value)) - 3;
  const size_t quarter = (value >> doubling) & 3;
  return std::min(4 * doubling + quarter, kBuckets - 1);
}

void AnswerLengths::observe(int64_t length) {
  Bucket& bucket = of_[bucket_of(length)];
  ++bucket.count;
  bucket.tokens += length;
  if (from_[0].count + 1 >= kRemembered) {
    for (Bucket& old : of_)
      old = {old.count / 2, old.count / 2 * (old.tokens / std::max<int64_t>(old.count, 1))};
  }
  for (size_t i = kBuckets; i-- > 0;) {
    from_[i] = {from_[i + 1].count + of_[i].count, from_[i + 1].tokens + of_[i].tokens};
  }
}

int64_t AnswerLengths::expect(int64_t so_far, int64_t limit) const {
  const Bucket& longer = from_[so_far == 0 ? 0 : bucket_of(so_far) + 1];
  const int64_t guess = std::max(kUsual, 2 * so_far);
  const int64_t mean = (longer.tokens + kDoubt * guess) / (longer.count + kDoubt);
  return std::min(std::max(mean, so_far + 1), limit);
}

}  // namespace plimsoll::engine
