#include "memory/arena.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "memory/host_memory.h"

using namespace plimsoll::memory;

namespace {

/// Something that lays itself out, as constructors do.
void lay_out(Arena& arena) {
  arena.take("weights", 100);
  {
    const Scope scope(arena);
    arena.take("temporary", 1000);
  }
  arena.take_array<int32_t>("ids", 33);
}

}  // namespace

TEST_CASE("counting and placing find the same regions") {
  Arena counted = Arena::counting();
  lay_out(counted);
  CHECK(counted.regions() == std::vector<Region>{{"weights", 0, 256}, {"ids", 256, 256}});
  CHECK(counted.used() == 512);
  CHECK(counted.peak() == 256 + 1024);

  HostMemory memory(counted.peak());
  Arena placed = Arena::placing(memory.data(), memory.size());
  lay_out(placed);
  CHECK(placed.regions() == counted.regions());
  CHECK(placed.peak() == counted.peak());
}

TEST_CASE("what scopes take is given back and shared") {
  Arena arena = Arena::counting();
  void* first = nullptr;
  {
    const Scope scope(arena);
    first = arena.take("a", 64);
  }
  const Scope scope(arena);
  CHECK(arena.take("b", 64) == first);
  CHECK(arena.regions().empty());
}

TEST_CASE("running past the end names the region") {
  std::vector<std::byte> memory(1024);
  Arena arena = Arena::placing(memory.data(), memory.size());
  arena.take("a", 257);
  CHECK_THROWS_WITH(arena.take("logits", 513),
                    Catch::Contains("'logits' wants 513 bytes, 512 are left"));
  CHECK_THROWS_AS(arena.take("huge", ~size_t{0}), std::logic_error);
}

TEST_CASE("host memory is aligned, zeroed and writable to its end") {
  HostMemory memory(1000);
  auto* bytes = static_cast<unsigned char*>(memory.data());
  CHECK(reinterpret_cast<uintptr_t>(bytes) % Arena::kAlignment == 0);
  CHECK(bytes[999] == 0);
  std::memset(bytes, 1, memory.size());
}

TEST_CASE("host memory goes back to the system, and none of it is memory too") {
  void* at = nullptr;
  unsigned char resident = 0;
  {
    const HostMemory memory(1 << 20);
    at = memory.data();
    CHECK(mincore(at, 1, &resident) == 0);
  }
  CHECK(mincore(at, 1, &resident) == -1);
  CHECK(errno == ENOMEM);  // not mapped
  const HostMemory none(0);
  CHECK(none.size() >= 1);
  std::memset(none.data(), 1, none.size());
}

TEST_CASE("names of regions begin with a prefix while it is there, and layouts go on behind it") {
  Arena arena = Arena::counting();
  {
    const Prefix prefix(arena, "draft ");
    arena.take("weights", 300);
    const Scope scope(arena);
    arena.take("scratch", 1);
  }
  arena.take("weights", 1);
  CHECK(arena.regions() == std::vector<Region>{{"draft weights", 0, 512}, {"weights", 512, 256}});
  std::vector<std::byte> memory(1024);
  Arena placed = Arena::placing(memory.data(), memory.size());
  CHECK(placed.left() == 1024);
  CHECK(placed.take("nothing", 0) == memory.data());
  CHECK(placed.take("byte", 1) == memory.data());
  CHECK(placed.left() == 768);
  CHECK(placed.take("c", 768) == memory.data() + 256);
  CHECK(placed.left() == 0);
}

TEST_CASE("host memory that the system refuses is an error of the machine") {
  CHECK_THROWS_WITH(HostMemory(size_t{1} << 60), Catch::Contains(" are left ("));
}
