// Embeddings of images that several sequences need: who holds them, how long, and how often they
// are encoded.
#include <catch2/catch.hpp>

#include "engine/scheduler.h"
#include "engine/vision/image_cache.h"
#include "engine/vision/image_holds.h"

using namespace plimsoll;
using namespace plimsoll::engine;

namespace {

constexpr Hash128 kFirstHash{1, 2}, kSecondHash{2, 2}, kThirdHash{3, 2};

/// An image whose tokens stand in these runs of the prompt.
Image image_of(const Hash128& key, std::vector<ImageRun> runs) {
  auto pixels = std::make_shared<image::Pixels>();
  for (const ImageRun& run : runs) pixels->layout.tokens += run.count;
  return {.key = key, .pixels = pixels, .runs = std::move(runs)};
}

/// A sequence with these images, of which nothing is computed.
struct Seeing {
  explicit Seeing(std::vector<Image> items) {
    images.items = std::move(items);
    sequence.images = &images;
    sequence.image_rows.assign(images.items.size(), -1);
  }
  Images images;
  Sequence sequence;
};

}  // namespace

TEST_CASE("an image that two sequences hold stays until both have let go of it") {
  ImageCache cache(10);
  CHECK(cache.hold(kFirstHash, 10)->is_new);
  CHECK_FALSE(cache.hold(kFirstHash, 10)->is_new);
  cache.release(kFirstHash);
  CHECK_FALSE(cache.hold(kSecondHash, 1).has_value());
  cache.release(kFirstHash);
  CHECK_FALSE(cache.hold(kFirstHash, 10)->is_new);  // nobody needed its room
  cache.release(kFirstHash);
  CHECK(cache.hold(kSecondHash, 1)->is_new);
  CHECK(cache.encoded() == 2);
}

TEST_CASE("the image that was used longest ago makes room, and no more than is needed") {
  ImageCache cache(10);
  for (const Hash128& key : {kFirstHash, kSecondHash}) {
    CHECK(cache.hold(key, 5)->is_new);
    cache.release(key);
  }
  CHECK(cache.hold(kFirstHash, 5)->first_row == 0);  // used again
  cache.release(kFirstHash);
  CHECK(cache.hold(kThirdHash, 5)->first_row == 5);
  CHECK_FALSE(cache.hold(kFirstHash, 5)->is_new);
  CHECK_FALSE(cache.hold(kSecondHash, 5).has_value());
  CHECK(cache.encoded() == 3);
}

TEST_CASE("an image of several tiles is held until its last token, and encoded once") {
  ImageCache cache(6);
  ImageHolds holds(cache);
  Seeing tiled({image_of(kFirstHash, {{1, 3, 0}, {6, 3, 3}})});
  Seeing other({image_of(kSecondHash, {{0, 2, 0}})});
  for (const int64_t end : {3, 5, 7, 8}) {  // within the first tile, behind it, within the second
    INFO(end);
    CHECK(holds.hold(tiled.sequence, end) == end);
    tiled.sequence.computed = end;
    holds.commit(tiled.sequence);
    CHECK(tiled.sequence.image_rows[0] == 0);
    CHECK(holds.hold(other.sequence, 2) == 0);  // no room beside it
  }
  CHECK(holds.hold(tiled.sequence, 9) == 9);
  tiled.sequence.computed = 9;
  holds.commit(tiled.sequence);
  CHECK(tiled.sequence.image_rows[0] == -1);
  CHECK(holds.take_jobs().size() == 1);
  CHECK(holds.hold(other.sequence, 2) == 2);
  CHECK(holds.take_jobs().size() == 1);
}

TEST_CASE("sequences that share an image encode it once, whichever ends first") {
  ImageCache cache(4);
  ImageHolds holds(cache);
  Seeing first({image_of(kFirstHash, {{0, 4, 0}})});
  Seeing second({image_of(kFirstHash, {{2, 4, 0}})});
  Seeing other({image_of(kSecondHash, {{0, 4, 0}})});
  CHECK(holds.hold(first.sequence, 4) == 4);
  CHECK(holds.hold(second.sequence, 6) == 6);
  CHECK(holds.take_jobs().size() == 1);
  holds.release(first.sequence);  // preempted
  CHECK(holds.hold(other.sequence, 4) == 0);
  second.sequence.computed = 6;
  holds.commit(second.sequence);
  CHECK(holds.hold(other.sequence, 4) == 4);
  CHECK(cache.encoded() == 2);
}

TEST_CASE("an image takes the first gap that it fills exactly, and an empty cache whole") {
  ImageCache cache(10);
  CHECK_FALSE(cache.hold(kFirstHash, 11).has_value());
  CHECK(cache.hold(kFirstHash, 3)->first_row == 0);
  CHECK(cache.hold(kSecondHash, 4)->first_row == 3);
  CHECK(cache.hold(kThirdHash, 3)->first_row == 7);
  constexpr Hash128 kFourth{4, 2},
      kFifth{1, 3};  // the fifth differs from the first in its low half
  cache.release(kSecondHash);
  CHECK(cache.hold(kFourth, 4)->first_row == 3);
  CHECK_FALSE(cache.hold(kFifth, 1).has_value());
  cache.release(kFirstHash);
  CHECK(cache.hold(kFifth, 3)->is_new);
  CHECK(cache.encoded() == 5);
}

