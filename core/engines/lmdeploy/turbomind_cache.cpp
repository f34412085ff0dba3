// The cache of TurboMind: from 0.15 on objects in slabs of pages (src/turbomind/memory/), before it
// an array of blocks (BlockManager.cc, SequenceManager.cc).
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "base/amount.h"
#include "base/rounding.h"
#include "engines/lmdeploy/turbomind.h"

namespace plimsoll::engines::lmdeploy::turbomind {
namespace {

constexpr double kMib = 0x1p20;

/// How objects of one size lie in memory: a slab has a power of two of pages, and no object lies
/// across two of them.
struct Slab {
  static constexpr int64_t kPage = int64_t{32} << 20;  // bytes
  int64_t pages = 1;
  int64_t objects = 0;

  explicit Slab(int64_t object_bytes) {
    constexpr int64_t kLargest = int64_t{1} << 30;
    constexpr float kFullEnough = .95F;
    auto bytes =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(kPage, object_bytes))));
    const auto used = [&] {
      const int64_t whole = bytes / object_bytes * object_bytes;
      return static_cast<float>(whole) / static_cast<float>(bytes);
    };
    while (used() < kFullEnough && bytes < kLargest) bytes *= 2;
    pages = bytes / kPage;
    objects = bytes / object_bytes;
  }

  /// Pages for so many objects.
  [[nodiscard]] int64_t pages_for(int64_t count) const { return divide_up(count, objects) * pages; }
  /// Objects in so many pages; slabs lie at multiples of their size.
  [[nodiscard]] int64_t objects_in(int64_t count) const {
    return std::max<int64_t>(count, 0) / pages * objects;
  }
};

/// Blocks, and requests whose states lie beside them.
struct Held {
  int64_t blocks = 0;
  int64_t states = 0;
};

/// What `pages` hold: the states of as many requests of full length as fit, of one at least, and
/// blocks in the rest.
Held held_by(const Launch& launch, int64_t pages, const Slab& blocks) {
  if (launch.state_layers == 0) return {blocks.objects_in(pages), 0};
  const Slab convolutions(launch.convolutions), states(launch.state);
  const auto left = [&](int64_t requests) {
    return pages - convolutions.pages_for(requests) -
           states.pages_for(requests * launch.state_layers);
  };
  const int64_t needed = divide_up(launch.session, launch.block);
  Held held{blocks.objects_in(left(1)), 1};
  for (int64_t requests = 2; requests <= launch.batch; ++requests) {
    const int64_t here = blocks.objects_in(left(requests));
    if (here < requests * needed) break;
    held = {here, requests};
  }
  return held;
}

/// Since 0.15: the share of what is free in pages. The region begins anywhere, pages at multiples
/// of their size, so one page may be lost: so many blocks are sure.
Held in_pages(const Launch& launch, double free, int64_t block, Answer& answer) {
  const auto budget = static_cast<int64_t>(free * launch.share);
  answer.says.push_back(
      fmt::format("Object cache budget: {:.2f} MB from free {:.2f} MB and ratio {:.3f}",
                  static_cast<double>(budget) / kMib, free / kMib, launch.share));
  const Slab slab(block);
  const int64_t pages = std::max<int64_t>(0, budget / Slab::kPage - 1);
  answer.sizing["budget_bytes"] = budget;
  answer.sizing["pages"] = pages;
  answer.sizing["slab_pages"] = slab.pages;
  answer.sizing["blocks_per_slab"] = slab.objects;
  return held_by(launch, pages, slab);
}

