#include "memory/arena.h"

#include <catch2/catch.hpp>
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

TEST_CASE("host memory that the system refuses is an error of the machine") {
  CHECK_THROWS_WITH(HostMemory(size_t{1} << 60), Catch::Contains(" are left ("));
}