TEST_CASE("tokens that see each other both ways are computed in one piece") {
  ImageCache cache(4);
  ImageHolds holds(cache);
  Seeing seeing({image_of(kFirstHash, {{2, 4, 0}})});
  seeing.images.two_way = true;
  Sequence& sequence = seeing.sequence;
  CHECK(ImageHolds::needed_end(sequence) == 1);
  CHECK(holds.hold(sequence, 2) == 2);
  CHECK(holds.take_jobs().empty());
  CHECK(holds.hold(sequence, 3) == 2);  // not within the run
  CHECK(holds.hold(sequence, 5) == 2);
  CHECK(holds.take_jobs().empty());
  sequence.computed = 2;
  CHECK(ImageHolds::needed_end(sequence) == 6);
  CHECK(holds.hold(sequence, 6) == 6);
  CHECK(holds.take_jobs().size() == 1);
  sequence.computed = 6;
  CHECK(ImageHolds::needed_end(sequence) == 7);
  Seeing one_way({image_of(kSecondHash, {{0, 4, 0}})});
  CHECK(ImageHolds::needed_end(one_way.sequence) == 1);
  Sequence text;
  text.computed = 3;
  CHECK(ImageHolds::needed_end(text) == 4);
  CHECK(holds.hold(text, 9) == 9);
}

TEST_CASE("a sequence stops before the first image that has no room") {
  ImageCache cache(4);
  ImageHolds holds(cache);
  Seeing seeing({image_of(kFirstHash, {{1, 4, 0}}), image_of(kSecondHash, {{7, 2, 0}})});
  Sequence& sequence = seeing.sequence;
  CHECK(holds.hold(sequence, 12) == 7);
  CHECK(seeing.sequence.image_rows == std::vector<int64_t>{0, -1});
  REQUIRE(holds.take_jobs().front().image == seeing.images.items.data());
  sequence.computed = 7;
  holds.commit(sequence);
  CHECK(holds.hold(sequence, 12) == 12);
  holds.release(sequence);
  CHECK(seeing.sequence.image_rows == std::vector<int64_t>{-1, -1});
  // Another one's image fills the cache: nothing of this one can be computed.
  Seeing other({image_of(kThirdHash, {{0, 4, 0}})});
  CHECK(holds.hold(other.sequence, 4) == 4);
  sequence.computed = 8;
  CHECK(holds.hold(sequence, 12) == 8);
}

TEST_CASE("a sequence that ends, or is taken back, lets go of its images") {
  for (const bool finished : {true, false}) {
    INFO(finished);
    ImageCache images(4);
    ImageHolds holds(images);
    KvCache cache({100, 4, {0}, false});
    Scheduler scheduler(cache, {8, 4, Admission::next_step, 1, 0}, &holds);
    const std::vector<TokenId> prompt(8, 1);
    Seeing first({image_of(kFirstHash, {{1, 4, 0}})}), second({image_of(kSecondHash, {{1, 4, 0}})});
    first.sequence.serial = 1;
    second.sequence.serial = 2;
    first.sequence.prompt = second.sequence.prompt = prompt;
    scheduler.add(first.sequence);
    CHECK(scheduler.schedule().size() == 1);  // four tokens of the first, in the image's midst
    scheduler.commit();
    CHECK_FALSE(images.hold(kThirdHash, 1).has_value());
    if (finished) {
      scheduler.finish(first.sequence);
    } else {
      scheduler.remove(first.sequence);
    }
    CHECK(first.sequence.image_rows == std::vector<int64_t>{-1});
    scheduler.add(second.sequence);
    CHECK(scheduler.schedule().size() == 1);
    CHECK(second.sequence.image_rows == std::vector<int64_t>{0});
  }
}

TEST_CASE("blocks with images are shared where the same embeddings stand in them") {
  // Tokens 0 to 9 in blocks of two, of which 4 to 7 are an image's.
  const std::vector<TokenId> prompt = {1, 2, 3, 4, 9, 9, 9, 9, 5, 6, 7};
  struct Row {
    const char* what;
    Hash128 key;
    std::vector<ImageRun> runs;
    int64_t shared;
  };
  for (const Row& row :
       {Row{"the same", kFirstHash, {{4, 4, 0}}, 10},
        Row{"another image", kSecondHash, {{4, 4, 0}}, 4},
        Row{"its later embeddings", kFirstHash, {{4, 4, 1}}, 4},
        Row{"other embeddings in its second half", kFirstHash, {{4, 2, 0}, {6, 2, 5}}, 6},
        Row{"an image behind", kSecondHash, {{8, 2, 0}}, 4},
        Row{"an image in the second block", kSecondHash, {{3, 1, 0}}, 2},
        Row{"an image at the end", kSecondHash, {{10, 1, 0}}, 4}}) {
    INFO(row.what);
    KvCache cache({.blocks = 30, .block_size = 2, .windows = {0}});
    Seeing first({image_of(kFirstHash, {{4, 4, 0}})}), second({image_of(row.key, row.runs)});
    first.sequence.prompt = second.sequence.prompt = prompt;
    cache.attach(first.sequence);
    cache.extend(first.sequence, 11);
    cache.attach(second.sequence);
    CHECK(second.sequence.computed == row.shared);
  }
}