/// Before 0.15: the share of what is free, less the states of a whole batch, in blocks.
Held in_an_array(const Launch& launch, double free, int64_t block, Answer& answer) {
  const int64_t request = launch.convolutions + launch.state * launch.state_layers;
  const int64_t states = (Amount{launch.batch} * request).value();
  const auto target = static_cast<int64_t>(free * launch.share);
  if (launch.blocks == 0 && states > 0 && target <= states) {
    refuse_size(fmt::format(
        "[SeqMgr] Linear-state memory ({:.2f} MB) >= cache budget ({:.2f} MB). Please decrease "
        "max_batch_size to reduce total linear state size or increase cache_max_entry_count.",
        static_cast<double>(states) / kMib, static_cast<double>(target) / kMib));
  }
  const int64_t blocks = launch.blocks > 0 ? launch.blocks : (target - states) / block;
  answer.says.push_back(
      fmt::format("[BlockManager] block_size = {:.3f} MB", static_cast<double>(block) / kMib));
  answer.says.push_back(fmt::format("[BlockManager] max_block_count = {}", blocks));
  return {blocks, states > 0 ? launch.batch : 0};
}

}  // namespace

int64_t block_bytes(const Launch& launch) {
  constexpr int64_t kSharedRow = 576;  // latent attention, whose values are part of the keys
  const int64_t bits = launch.quant_policy == 0 ? 16 : launch.quant_policy;
  const int64_t row = bits * launch.head_dim / 8 + (launch.quant_policy == 0 ? 0 : 4);
  const int64_t sides = launch.head_dim == kSharedRow ? 1 : 2;
  return launch.layers * launch.kv_heads * sides * launch.block * row;
}

void size(const Launch& launch, double free_gib, Version release, Answer& answer) {
  OrderedJson& json = answer.sizing;
  Figures& figures = answer.figures;
  json = OrderedJson::object();
  const int64_t block = block_bytes(launch);
  json["block_bytes"] = block;
  const double free = std::max(0.0, free_gib) * kGib;
  const Held held = release < kObjectCache ? in_an_array(launch, free, block, answer)
                                           : in_pages(launch, free, block, answer);
  const int64_t request = launch.convolutions + launch.state * launch.state_layers;
  json["state_bytes"] = request;
  json["state_requests"] = held.states;
  json["num_blocks"] = held.blocks;
  const int64_t tokens = held.blocks * launch.block;
  json["tokens"] = tokens;
  if (held.blocks == 0) {
    refuse_size(release < kObjectCache
                    ? "No enough blocks."
                    : fmt::format("kOutOfMemory for every request: no block of {:.3f} MB fits",
                                  static_cast<double>(block) / kMib));
  }
  int64_t session = launch.session;
  if (release < kObjectCache && tokens < session) {
    answer.says.push_back(
        fmt::format("No enough blocks for `session_len` ({}), `session_len` truncated to {}.",
                    session, tokens));
    session = tokens;
  }
  json["session_len"] = session;
  figures.context = session;
  figures.kv_tokens = tokens;
  figures.bytes_per_token = static_cast<double>(block) / static_cast<double>(launch.block);
  figures.kv_bytes = (Amount{held.blocks} * block).value();
  figures.kv_formula =
      fmt::format("{} blocks x {} bytes of {} layers", held.blocks, block, launch.layers);
  figures.state_bytes = (Amount{held.states} * request).value();
  figures.state_formula = fmt::format("{} requests x {} bytes", held.states, request);
  figures.beside_bytes = (Amount{launch.batch} * session * 4).value();
  const int64_t taken = release < kObjectCache ? figures.kv_bytes + figures.state_bytes
                                               : static_cast<int64_t>(free * launch.share);
  const int64_t left = static_cast<int64_t>(free) - taken;
  if (figures.beside_bytes > left) {
    refuse_size(fmt::format(
        "out of memory: token ids of {} sequences x {} tokens take {:.2f} MB, and {:.2f} MB are "
        "free beside the cache",
        launch.batch, session, static_cast<double>(figures.beside_bytes) / kMib,
        static_cast<double>(left) / kMib));
  }
  figures.beside_formula = fmt::format("{} sequences x {} tokens x 4 bytes", launch.batch, session);
}

}  // namespace plimsoll::engines::lmdeploy::turbomind
