// The interpreter on PTX written by hand: what it computes, and the faults that it notices.
#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/fixture.h"
#include "ptx/block.h"
#include "ptx/module.h"
#include "ptx/text.h"

namespace plimsoll::testing {
namespace {

using Catch::Contains;
using Words = std::vector<uint32_t>;

/// A kernel with registers of every kind: %r1 is the thread, %r2 the address of the first word of
/// shared memory that is its own, %rd1 the parameter, %rd2 the address of the thread's word there.
std::string kernel(const std::string& body) {
  return R"(.version 8.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 room[];
.visible .entry test(.param .u64 to)
.maxntid 128, 1, 1
{
  .reg .pred %p<8>;
  .reg .b16 %h<8>;
  .reg .b32 %r<32>;
  .reg .f32 %f<8>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [to];
  mov.u32 %r1, %tid.x;
  mad.wide.u32 %rd2, %r1, 4, %rd1;
  mov.u32 %r2, room;
  mad.lo.s32 %r2, %r1, 4, %r2;
)" + body +
         "\n  ret;\n}\n";
}

struct Shape {
  unsigned threads = 64;
  size_t shared = 1024;
  bool overlaps = false;
  emulation::Order order = emulation::Order::forward;
  emulation::Previous previous = emulation::Previous::done;
};

/// Runs a block of the kernel over words of device memory.
void run(const std::string& body, const DeviceArray<uint32_t>& to, const Shape& shape) {
  ptx::Module module(kernel(body));
  void* address = to.data();
  emulation::Kernel launch;
  launch.block = {shape.threads, 1, 1};
  launch.shared_bytes = shape.shared;
  launch.overlaps = shape.overlaps;
  launch.arguments = {&address};
  ptx::Block block(module.code("test"), launch, {0, 0, 0}, shape.order, shape.previous,
                   ptx::Watch::races);
  block.run();
  if (block.ended()) return;
  block.set_previous_done();
  block.run();
}

/// What a block of one warp writes.
Words results(const std::string& body, Words from = Words(32)) {
  const DeviceArray<uint32_t> to(from);
  run(body, to, {.threads = 32});
  return to.download();
}
uint32_t result(const std::string& body) {
  return results(body + "\n  st.global.u32 [%rd2], %r3;").front();
}

void fails(const std::string& body, const std::string& message, const Shape& shape = {}) {
  INFO(body);
  const DeviceArray<uint32_t> to(Words(128));
  CHECK_THROWS_WITH(run(body, to, shape), Contains(message));
}

}  // namespace

TEST_CASE("instructions of PTX have their results") {
  CHECK(result("mov.b32 %r3, 0x76543210; prmt.b32 %r3, %r3, 0x89abcdef, 0x0f51;") == 0x10ffcd32);
  CHECK(result("mov.b32 %r3, -1; bfi.b32 %r3, 5, %r3, 4, 8;") == 0xfffff05fu);
  CHECK(result("mov.b32 %r4, -7; div.s32 %r3, %r4, 2;") == uint32_t(-3));
  CHECK(result("mov.b32 %r4, -7; shr.s32 %r3, %r4, 40;") == 0xffffffffu);
  CHECK(result("mov.b32 %r4, 7; shl.b32 %r3, %r4, 32;") == 0);
  CHECK(result("mov.b32 %r4, 0xf0; lop3.b32 %r3, %r4, 0xcc, 0xaa, 0xe8;") ==
        ((0xf0 & 0xcc) | (0xf0 & 0xaa) | (0xcc & 0xaa)));
  CHECK(result("cvt.rn.satfinite.e4m3x2.f32 %h1, 0f44000000, 0fBF800000; cvt.u32.u16 %r3, %h1;") ==
        0x7eb8);
  CHECK(result("cvt.rni.s32.f32 %r3, 0f40200000;") == 2);           // 2.5
  CHECK(result("cvt.rzi.s32.f32 %r3, 0f7FC00000;") == 0);           // NaN
  CHECK(result("cvt.rzi.s32.f32 %r3, 0f7F000000;") == 0x7fffffff);  // 1.7e38
  CHECK(result("min.f32 %r3, 0f7FC00000, 0f3F800000;") == 0x3f800000);
  CHECK(result("setp.ltu.f32 %p1, 0f7FC00000, 0f3F800000; selp.b32 %r3, 1, 2, %p1;") == 1);
  CHECK(result("setp.ne.f32 %p1, 0f7FC00000, 0f3F800000; selp.b32 %r3, 1, 2, %p1;") == 2);
}

TEST_CASE("sums and products are rounded once, as the instruction says") {
  const float third = 1.f / 3, tiny = 0x1p-80f;
  const auto add = [](float a, float b, const char* how) {
    return std::bit_cast<float>(
        result("mov.b32 %r4, " + std::to_string(std::bit_cast<uint32_t>(a)) + "; mov.b32 %r5, " +
               std::to_string(std::bit_cast<uint32_t>(b)) + "; " + how));
  };
  CHECK(add(1, -tiny, "add.rz.f32 %r3, %r4, %r5;") == std::nextafter(1.f, 0.f));
  CHECK(add(1, tiny, "add.rz.f32 %r3, %r4, %r5;") == 1);
  CHECK(add(-1, tiny, "add.rz.f32 %r3, %r4, %r5;") == -std::nextafter(1.f, 0.f));
  CHECK(add(third, third, "fma.rm.f32 %r3, %r4, 0f40400000, %r5;") <=
        3.0 * double(third) + double(third));
  CHECK(add(-tiny, 1, "fma.rm.f32 %r3, %r4, 0f3F800000, %r5;") == std::nextafter(1.f, 0.f));
  CHECK(add(tiny, -1, "fma.rm.f32 %r3, %r4, 0f3F800000, %r5;") == -1);
  // 1 + 2^-8 lies between two bf16; the least bit beyond decides.
  CHECK(result("cvt.rn.bf16x2.f32 %r3, 0f3F808000, 0f3F808001;") == 0x3f803f81);
}

TEST_CASE("lanes that went apart meet again") {
  const Words to = results(R"(
  setp.lt.u32 %p1, %r1, 16;
  @%p1 bra low;
  mov.u32 %r3, 7;
  bra.uni both;
low:
  mov.u32 %r3, 5;
both:
  shfl.sync.bfly.b32 %r4, %r3, 16, 31, -1;
  vote.sync.ballot.b32 %r5, %p1, -1;
  add.s32 %r3, %r4, %r5;
  st.global.u32 [%rd2], %r3;)");
  CHECK(to.front() == 7 + 0xffff);
  CHECK(to.back() == 5 + 0xffff);
}

TEST_CASE("a matrix is loaded as it is and transposed") {
  // Row r, column c is 8 r + c.
  const std::string fill = R"(
  shl.b32 %r3, %r1, 1;
  add.s32 %r4, %r3, 1;
  shl.b32 %r4, %r4, 16;
  or.b32 %r3, %r3, %r4;
  st.shared.u32 [%r2], %r3;
  bar.warp.sync -1;
  mov.u32 %r5, room;
  and.b32 %r6, %r1, 7;
  mad.lo.s32 %r5, %r6, 16, %r5;
)";
  const Words plain = results(fill +
                              "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r5]; "
                              "st.global.u32 [%rd2], %r3;");
  CHECK(plain[5] == (10u | 11u << 16));
  const Words turned = results(fill +
                               "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r3}, [%r5]; "
                               "st.global.u32 [%rd2], %r3;");
  CHECK(turned[5] == (17u | 25u << 16));
}

