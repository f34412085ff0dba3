// Groups of layers that share a block table.
#pragma once

#include <vector>

#include "vllm/kv/kv_plan.h"

namespace plimsoll::vllm {

/// True when both layers hold equally many blocks for a request of any length.
bool same_type(const KvSpec& a, const KvSpec& b);

/// True when all layers are of one type: a single group.
bool is_uniform(const std::vector<KvSpec>& specs);

/// Makes all pages equal, by longer blocks where the pages divide, else by padding.
void unify_pages(std::vector<KvSpec>& specs);

/// Buckets of equal layers, split into groups of about the smallest bucket's size.
std::vector<KvGroup> groups_of_equal_pages(const std::vector<KvSpec>& specs, double factor);

/// Buckets packed side by side in a block (DeepSeek-V4).
std::vector<KvGroup> packed_groups(const std::vector<KvSpec>& specs);

}  // namespace plimsoll::vllm
