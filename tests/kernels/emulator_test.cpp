// Faults that the emulator must notice, and the device's arithmetic that it must have.
#ifdef PLIMSOLL_EMULATION

#include <cuda_fp8.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "kernels/fixture.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::testing {
namespace {

using Catch::Contains;
using kernels::launch;

void run(void (*kernel)(int*), int* argument, size_t shared_bytes = 0, unsigned threads = 64) {
  launch({.grid = dim3(1), .block = dim3(threads), .shared_bytes = shared_bytes}, "test", kernel,
         argument);
  cudaDeviceSynchronize();
}

__global__ void leave_early(int*) {
  if (threadIdx.x == 3) return;
  __syncthreads();
}
__global__ void wait_apart(int*) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void lanes_apart(int* to) {
  if (threadIdx.x % 2 == 0) *to = __shfl_sync(0xffffffffu, 1, 0);
}
__global__ void foreign_lane(int* to) {
  if (threadIdx.x % 32 < 4) *to = __shfl_sync(0xfu, 1, 7);
}
__global__ void write_past(int*) {
  kernels::shared_array<int>()[16] = 1;
}
__global__ void forget_barrier(int* to) {
  int* shared = kernels::shared_array<int>();
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  to[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}
__global__ void add_one(int* x) {
  kernels::wait_for_previous();
  if (threadIdx.x == 0) ++*x;
}
__global__ void read_early(int* x) {
  const int early = *x;
  kernels::wait_for_previous();
  __syncthreads();
  if (threadIdx.x == 0) x[1] = early;
}
__global__ void write_early(int* x) {
  if (threadIdx.x == 0) *x = 7;
  __syncthreads();  // before the wait, as some kernels share what they prepare
  kernels::wait_for_previous();
}
__global__ void never_wait(int*) {}

}  // namespace

TEST_CASE("the emulator notices what has no meaning on a device") {
  int to[64] = {};
  CHECK_THROWS_WITH(run(leave_early, to), Contains("ended while others wait"));
  CHECK_THROWS_WITH(run(wait_apart, to), Contains("threads wait at emulator_test.cpp"));
  CHECK_THROWS_WITH(run(lanes_apart, to), Contains("which do not come"));
  CHECK_THROWS_WITH(run(foreign_lane, to), Contains("takes no part"));
  CHECK_THROWS_WITH(run(write_past, to, 64), Contains("past the 64 of shared memory"));
  CHECK_THROWS_WITH(run(leave_early, to, 0, 40), Contains("no whole warps"));
  CHECK_THROWS(run(leave_early, to, 64 << 20));
}

TEST_CASE("a missing barrier shows in one of the orders") {
  bool seen = false;
  for (const auto order : {emulation::Order::forward, emulation::Order::backward}) {
    emulation::set_order(order);
    int to[64] = {};
    run(forget_barrier, to, sizeof to);
    for (int i = 0; i < 64; ++i) seen = seen || to[i] != 63 - i;
  }
  emulation::set_order(emulation::Order::forward);
  CHECK(seen);
}

TEST_CASE("a kernel that does not wait for the one ahead shows where kernels overlap") {
  int x[2] = {};
  const auto both = [&](void (*first)(int*), void (*second)(int*)) {
    x[0] = x[1] = 0;
    run(add_one, x);  // what is ahead of the one ahead has run
    launch({.grid = dim3(1), .block = dim3(64)}, "first", first, x);
    run(second, x);
  };
  SECTION("on a card that overlaps them") {
    const OnCard hopper(emulation::kHopper);
    both(add_one, add_one);
    CHECK(x[0] == 3);
    both(add_one, read_early);
    CHECK(x[1] == 1);
    both(add_one, write_early);
    CHECK(x[0] == 8);
    CHECK_THROWS_WITH(both(add_one, never_wait), Contains("ended without waiting"));
  }
  SECTION("not on one that does not") {
    both(add_one, read_early);
    CHECK(x[1] == 2);
    CHECK_NOTHROW(both(add_one, never_wait));
  }
}

TEST_CASE("e4m3 rounds to nearest even, saturates and keeps NaN") {
  // Every number, and the middles between neighbours: those go to the even one.
  for (int bits = 0; bits < 0x7e; ++bits) {
    __nv_fp8_e4m3 low, high;
    low.__x = static_cast<uint8_t>(bits);
    high.__x = static_cast<uint8_t>(bits + 1);
    const float a = static_cast<float>(low), b = static_cast<float>(high);
    CHECK(a < b);
    CHECK(__nv_fp8_e4m3(a).__x == bits);
    CHECK(__nv_fp8_e4m3(-b).__x == (0x80 | (bits + 1)));
    const float middle = a + (b - a) / 2;
    CHECK(__nv_fp8_e4m3(middle).__x == (bits % 2 == 0 ? bits : bits + 1));
    CHECK(__nv_fp8_e4m3(std::nextafter(middle, 1e9f)).__x == bits + 1);
    CHECK(__nv_fp8_e4m3(std::nextafter(middle, 0.f)).__x == bits);
  }
  CHECK(static_cast<float>(__nv_fp8_e4m3(1.f)) == 1.f);
  CHECK(static_cast<float>(__nv_fp8_e4m3(0x1p-9f)) == 0x1p-9f);
  CHECK(static_cast<float>(__nv_fp8_e4m3(1e6f)) == 448.f);
  CHECK(static_cast<float>(__nv_fp8_e4m3(-INFINITY)) == -448.f);
  CHECK(std::isnan(static_cast<float>(__nv_fp8_e4m3(NAN))));
}

}  // namespace plimsoll::testing

#endif
