// Ops of models with several residuals, or bounds, against their twins.
#include <catch2/catch.hpp>

#include "backend/cpu_fixture.h"

namespace plimsoll::testing {
namespace {

TEST_CASE("rows take the size of others, small ones by a bound") {
  for (const CpuIsa isa : isas())
    for (const int64_t columns : {1, 37, 256}) {
      CAPTURE(isa_name(isa), columns);
      CpuFixture cpu(isa, 2);
      Rows x = Rows::random(5, columns, 1);
      const Rows like = Rows::random(5, columns, 2);
      for (int64_t c = 0; c < columns; ++c) x.row(3)[c] *= 1e-4f;
      for (int64_t c = 0; c < columns; ++c) x.row(4)[c] = 0;
      const Matrix expected = reference::match_size(x.matrix(), like.matrix());
      Rows others = like;
      cpu->run(ops::MatchSize{x, others});
      CHECK(distance(x.matrix(), expected) < 1e-6);
      CHECK(x.row(4)[0] == 0);
    }
}

TEST_CASE("what is not far above a row's mean becomes 0") {
  for (const CpuIsa isa : isas())
    for (const int64_t columns : {1, 37, 256}) {
      CAPTURE(isa_name(isa), columns);
      CpuFixture cpu(isa, 2);
      Rows x = Rows::random(6, columns, 3);
      const Matrix expected = reference::keep_above(x.matrix(), 0.7);
      cpu->run(ops::KeepAbove{x, 0.7f});
      CHECK(distance(x.matrix(), expected) < 2e-6);
    }
}

TEST_CASE("gates are cut from above, ups on both sides") {
  for (const CpuIsa isa : isas())
    for (const model::GateLimits limits : {model::GateLimits{0.5f, 0.25f}, {0.5f, 0}, {0, 0.25f}}) {
      CAPTURE(isa_name(isa), limits.gate, limits.up);
      CpuFixture cpu(isa, 2);
      Rows x = Rows::random(6, 74, 4);
      const Matrix expected = reference::limit_gates(x.matrix(), limits);
      cpu->run(ops::LimitGates{x, limits});
      CHECK(distance(x.matrix(), expected) == 0);
    }
}

}  // namespace
}  // namespace plimsoll::testing
