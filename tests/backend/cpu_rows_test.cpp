#include "backend/cpu_fixture.h"
#include "base/error.h"

namespace plimsoll::testing {
namespace {

using backend::View;
using model::WeightUse;

TEST_CASE("norms agree with the reference, in place and added to the residual") {
  const model::Norm kinds[] = {
      {.kind = model::NormKind::rms, .epsilon = 1e-6f, .present = true},
      {.kind = model::NormKind::rms, .epsilon = 1e-5f, .weight_offset = 1, .present = true},
      {.kind = model::NormKind::layer, .epsilon = 1e-5f, .present = true}};
  for (const CpuIsa isa : isas())
    for (const model::Norm& spec : kinds)
      for (const int64_t width : {1, 7, 64, 200, 2051}) {
        CAPTURE(isa_name(isa), static_cast<int>(spec.kind), width);
        CpuFixture cpu(isa, 2);
        const LoadedWeight weight(*cpu, {width}, WeightUse::vector, DType::f32, 1);
        const LoadedWeight bias(*cpu, {width}, WeightUse::vector, DType::bf16, 2);
        Rows in = Rows::random(40, width, 3, 10);
        Rows delta = Rows::random(40, width, 4);
        Rows out(40, width);
        cpu->run(ops::AddNorm{out, in, delta, spec, weight.weight, bias.weight});
        const Matrix expected =
            reference::norm(in.matrix(), spec, weight.values.values, bias.values.values);
        CHECK(distance(out.matrix(), expected) < 1e-6);
        Rows plain = in;
        cpu->run(ops::Norm{plain, plain, spec, {}, {}});
        CHECK(distance(plain.matrix(), reference::norm(in.matrix(), spec, {}, {})) < 1e-6);
        // Alone, a row has the same bits.
        Rows alone(1, width);
        cpu->run(ops::Norm{alone, View(in).slice_rows(17, 1), spec, weight.weight, bias.weight});
        CHECK(alone.same_bits(0, out, 17));
      }
}

TEST_CASE("soft caps bend, rows are gathered and added") {
  for (const CpuIsa isa : isas()) {
    CpuFixture cpu(isa, 2);
    Rows in = Rows::random(9, 77, 1, 20);
    Rows capped = in;
    cpu->run(ops::SoftCap{capped, 30.f});
    for (int64_t i = 0; i < 77; ++i)
      CHECK(double(capped.row(3)[i]) ==
            Approx(30 * std::tanh(double(in.row(3)[i]) / 30)).epsilon(1e-6));
    const std::vector<int32_t> order = {8, 0, 0};
    Rows gathered(3, 77);
    cpu->run(ops::GatherRows{gathered, in, backend::BatchMeta{.logits_rows = order}});
    CHECK(gathered.same_bits(0, in, 8));
    CHECK(gathered.same_bits(2, in, 0));
    cpu->run(ops::Add{gathered, View(in).slice_rows(0, 3)});
    CHECK(gathered.row(2)[76] == in.row(0)[76] + in.row(2)[76]);
  }
}

TEST_CASE("gates multiply columns or heads, factors all, xIELU bends") {
  for (const CpuIsa isa : isas())
    for (const int64_t columns : {1, 7, 64, 210}) {
      CAPTURE(isa_name(isa), columns);
      CpuFixture cpu(isa, 2);
      const Rows in = Rows::random(20, columns, 1, 3);
      const LoadedWeight parameters(*cpu, {4}, WeightUse::vector, DType::bf16, 5);
      Rows bent = in, scaled = in;
      cpu->run(ops::Xielu{bent, parameters.weight});
      cpu->run(ops::Scale{scaled, 0.3f});
      Matrix expected_bent = in.matrix(), expected_scaled = in.matrix();
      for (double& x : expected_bent.values) x = reference::xielu(parameters.values.values, x);
      for (double& x : expected_scaled.values) x *= double(0.3f);
      CHECK(distance(bent.matrix(), expected_bent) < 1e-6);
      CHECK(distance(scaled.matrix(), expected_scaled) < 1e-7);
      for (const int64_t gates : {columns, int64_t{1}})
        for (const auto kind : {model::GateKind::sigmoid, model::GateKind::softplus}) {
          Rows factors = Rows::random(20, gates, 2, 5);
          Rows out = in;
          cpu->run(ops::MultiplyGates{out, factors, kind});
          Matrix expected = in.matrix();
          for (int64_t t = 0; t < 20; ++t)
            for (int64_t i = 0; i < columns; ++i) {
              const double gate = double(factors.row(t)[i / (columns / gates)]);
              expected.at(t, i) *= kind == model::GateKind::sigmoid ? 1 / (1 + std::exp(-gate))
                                                                    : reference::softplus(gate);
            }
          CHECK(distance(out.matrix(), expected) < 1e-6);
        }
    }
}

TEST_CASE("columns of heads are copied, shared or cleared") {
  for (const CpuIsa isa : isas()) {
    CpuFixture cpu(isa, 2);
    for (const backend::HeadColumns& c :
         {backend::HeadColumns{
              .heads = 3, .width = 4, .from = 2, .from_stride = 7, .to = 1, .to_stride = 5},
          backend::HeadColumns{.heads = 4, .width = 3, .from = 5, .to = 2, .to_stride = 4}}) {
      Rows in = Rows::random(9, 22, 1);
      const Rows before = Rows::random(9, 18, 2);
      Rows out = before, cleared = before;
      cpu->run(ops::CopyHeads{out, in, c});
      cpu->run(ops::CopyHeads{cleared, {}, c});
      Matrix expected = before.matrix(), zeros = before.matrix();
      for (int64_t t = 0; t < 9; ++t)
        for (int64_t h = 0; h < c.heads; ++h)
          for (int64_t i = 0; i < c.width; ++i) {
            const int64_t to = c.to + h * c.to_stride + i;
            expected.at(t, to) = double(in.row(t)[c.from + h * c.from_stride + i]);
            zeros.at(t, to) = 0;
          }
      CHECK(out.matrix().values == expected.values);
      CHECK(cleared.matrix().values == zeros.values);
    }
    Rows in(2, 10), out(2, 10);
    CHECK_THROWS_WITH(cpu->run(ops::CopyHeads{
                          out, in, {.heads = 2, .width = 4, .from_stride = 7, .to_stride = 4}}),
                      Catch::Contains("2 heads of 4 columns of in [2, 10]"));
  }
}

TEST_CASE("xIELU is exact beside 0") {
  for (const CpuIsa isa : isas()) {
    CpuFixture cpu(isa, 1);
    const LoadedWeight parameters(*cpu, {4}, WeightUse::vector, DType::f32, 6, 1e-6);
    Rows x(1, 5);
    const float values[] = {-1e-3f, -1e-7f, -0.2f, -0.5f, 1e-4f};
    std::copy(std::begin(values), std::end(values), x.row(0));
    cpu->run(ops::Xielu{x, parameters.weight});
    for (int64_t i = 0; i < 5; ++i)
      CHECK(double(x.row(0)[i]) ==
            Approx(reference::xielu(parameters.values.values, double(values[i]))).epsilon(1e-5));
  }
}

TEST_CASE("instruction sets go by name, and one that is missing is refused") {
  for (const CpuIsa isa : isas()) CHECK(backend::isa_from_name(backend::isa_name(isa)) == isa);
  CHECK_FALSE(backend::isa_from_name("sse9"));
  if (!backend::has_isa(CpuIsa::avx512bf16))
    CHECK_THROWS_AS(backend::make_cpu_backend({CpuIsa::avx512bf16, 1}), Error);
  CHECK_THROWS_AS(backend::make_cpu_backend({CpuIsa::portable, 0}), Error);
}

}  // namespace
}  // namespace plimsoll::testing
