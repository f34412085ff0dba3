#include "engine/forward/model.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "backend/test_footprint.h"
#include "engine/layout.h"
#include "engine/specs.h"

using namespace plimsoll;
namespace ops = backend::ops;
using backend::View;
using backend::Weight;
using Ops = std::vector<std::string>;

namespace {

using testing::kFootprint;

/// Writes down which ops run, over how many rows.
class LoggingBackend final : public testing::TouchingBackend {
 public:
  using TouchingBackend::TouchingBackend;
  Ops log;

 protected:
  void dispatch(ops::AnyOp any, std::span<std::byte> workspace) override {
    std::visit([this](const auto* op) { note(*op); }, any);
    TouchingBackend::dispatch(any, workspace);
  }

 private:
  template <typename Op>
  void note(const Op&) {}
  void note(const ops::Norm& op) { write("norm", op.out, op.in); }
  void note(const ops::Add& op) { write("add", op.residual, op.residual); }
  void note(const ops::AddNorm& op) { write("add_norm", op.out, op.residual); }
  void note(const ops::Linear& op) {
    log.push_back(fmt::format("linear {} {}>{}", op.in.rows, op.in.columns, op.out.columns));
  }
  void note(const ops::Attention& op) { log.push_back(fmt::format("attention {}", op.out.rows)); }
  void note(const ops::Scale& op) {
    log.push_back(fmt::format("scale {} by {}", op.x.rows, op.factor));
  }
  void note(const ops::MultiplyGates& op) {
    log.push_back(fmt::format("gate {} by {}", op.x.columns, op.gates.columns));
  }
  void write(const char* op, View out, View in) {
    log.push_back(fmt::format("{} {}{}", op, out.rows, out.data == in.data ? " in place" : ""));
  }
};

/// The ops of one step over `tokens` tokens of one sequence, the last `wanted` rows' logits asked.
Ops ops_of(const testing::Shape& shape, int32_t tokens, int32_t wanted) {
  const model::ModelSpec spec = testing::make_spec(shape);
  engine::EngineOptions options;
  options.max_num_seqs = 1;
  options.max_num_batched_tokens = shape.max_position;
  const engine::EngineLayout layout = engine::resolve_layout(spec, options, kFootprint);
  const engine::EnginePlan plan = engine::plan_layout(spec, layout, kFootprint);
  LoggingBackend backend(kFootprint);
  engine::LaunchMemory memory(plan, backend);
  engine::Launch launch(spec, layout, backend, memory.device());
  engine::BatchSlab& slab = launch.batch.slab();
  for (int32_t row = 0; row < tokens; ++row) {
    slab.positions[static_cast<size_t>(row)] = row;
  }
  for (int32_t i = 0; i < wanted; ++i) {
    slab.logits_rows[static_cast<size_t>(i)] = tokens - wanted + i;
  }
  slab.query_start[1] = slab.context_length[0] = tokens;
  const memory::Scope scope(launch.scratch);
  const View hidden = launch.model.forward(
      launch.batch.meta(0, {.tokens = tokens, .sequences = 1, .logits_rows = wanted}));
  CHECK(hidden.rows == wanted);
  return backend.log;
}

}  // namespace

TEST_CASE("norms are where the family has them") {
  testing::Shape shape;
  shape.windows = {0};
  SECTION("before") {
    CHECK(ops_of(shape, 3, 3) == Ops{"norm 3", "linear 3 64>128", "attention 3", "linear 3 64>64",
                                     "add_norm 3", "linear 3 64>192", "linear 3 96>64",
                                     "add 3 in place", "norm 3 in place"});
  }
  SECTION("after") {
    shape.placement = model::NormPlacement::post;
    CHECK(ops_of(shape, 3, 3) == Ops{"linear 3 64>128", "attention 3", "linear 3 64>64",
                                     "add 3 in place", "norm 3 in place", "linear 3 64>192",
                                     "linear 3 96>64", "add 3 in place", "norm 3 in place"});
  }
  SECTION("both") {
    shape.placement = model::NormPlacement::sandwich;
    CHECK(ops_of(shape, 3, 3) == Ops{"norm 3", "linear 3 64>128", "attention 3", "linear 3 64>64",
                                     "norm 3 in place", "add_norm 3", "linear 3 64>192",
                                     "linear 3 96>64", "norm 3 in place", "add 3 in place",
                                     "norm 3 in place"});
  }
  SECTION("after alone") {
    shape.placement = model::NormPlacement::sandwich;
    shape.is_outer_only = true;
    CHECK(ops_of(shape, 3, 3) == Ops{"linear 3 64>128", "attention 3", "linear 3 64>64",
                                     "norm 3 in place", "add 3 in place", "linear 3 64>192",
                                     "linear 3 96>64", "norm 3 in place", "add 3 in place",
                                     "norm 3 in place"});
  }
  SECTION("both branches from one input, with a factor and a gate") {
    shape.placement = model::NormPlacement::parallel;
    shape.branch_factor = 0.5f;
    shape.gates = shape.heads;
    CHECK(ops_of(shape, 3, 3) == Ops{"norm 3", "linear 3 64>128", "attention 3", "linear 3 64>4",
                                     "gate 64 by 4", "linear 3 64>64", "norm 3", "scale 3 by 0.5",
                                     "add 3 in place", "linear 3 64>192", "linear 3 96>64",
                                     "scale 3 by 0.5", "add 3 in place", "norm 3 in place"});
  }
}

TEST_CASE("projections stand around a narrow embedding") {
  testing::Shape shape;
  shape.windows = {0};
  shape.narrow_embedding = 8;
  const Ops ops = ops_of(shape, 2, 1);
  CHECK(ops.front() == "linear 2 8>64");
  CHECK(ops.back() == "linear 1 64>8");
}

TEST_CASE("the last layer leaves out rows whose logits nobody wants") {
  testing::Shape shape;
  shape.windows = {0, 0};
  const Ops ops = ops_of(shape, 5, 1);
  CHECK(std::count(ops.begin(), ops.end(), "linear 5 64>192") == 1);
  CHECK(std::count(ops.begin(), ops.end(), "linear 1 64>192") == 1);
  CHECK(std::count(ops.begin(), ops.end(), "attention 5") == 2);

  const Ops none = ops_of(shape, 5, 0);
  CHECK(none.back() == "attention 5");
}

TEST_CASE("a layer's last sum is one op with the norm that the next begins with") {
  testing::Shape shape;
  shape.windows = {0, 0, 0};
  const Ops layer = {"linear 2 64>128", "attention 2",     "linear 2 64>64",
                     "add_norm 2",      "linear 2 64>192", "linear 2 96>64"};
  Ops expected{"norm 2"};
  for (const char* last : {"add_norm 2", "add_norm 2", "add 2 in place"}) {
    expected.insert(expected.end(), layer.begin(), layer.end());
    expected.push_back(last);
  }
  expected.push_back("norm 2 in place");
  CHECK(ops_of(shape, 2, 2) == expected);
}

TEST_CASE("the MLP takes long steps in even slices") {
  testing::Shape shape;
  shape.windows = {0};
  shape.max_position = 5000;
  const Ops ops = ops_of(shape, 5000, 5000);
  CHECK(std::count(ops.begin(), ops.end(), "linear 5000 64>128") == 1);
  CHECK(std::count(ops.begin(), ops.end(), "linear 1667 64>192") == 2);
  CHECK(std::count(ops.begin(), ops.end(), "linear 1666 64>192") == 1);
}
