// Layers over pipeline stages.
#include "model/pipeline.h"

#include <catch2/catch.hpp>

#include "base/error.h"

namespace plimsoll::model {
namespace {

using Numbers = std::vector<int64_t>;

}  // namespace

TEST_CASE("layers are divided as vLLM divides them") {
  // Layers that are left over go to the stages before the last, from the end.
  CHECK(stage_ends(6, 1, {}) == Numbers{6});
  CHECK(stage_ends(6, 2, {}) == Numbers{3, 6});
  CHECK(stage_ends(7, 2, {}) == Numbers{4, 7});
  CHECK(stage_ends(10, 4, {}) == Numbers{2, 5, 8, 10});
  CHECK(stage_ends(11, 4, {}) == Numbers{3, 6, 9, 11});
  CHECK(stage_ends(6, 6, {}) == Numbers{1, 2, 3, 4, 5, 6});
  CHECK_THROWS_WITH(stage_ends(2, 3, {}), Catch::Contains("the model has 2 layers"));
}

TEST_CASE("a partition says it otherwise") {
  CHECK(stage_ends(6, 3, {1, 2, 3}) == Numbers{1, 3, 6});
  CHECK(stage_ends(6, 2, {0, 6}) == Numbers{0, 6});
  CHECK_THROWS_WITH(stage_ends(6, 2, {1, 2, 3}), Catch::Contains("has 3 numbers"));
  CHECK_THROWS_WITH(stage_ends(6, 2, {2, 3}), Catch::Contains("has 5 layers, the model has 6"));
}

TEST_CASE("a partition's text") {
  CHECK(parse_partition("3,4,3") == Numbers{3, 4, 3});
  CHECK(parse_partition(" 3, 4 ,3 ") == Numbers{3, 4, 3});
  CHECK(parse_partition("7") == Numbers{7});
  for (const char* bad :
       {"", ",", "3,", "3;4", "-1,7", "3.5", "a", "99999999999999999999", "4097"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_partition(bad), Error);
  }
}

}  // namespace plimsoll::model