TEST_CASE("the interpreter notices what has no meaning on a device") {
  fails("ld.global.u32 %r3, [%rd2+2];", "misaligned address");
  fails("st.shared.u32 [%r2+1024], %r1;", "shared memory past the end: byte 1024 of 1024");
  fails("st.global.u32 [%rd2+1000000000], %r1;", "outside all memory");
  fails("mov.b64 %rd3, 0; ld.global.u32 %r3, [%rd3];", "outside all memory");
  fails("setp.lt.u32 %p1, %r1, 32; @%p1 bra other; bar.sync 0; bra end; other: bar.sync 1; end:",
        "threads wait at a barrier that others do not come to");
  fails("setp.lt.u32 %p1, %r1, 3; @%p1 bar.sync 0;", "for some of the lanes");
  fails("setp.lt.u32 %p1, %r1, 3; @%p1 ret; shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;",
        "lanes of the mask have ended");
  fails("bar.arrive 1, 48;", "more threads come to a barrier");
  fails("trap;", "trap");
  fails("mov.u32 %r3, room; mbarrier.init.shared::cta.b64 [%r3+1024], 1;", "past the end");
  fails("loop: bra loop;", "does not end", {.threads = 32});
  CHECK_THROWS_WITH(ptx::Module(kernel("wgmma.fence.sync.aligned;")).code("test"),
                    Contains("test: the instruction is not known: wgmma.fence.sync.aligned"));
}

