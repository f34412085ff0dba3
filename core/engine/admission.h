// What the scheduler reckons with before it lets a sequence start.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace plimsoll::engine {

/// When a sequence may start beside others: when there are blocks for all until the next step, or
/// until they have ended, as far as that can be told.
enum class Admission : uint8_t { next_step, forecast };

/// How long answers become, by those that have ended. Whole numbers alone: the same answers in the
/// same order give the same expectations. Older ones fade: beyond a few thousand, each counts half.
class AnswerLengths {
 public:
  /// An answer of so many tokens has ended.
  void observe(int64_t length);
  /// How many tokens an answer is expected to have in all that has `so_far` of at most `limit`: the
  /// mean of those that became longer than that. As long as there are few of them, 512 or twice
  /// what is there. In (so_far, limit].
  [[nodiscard]] int64_t expect(int64_t so_far, int64_t limit) const;

 private:
  static constexpr size_t kBuckets = 160;  // four for each doubling
  struct Bucket {
    int64_t count = 0;
    int64_t tokens = 0;
  };
  static size_t bucket_of(int64_t length);

  std::array<Bucket, kBuckets> of_{};        // answers of these lengths
  std::array<Bucket, kBuckets + 1> from_{};  // of these and longer ones
};

}  // namespace plimsoll::engine
