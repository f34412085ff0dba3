// Which layers share a block table, and what a block of them holds: rules of vLLM's
// v1/core/kv_cache_utils.py, asked one at a time.
#include "vllm/kv/kv_groups.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>

using namespace plimsoll;
using namespace plimsoll::vllm;

namespace {

KvSpec spec_of(KvKind kind, Amount page, int64_t window = 0) {
  KvSpec spec;
  spec.kind = kind;
  spec.block_size = 16;
  spec.page = spec.padded_page = page;
  spec.window = window;
  return spec;
}

using Specs = std::vector<KvSpec>;

void add(Specs& specs, int count, const KvSpec& spec) {
  for (int i = 0; i < count; ++i) {
    specs.push_back(spec);
    specs.back().layer = specs.size() - 1;
  }
}

}  // namespace

TEST_CASE("packed or not, every layer is in one group") {
  std::mt19937_64 random(17);
  for (int i = 0; i < 3000; ++i) {
    Specs specs;
    for (size_t kinds = 1 + random() % 4; kinds > 0; --kinds) {
      const auto kind = static_cast<KvKind>(random() % 8);
      const int64_t window = kind == KvKind::full || kind == KvKind::latent ? 0 : 128;
      for (size_t pages = 1 + random() % 2; pages > 0; --pages)
        add(specs, static_cast<int>(1 + random() % 9),
            spec_of(kind, int64_t{256} << (random() % 4), window));
    }
    std::vector<int> held(specs.size());
    for (const KvGroup& group : packed_groups(specs)) {
      REQUIRE_FALSE(group.layers.empty());
      for (const KvSpec& spec : group.layers) ++held[spec.layer];
    }
    REQUIRE(held == std::vector<int>(specs.size(), 1));
    std::ranges::fill(held, 0);
    for (const KvGroup& group : groups_of_equal_pages(specs, 1.5))
      for (const KvSpec& spec : group.layers) ++held[spec.layer];
    REQUIRE(held == std::vector<int>(specs.size(), 1));
  }
}
