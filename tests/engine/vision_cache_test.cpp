// Embeddings of pictures that several sequences need: who holds them, how long, and how often they
// are encoded.
#include <catch2/catch.hpp>

#include "engine/vision/picture_cache.h"
#include "engine/vision/picture_holds.h"

using namespace plimsoll;
using namespace plimsoll::engine;

namespace {

constexpr Hash128 kFirst{1, 2}, kSecond{2, 2}, kThird{3, 2};

/// A picture whose tokens stand in these runs of the prompt.
Picture picture_of(const Hash128& key, std::vector<PictureRun> runs) {
  auto pixels = std::make_shared<image::Pixels>();
  for (const PictureRun& run : runs) pixels->layout.tokens += run.count;
  return {.key = key, .pixels = pixels, .runs = std::move(runs)};
}

/// A sequence with these pictures, of which nothing is computed.
struct Seeing {
  explicit Seeing(std::vector<Picture> items) {
    pictures.items = std::move(items);
    sequence.pictures = &pictures;
    sequence.picture_rows.assign(pictures.items.size(), -1);
  }
  Pictures pictures;
  Sequence sequence;
};

}  // namespace

TEST_CASE("a picture that two sequences hold stays until both have let go of it") {
  PictureCache cache(10);
  CHECK(cache.hold(kFirst, 10)->is_new);
  CHECK_FALSE(cache.hold(kFirst, 10)->is_new);
  cache.release(kFirst);
  CHECK_FALSE(cache.hold(kSecond, 1).has_value());
  cache.release(kFirst);
  CHECK_FALSE(cache.hold(kFirst, 10)->is_new);  // nobody needed its room
  cache.release(kFirst);
  CHECK(cache.hold(kSecond, 1)->is_new);
  CHECK(cache.encoded() == 2);
}

TEST_CASE("the picture that was used longest ago makes room, and no more than is needed") {
  PictureCache cache(10);
  for (const Hash128& key : {kFirst, kSecond}) {
    CHECK(cache.hold(key, 5)->is_new);
    cache.release(key);
  }
  CHECK(cache.hold(kFirst, 5)->first_row == 0);  // used again
  cache.release(kFirst);
  CHECK(cache.hold(kThird, 5)->first_row == 5);
  CHECK_FALSE(cache.hold(kFirst, 5)->is_new);
  CHECK_FALSE(cache.hold(kSecond, 5).has_value());
  CHECK(cache.encoded() == 3);
}

TEST_CASE("a picture of several tiles is held until its last token, and encoded once") {
  PictureCache cache(6);
  PictureHolds holds(cache);
  Seeing tiled({picture_of(kFirst, {{1, 3, 0}, {6, 3, 3}})});
  Seeing other({picture_of(kSecond, {{0, 2, 0}})});
  for (const int64_t end : {3, 5, 7, 8}) {  // within the first tile, behind it, within the second
    INFO(end);
    CHECK(holds.hold(tiled.sequence, end) == end);
    tiled.sequence.computed = end;
    holds.commit(tiled.sequence);
    CHECK(tiled.sequence.picture_rows[0] == 0);
    CHECK(holds.hold(other.sequence, 2) == 0);  // no room beside it
  }
  CHECK(holds.hold(tiled.sequence, 9) == 9);
  tiled.sequence.computed = 9;
  holds.commit(tiled.sequence);
  CHECK(tiled.sequence.picture_rows[0] == -1);
  CHECK(holds.take_jobs().size() == 1);
  CHECK(holds.hold(other.sequence, 2) == 2);
  CHECK(holds.take_jobs().size() == 1);
}

TEST_CASE("sequences that share a picture encode it once, whichever ends first") {
  PictureCache cache(4);
  PictureHolds holds(cache);
  Seeing first({picture_of(kFirst, {{0, 4, 0}})});
  Seeing second({picture_of(kFirst, {{2, 4, 0}})});
  Seeing other({picture_of(kSecond, {{0, 4, 0}})});
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