TEST_CASE("the interpreter notices accesses to shared memory that no barrier orders") {
  const std::string store = "st.shared.u32 [%r2], %r1;", wait = "bar.sync 0;";
  const std::string read = "xor.b32 %r3, %r2, 128; ld.shared.u32 %r4, [%r3];";
  for (const auto order : {emulation::Order::forward, emulation::Order::backward}) {
    fails(store + read, "without a barrier", {.order = order});
    fails(store + wait + read + "st.shared.u32 [%r2], %r4;", "without a barrier", {.order = order});
    const DeviceArray<uint32_t> to(Words(128));
    CHECK_NOTHROW(
        run(store + wait + read + wait + "st.shared.u32 [%r2], %r4;", to, {.order = order}));
  }
}

TEST_CASE("copies arrive no earlier than they are waited for") {
  const std::string copy = R"(
  mov.u32 %r3, room;
  cp.async.ca.shared.global [%r2], [%rd2], 4;
  cp.async.commit_group;
  cp.async.commit_group;
)";
  const std::string read =
      "ld.shared.u32 %r4, [%r2]; add.s32 %r4, %r4, 1; st.global.u32 [%rd2], %r4;";
  const Words from(32, 41);
  CHECK(results(copy + "cp.async.wait_group 1;" + read, from).front() == 42);
  CHECK(results(copy + "cp.async.wait_group 2;" + read, from).front() == 0);  // of 0xffffffff
  CHECK(results(copy + read, from).front() == 0);
  const std::string bulk = R"(
  mov.u32 %r3, room;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared::cta.b64 [%r3+512], 1;
  bar.warp.sync -1;
  add.s32 %r5, %r3, 512;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 128;
  @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 128, [%r5];
)";
  const std::string wait =
      "again: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], 0; @!%p2 bra again;";
  CHECK(results(bulk + wait + read, from).back() == 42);
  CHECK(results(bulk + read, from).back() == 0);
}

TEST_CASE("a block stops where it waits for the kernels ahead") {
  const std::string early = "mov.u32 %r3, 9; st.global.u32 [%rd2], %r3;";
  const DeviceArray<uint32_t> to(Words(64));
  const Shape overlapped{.overlaps = true, .previous = emulation::Previous::ahead};
  run("griddepcontrol.wait;" + early, to, overlapped);
  CHECK(to.download().front() == 9);
  fails(early, "ended without waiting for the kernels ahead", overlapped);
}

TEST_CASE("names of anonymous namespaces are the host compiler's") {
  CHECK(ptx::plain_symbol("_ZN1a27_GLOBAL__N__12345678_9_x_cu3runEi") ==
        "_ZN1a12_GLOBAL__N_13runEi");
  CHECK(ptx::plain_symbol("_ZN1a3runEi") == "_ZN1a3runEi");
}

}  // namespace plimsoll::testing
