// Source: lmdeploy/pytorch/engine/executor/base.py of 0.18.0 (update_configs).
#include <algorithm>

#include <fmt/format.h>

#include "base/amount.h"
#include "engines/lmdeploy/launch.h"

namespace plimsoll::engines::lmdeploy {
namespace {

constexpr int64_t kIndexerWorkspace = int64_t{512} << 20;  // LMDEPLOY_DSA_INDEXER_MAX_LOGITS_MB

/// What a step takes beside the cache: logits of all its tokens.
int64_t runtime_bytes(const Launch& launch, int64_t prefill) {
  const int64_t indexer = launch.selects ? kIndexerWorkspace : 0;
  return (prefill + 2 * launch.batch) * launch.vocabulary * 2 + indexer;
}

int64_t blocks_of(double free, const Launch& launch, int64_t prefill, int64_t block) {
  const double left = (free - static_cast<double>(runtime_bytes(launch, prefill))) * launch.share;
  return block > 0 ? static_cast<int64_t>(left) / block : 0;
}

struct Blocks {
  int64_t count = 0;
  int64_t prefill = 0;
};

/// Halves the tokens of a prefill until 16 blocks fit, if 3 did at first.
Blocks fitted_blocks(double free, const Launch& launch, int64_t block, Answer& answer) {
  constexpr int64_t kTooFew = 2, kEnough = 16;
  Blocks blocks{blocks_of(free, launch, launch.prefill, block), launch.prefill};
  if (blocks.count <= kTooFew) refuse_size("RuntimeError: No enough gpu memory for kv cache.");
  while (blocks.count < kEnough) {
    blocks.prefill /= 2;
    if (blocks.prefill <= 0) refuse_size("RuntimeError: No enough gpu memory for runtime.");
    blocks.count = blocks_of(free, launch, blocks.prefill, block);
  }
  if (blocks.prefill != launch.prefill) {
    answer.says.push_back(
        fmt::format("No enough memory. Update max_prefill_token_num={}", blocks.prefill));
  }
  return blocks;
}

void check_block(const Launch& launch) {
  constexpr int64_t kOfFlashMla = 64;
  if (launch.flash_mla && launch.block != kOfFlashMla)
    refuse_size("ValueError: Please set block_size to 64 for flash_mla.");
}

}  // namespace

void size(const Launch& launch, const ModelConfig& config, double free_gib, Answer& answer) {
  OrderedJson& json = answer.sizing;
  Figures& figures = answer.figures;
  json = OrderedJson::object();
  check_block(launch);
  const int64_t drafts = launch.draft_layers * layer_block_bytes(launch);
  const int64_t block = block_bytes(launch, config);
  const int64_t slot = slot_bytes(launch, config);
  const int64_t slots = slot > 0 ? launch.batch + 2 + launch.state_budget : 0;
  const int64_t states = (Amount{slots} * slot).value();
  json["block_bytes"] = block;
  json["draft_block_bytes"] = launch.draft_layers > 0 ? OrderedJson(drafts) : OrderedJson(nullptr);
  json["state_bytes"] = states;
  json["state_slots"] = slot > 0 ? OrderedJson(slots) : OrderedJson(nullptr);
  figures.state_bytes = states;
  figures.state_formula =
      fmt::format("({} sequences + 2 + {}) x {} bytes", launch.batch, launch.state_budget, slot);
  double free = static_cast<double>(static_cast<int64_t>(free_gib * kGib));
  free -= static_cast<double>(states);
  if (free <= 0 && slots > 0) {
    refuse_size(
        "AssertionError: No enough gpu memory for state cache. Please reduce max_batch_size.");
  }
  Blocks blocks{launch.blocks.value_or(0), launch.prefill};
  if (!launch.blocks) blocks = fitted_blocks(free, launch, block + drafts, answer);
  const int64_t tokens = blocks.count * launch.block;
  json["runtime_bytes"] = runtime_bytes(launch, blocks.prefill);
  json["max_prefill_token_num"] = blocks.prefill;
  json["block_size"] = launch.block;
  json["kernel_block_size"] = launch.kernel_block;
  json["num_gpu_blocks"] = blocks.count;
  json["tokens"] = tokens;
  const int64_t window = launch.deepseek_v4 ? -1 : launch.window;
  json["window_size"] = window;
  json["prefix_caching"] = launch.prefix_caching;
  std::optional<int64_t> longest = launch.session;
  if (window <= 0) {
    const int64_t held = (blocks.count - 2) * launch.block;
    longest = longest ? std::min(*longest, held) : held;
  }
  json["max_session_len"] = longest ? OrderedJson(*longest) : OrderedJson(nullptr);
  if (launch.selects) answer.says.emplace_back("Reserve 512 MiB for DSA prefill score workspace.");
  figures.kv_tokens = tokens;
  figures.bytes_per_token = static_cast<double>(block + drafts) / static_cast<double>(launch.block);
  figures.kv_bytes = (Amount{blocks.count} * (block + drafts)).value();
  figures.kv_formula = fmt::format("{} blocks x {} bytes of {} layers", blocks.count,
                                   block + drafts, launch.layers + launch.draft_layers);
  figures.runtime_bytes = runtime_bytes(launch, blocks.prefill);
  figures.runtime_formula = fmt::format("({} tokens + 2 x {} sequences) x {} logits x 2 bytes",
                                        blocks.prefill, launch.batch, launch.vocabulary);
  figures.step_tokens = blocks.prefill;
  if (longest) figures.context = std::min(figures.context, std::max<int64_t>(*longest, 0));
}

}  // namespace plimsoll::engines::lmdeploy
