// Decisions for a launch on cards that the emulator plays.
#ifdef PLIMSOLL_EMULATION

#include "kernels/runtime/launch.h"

#include "backend/device_facts.h"
#include "kernels/fixture.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/driver_call.h"
#include "kernels/runtime/stopwatch.h"

namespace plimsoll::testing {
namespace {

using kernels::Overlap;

__global__ void nothing(int*) {
  kernels::wait_for_previous();
}
__global__ void other(int*) {
  kernels::wait_for_previous();
}

bool overlaps() {
  return kernels::can_overlap(reinterpret_cast<const void*>(&nothing));
}

}  // namespace

TEST_CASE("kernels overlap where the code that runs waits by itself") {
  {
    const OnCard card({.capability = 90, .code = 90});
    CHECK(overlaps());
    kernels::allow_overlap(Overlap::no);
    CHECK_FALSE(overlaps());
    kernels::allow_overlap(Overlap::yes);
    CHECK(overlaps());
  }
  {  // code for 8.0 that the driver compiles for a newer card
    const OnCard card({.capability = 90, .code = 80});
    CHECK_FALSE(overlaps());
  }
  {
    const OnCard card({.capability = 120, .code = 90});
    CHECK(overlaps());
  }
  CHECK_FALSE(overlaps());
}

TEST_CASE("a call of the driver that a library makes for us ends in an error where it fails") {
  const kernels::CheckedCall encode{[](int result, int) { return result; }, "cuTensorMapEncode"};
  CHECK(encode(0, 7) == 0);
  CHECK_THROWS_WITH(encode(cudaErrorInvalidValue, 7), Catch::Contains("cuTensorMapEncode"));
}

TEST_CASE("a kernel that is met after the seal is counted: the driver loads its code") {
  kernels::allow_overlap(Overlap::yes);
  kernels::preload(nothing);
  kernels::seal_allocations();
  const auto run = [](void (*kernel)(int*)) {
    kernels::launch({.grid = dim3(1), .block = dim3(32)}, "test", kernel, nullptr);
  };
  run(nothing);
  CHECK(kernels::allocations_since_seal().kernels == 0);
  run(other);
  run(other);
  CHECK(kernels::allocations_since_seal().kernels == 1);
  kernels::unseal_allocations();
}

TEST_CASE("a stopwatch lets a launch run once before it counts, and counts three times") {
  const kernels::Stream stream;
  kernels::Stopwatch watch(stream.get());
  int calls = 0, runs = 0;
  const auto run = [](void* count) { ++*static_cast<int*>(count); };
  const auto launch = [&] {
    ++calls;
    return cudaLaunchHostFunc(stream.get(), run, &runs) == cudaSuccess;
  };
  CHECK(watch.seconds(launch) < kernels::Stopwatch::kRefused);
  CHECK(calls > 2);
  CHECK(runs == 1 + 3 * (calls - 1));  // what is recorded runs when it is replayed
  calls = 0;
  CHECK(watch.seconds([&] { return ++calls < 1; }) == kernels::Stopwatch::kRefused);
  CHECK(calls == 1);
}

TEST_CASE("a build without code for a card says so before anything runs") {
  CHECK_NOTHROW(kernels::require_code(kernels::describe_device(0)));
  const OnCard card({.capability = 90, .code = 0});
  const auto make = [] { return backend::make_device_backend({.index = 0}); };
  CHECK_THROWS_WITH(make(), Catch::Contains("no code for") && Catch::Contains("capability 9.0") &&
                                Catch::Contains("-DCMAKE_CUDA_ARCHITECTURES=90"));
  CHECK_THROWS_WITH(backend::device_facts(0), Catch::Contains("no code for"));
}

TEST_CASE("the driver's state says why there is no device") {
  CHECK(kernels::driver_state().devices == 1);
  CHECK(kernels::driver_state().trouble.empty());
  {
    const OnCard old({.driver = 12040, .devices_status = cudaErrorInsufficientDriver});
    const backend::DriverState state = kernels::driver_state();
    CHECK(state.driver == 12040);
    CHECK(state.runtime == 13000);
    CHECK(state.devices == 0);
    CHECK_THAT(state.trouble, Catch::Contains("cudaErrorInsufficientDriver"));
    CHECK(backend::list_devices().empty());
  }
  const OnCard none({.devices_status = cudaErrorNoDevice});
  CHECK(kernels::driver_state().devices == 0);
  CHECK(kernels::driver_state().trouble.empty());
}

}  // namespace plimsoll::testing

#endif
