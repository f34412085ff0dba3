#include "vllm/kv/kv_groups.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/rounding.h"

namespace plimsoll::vllm {
namespace {

bool is_full(KvKind kind) {
  return kind == KvKind::full || kind == KvKind::latent;
}

/// Equal but for what grouping does not look at.
bool mergeable(const KvSpec& a, const KvSpec& b) {
  return a.kind == b.kind && a.block_size == b.block_size && a.page == b.page &&
         a.padded_page == b.padded_page && a.window == b.window && a.kernel == b.kernel;
}

/// The n-th of `count` groups takes layers n, n + count, ...
std::vector<KvGroup> dealt(const std::vector<KvSpec>& layers, size_t count) {
  std::vector<KvGroup> groups(count);
  for (size_t i = 0; i < layers.size(); ++i) groups[i % count].layers.push_back(layers[i]);
  return groups;
}

}  // namespace

bool same_type(const KvSpec& a, const KvSpec& b) {
  if (a.block_size != b.block_size) return false;
  if (is_full(a.kind) && is_full(b.kind)) return true;
  if (a.kind != b.kind || a.window != b.window) return false;
  return a.kind != KvKind::state ||
         (a.padded_page == b.padded_page && a.replicated == b.replicated);
}

bool is_uniform(const std::vector<KvSpec>& specs) {
  return std::all_of(specs.begin(), specs.end(),
                     [&](const KvSpec& spec) { return same_type(specs.front(), spec); });
}

void unify_pages(std::vector<KvSpec>& specs) {
  Amount largest = 0;
  for (const KvSpec& spec : specs) largest = std::max(largest, spec.padded_page);
  for (KvSpec& spec : specs) {
    if (spec.padded_page == largest) continue;
    const int64_t page = spec.padded_page.value();
    if (spec.kind != KvKind::state && page > 0 && largest.value() % page == 0) {
      spec.block_size *= largest.value() / page;
      spec.page = largest;
    }
    spec.padded_page = largest;
  }
}

std::vector<KvGroup> groups_of_equal_pages(const std::vector<KvSpec>& specs, double factor) {
  std::vector<std::vector<KvSpec>> buckets;
  for (const KvSpec& spec : specs) {
    const auto home = std::find_if(buckets.begin(), buckets.end(), [&](const auto& bucket) {
      return mergeable(bucket.front(), spec);
    });
    if (home == buckets.end()) {
      buckets.push_back({spec});
    } else {
      home->push_back(spec);
    }
  }
  size_t least = specs.size();
  size_t most = 0;
  for (const auto& bucket : buckets) {
    least = std::min(least, bucket.size());
    most = std::max(most, bucket.size());
  }
  const bool close = static_cast<double>(most) < static_cast<double>(least) * factor;
  const size_t size = close ? most : least;
  std::vector<KvGroup> groups;
  for (const auto& bucket : buckets) {
    for (KvGroup& group : dealt(bucket, divide_up(bucket.size(), size))) {
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

namespace {

/// Layers of one type, by size of page in order of appearance.
struct Bucket {
  std::vector<KvSpec> layers;
  std::vector<std::pair<Amount, std::vector<KvSpec>>> by_page;
  [[nodiscard]] bool balanced() const {
    return std::all_of(by_page.begin(), by_page.end(), [&](const auto& pages) {
      return pages.second.size() == by_page.front().second.size();
    });
  }
  [[nodiscard]] size_t repeats() const {
    size_t most = 0;
    for (const auto& pages : by_page) most = std::max(most, pages.second.size());
    return most;
  }
  [[nodiscard]] Amount widest(size_t groups) const {
    Amount sum = 0;
    for (const auto& [page, layers_of] : by_page) {
      sum += page * static_cast<int64_t>(divide_up(layers_of.size(), groups));
    }
    return sum;
  }
};

std::vector<Bucket> buckets_of(const std::vector<KvSpec>& specs) {
  std::vector<Bucket> buckets;
  for (const KvSpec& spec : specs) {
    auto home = std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& bucket) {
      return same_type(bucket.layers.front(), spec);
    });
    if (home == buckets.end()) home = buckets.insert(buckets.end(), Bucket{});
    home->layers.push_back(spec);
    auto pages = std::find_if(home->by_page.begin(), home->by_page.end(),
                              [&](const auto& entry) { return entry.first == spec.padded_page; });
    if (pages == home->by_page.end()) {
      pages = home->by_page.insert(home->by_page.end(), {spec.padded_page, {}});
    }
    pages->second.push_back(spec);
  }
  return buckets;
}

/// The size of chunk that pads the given counts least; the larger of equals.
size_t least_padding(const std::vector<size_t>& counts, size_t lower) {
  size_t best = std::max<size_t>(1, lower);
  size_t best_padding = SIZE_MAX;
  const size_t most = *std::max_element(counts.begin(), counts.end());
  for (size_t size = best; size <= most; ++size) {
    size_t padding = 0;
    for (const size_t count : counts) padding += (size - count % size) % size;
    if (padding <= best_padding) {
      best_padding = padding;
      best = size;
    }
  }
  return best;
}

/// Layers of each size of page are dealt in turn; where one size has more layers than another, the
/// rest of them too.
void split_into(std::vector<KvGroup>& groups, const Bucket& bucket, size_t count) {
  const size_t repeats = bucket.repeats();
  count = std::min(count, repeats);  // no group is empty
  if (count <= 1) {
    groups.push_back({bucket.layers});
    return;
  }
  const size_t first = groups.size();
  groups.resize(first + count);
  for (size_t i = 0; i < repeats; ++i) {
    for (const auto& [page, layers] : bucket.by_page) {
      if (i < layers.size()) groups[first + i % count].layers.push_back(layers[i]);
    }
  }
}

}  // namespace

std::vector<KvGroup> packed_groups(const std::vector<KvSpec>& specs) {
  const std::vector<Bucket> buckets = buckets_of(specs);
  size_t floor = 0;
  std::vector<size_t> repeats;
  for (const Bucket& bucket : buckets) {
    if (!bucket.balanced()) continue;
    repeats.push_back(bucket.repeats());
    if (bucket.by_page.size() > 1) floor = std::max(floor, bucket.repeats());
  }
  const size_t chunk = floor > 0 ? least_padding(repeats, floor) : 0;
  const auto is_state = [&](const Bucket& bucket) {
    const KvKind kind = bucket.layers.front().kind;
    return kind == KvKind::state || kind == KvKind::ring ||
           (chunk == 0 && (kind == KvKind::sliding || kind == KvKind::sliding_latent));
  };
  const auto count_for = [&](const Bucket& bucket) {
    return bucket.balanced() && chunk > 0 ? divide_up(bucket.repeats(), chunk) : 1;
  };
  Amount anchor = 0;
  for (const Bucket& bucket : buckets) {
    const size_t count = is_state(bucket) ? bucket.layers.size() : count_for(bucket);
    anchor = std::max(anchor, bucket.widest(count));
  }
  std::vector<KvGroup> groups;
  for (const Bucket& bucket : buckets) {
    size_t count = count_for(bucket);
    if (is_state(bucket) && anchor > Amount{0}) {
      const int64_t page = std::max<int64_t>(1, bucket.layers.front().padded_page.value());
      const auto per_block = static_cast<size_t>(std::max<int64_t>(1, anchor.value() / page));
      count = std::max(count, divide_up(bucket.layers.size(), per_block));
    }
    split_into(groups, bucket, count);
  }
  return groups;
}

}  // namespace plimsoll::vllm
