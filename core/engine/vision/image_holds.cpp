#include "engine/vision/image_holds.h"

#include <algorithm>

namespace plimsoll::engine {
namespace {

/// The run that a position lies in; null: none.
const ImageRun* run_at(const Images& images, int64_t position) {
  for (const Image& image : images.items) {
    for (const ImageRun& run : image.runs) {
      if (run.first <= position && position < run.end()) return &run;
    }
  }
  return nullptr;
}

}  // namespace

int64_t ImageHolds::needed_end(const Sequence& sequence) {
  const int64_t next = sequence.computed + 1;
  if (sequence.images == nullptr || !sequence.images->two_way) return next;
  const ImageRun* run = run_at(*sequence.images, sequence.computed);
  return run == nullptr ? next : run->end();
}

int64_t ImageHolds::hold(Sequence& sequence, int64_t end) {
  if (sequence.images == nullptr) return end;
  const Images& images = *sequence.images;
  if (images.two_way) {
    const ImageRun* run = run_at(images, end);
    if (run != nullptr && run->first < end) end = run->first;
  }
  for (size_t i = 0; i < images.items.size(); ++i) {
    const Image& image = images.items[i];
    const auto run = std::ranges::find_if(
        image.runs, [&](const ImageRun& r) { return r.end() > sequence.computed; });
    if (run == image.runs.end() || run->first >= end || sequence.image_rows[i] >= 0) continue;
    const auto cached = cache_.hold(image.key, image.tokens());
    if (!cached) return std::min(end, std::max(sequence.computed, run->first));
    sequence.image_rows[i] = cached->first_row;
    if (cached->is_new) jobs_.push_back({&image, cached->first_row});
  }
  return end;
}

void ImageHolds::commit(Sequence& sequence) {
  for (size_t i = 0; i < sequence.image_rows.size(); ++i) {
    if (sequence.images->items[i].runs.back().end() <= sequence.computed) let_go(sequence, i);
  }
}

void ImageHolds::release(Sequence& sequence) {
  for (size_t i = 0; i < sequence.image_rows.size(); ++i) let_go(sequence, i);
}

void ImageHolds::let_go(Sequence& sequence, size_t image) {
  if (sequence.image_rows[image] < 0) return;
  sequence.image_rows[image] = -1;
  cache_.release(sequence.images->items[image].key);
}

}  // namespace plimsoll::engine
