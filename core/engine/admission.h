// Rules by which the scheduler lets a sequence start.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace plimsoll::engine {

/// When a sequence may start beside others: when there are blocks for all until the next step, or
/// until all have ended, as far as that can be forecast.
enum class Admission : uint8_t { next_step, forecast };

/// Forecast of answers' lengths, from answers that have ended. Integers alone: equal answers in
/// equal order give equal expectations. Older ones fade: beyond a few thousand, each counts half.
class AnswerLengths {
 public:
  /// Notes that an answer of `length` tokens has ended.
  void observe(int64_t length);
  /// Expected tokens in all of an answer that has `so_far` of at most `limit`: the mean of the
  /// ended answers that were longer than that. While there are few of them, 512 or twice `so_far`.
  /// In (so_far, limit].
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
