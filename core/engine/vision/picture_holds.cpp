#include "engine/vision/picture_holds.h"

#include <algorithm>

namespace plimsoll::engine {
namespace {

/// The run that a position lies in; null: none.
const PictureRun* run_at(const Pictures& pictures, int64_t position) {
  for (const Picture& picture : pictures.items) {
    for (const PictureRun& run : picture.runs) {
      if (run.first <= position && position < run.end()) return &run;
    }
  }
  return nullptr;
}

}  // namespace

int64_t PictureHolds::needed_end(const Sequence& sequence) {
  const int64_t next = sequence.computed + 1;
  if (sequence.pictures == nullptr || !sequence.pictures->two_way) return next;
  const PictureRun* run = run_at(*sequence.pictures, sequence.computed);
  return run == nullptr ? next : run->end();
}

int64_t PictureHolds::hold(Sequence& sequence, int64_t end) {
  if (sequence.pictures == nullptr) return end;
  const Pictures& pictures = *sequence.pictures;
  if (pictures.two_way) {
    const PictureRun* run = run_at(pictures, end);
    if (run != nullptr && run->first < end) end = run->first;
  }
  for (size_t i = 0; i < pictures.items.size(); ++i) {
    const Picture& picture = pictures.items[i];
    const auto run = std::ranges::find_if(
        picture.runs, [&](const PictureRun& r) { return r.end() > sequence.computed; });
    if (run == picture.runs.end() || run->first >= end || sequence.picture_rows[i] >= 0) continue;
    const auto cached = cache_.hold(picture.key, picture.tokens());
    if (!cached) return std::min(end, std::max(sequence.computed, run->first));
    sequence.picture_rows[i] = cached->first_row;
    if (cached->is_new) jobs_.push_back({&picture, cached->first_row});
  }
  return end;
}

void PictureHolds::commit(Sequence& sequence) {
  if (sequence.pictures == nullptr) return;
  for (size_t i = 0; i < sequence.picture_rows.size(); ++i) {
    if (sequence.pictures->items[i].runs.back().end() <= sequence.computed) let_go(sequence, i);
  }
}

void PictureHolds::release(Sequence& sequence) {
  for (size_t i = 0; i < sequence.picture_rows.size(); ++i) let_go(sequence, i);
}

void PictureHolds::let_go(Sequence& sequence, size_t picture) {
  if (sequence.picture_rows[picture] < 0) return;
  sequence.picture_rows[picture] = -1;
  cache_.release(sequence.pictures->items[picture].key);
}

}  // namespace plimsoll::engine
