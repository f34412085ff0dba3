// Reading of NVML's answers.
#include "kernels/runtime/nvml.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "kernels/fixture.h"
#include "kernels/runtime/device.h"

using namespace plimsoll;
using kernels::CardName;
using kernels::Nvml;
using kernels::NvmlProcess;
using kernels::NvmlTable;

namespace {

/// The library: a card and a part of it.
struct Card {
  std::string uuid, pci;
  unsigned long long used = 0;
  std::vector<NvmlProcess> processes;
};
std::vector<Card> cards;

int find(NvmlTable::Device* to, const auto& matches) {
  const auto found = std::ranges::find_if(cards, matches);
  if (found == cards.end()) return 6;  // not found
  *to = &*found;
  return 0;
}
int by_uuid(const char* name, NvmlTable::Device* to) {
  return find(to, [&](const Card& card) { return card.uuid == name; });
}
int by_pci(const char* name, NvmlTable::Device* to) {
  return find(to, [&](const Card& card) { return card.pci == name; });
}
int memory(NvmlTable::Device device, NvmlTable::Memory* to) {
  to->used = static_cast<Card*>(device)->used;
  return 0;
}
int processes(NvmlTable::Device device, unsigned* count, NvmlProcess* to) {
  const std::vector<NvmlProcess>& all = static_cast<Card*>(device)->processes;
  const bool fits = all.size() <= *count;
  *count = static_cast<unsigned>(all.size());
  if (fits) std::ranges::copy(all, to);
  return fits ? 0 : 7;
}

Nvml library() {
  return Nvml({.by_uuid = by_uuid, .by_pci = by_pci, .memory = memory, .processes = processes});
}

}  // namespace

TEST_CASE("of two launches on a card each has its own bytes") {
  cards = {{.uuid = "GPU-a-1", .pci = "0000:3B:00.0", .used = 90, .processes = {}}};
  for (unsigned pid = 1; pid <= 100; ++pid) cards[0].processes.push_back({pid, pid * 10, 0, 0});
  for (const CardName& name : {CardName{"a-1", ""}, CardName{"", "0000:3B:00.0"}}) {
    CHECK(library().process_bytes(name, 5) == 50u);
    CHECK(library().process_bytes(name, 100) == 1000u);  // beyond the first guess of their number
    CHECK(library().used_bytes(name) == 90u);
    // The driver's numbers of processes may be others in a container.
    CHECK_FALSE(library().process_bytes(name, 101));
  }
  cards[0].processes[4].bytes = ~0ull;  // "not available"
  CHECK_FALSE(library().process_bytes({"a-1", ""}, 5));
  CHECK_FALSE(library().process_bytes({"b-2", ""}, 5));
}

TEST_CASE("a part of a card is asked for by its own name") {
  cards = {{.uuid = "GPU-whole", .pci = "0000:3B:00.0", .used = 900, .processes = {{7, 800, 0, 0}}},
           {.uuid = "MIG-part", .pci = "", .used = 9, .processes = {{7, 8, 1, 0}}}};
  const CardName part{"part", "0000:3B:00.0"};
  CHECK(library().used_bytes(part) == 9u);
  CHECK(library().process_bytes(part, 7) == 8u);
}

TEST_CASE("without NVML our own count stands in") {
  const Nvml none{NvmlTable{}};
  CHECK_FALSE(none.is_there());
  CHECK_FALSE(none.used_bytes({"a", "b"}));
  CHECK_FALSE(none.process_bytes({"a", "b"}, 1));
#ifdef PLIMSOLL_EMULATION
  const uint64_t before = kernels::process_memory(0).bytes;
  {
    const kernels::DeviceMemory memory(12345);
    CHECK(kernels::process_memory(0).bytes == before + 12345);
    CHECK(kernels::process_memory(0).source == backend::MemorySource::allocations);
  }
  CHECK(kernels::process_memory(0).bytes == before);
  CHECK(kernels::card_name(0).uuid == "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
#endif
}
