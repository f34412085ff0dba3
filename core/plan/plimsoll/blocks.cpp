#include "plan/plimsoll/blocks.h"

#include <algorithm>
#include <optional>

#include "base/amount.h"
#include "memory/arena.h"

namespace plimsoll::plan::own {
namespace {

/// Number of blocks that flags ask for, whatever memory is left; nullopt: no flag asks.
std::optional<int64_t> blocks_asked(const RankLaunch& rank, const EngineArgs& args) {
  if (args.blocks_override > 0) return args.blocks_override;
  const int64_t bytes = args.available_kv > 0 ? args.available_kv : args.kv_cache_memory;
  if (bytes <= 0) return std::nullopt;
  return bytes / rank.block_bytes();
}

/// Blocks of a rank on a card: as asked, else what is left of the budget.
int64_t card_blocks(const RankLaunch& rank, const Arguments& arguments, int64_t budget) {
  if (const auto asked = blocks_asked(rank, arguments.args)) return *asked;
  const Amount left = Amount{budget} - rank.fixed_bytes();
  constexpr auto kAlignment = static_cast<int64_t>(memory::Arena::kAlignment);  // of the region
  return std::max<int64_t>(0, left.value()) / kAlignment * kAlignment / rank.block_bytes();
}

/// Blocks of a run on this machine's processor.
int64_t host_blocks(const RankLaunch& rank, const Arguments& arguments) {
  if (arguments.args.blocks_override > 0) return arguments.args.blocks_override;
  const uint64_t cache = arguments.host_cache.value_or(engine::EngineOptions{}.kv_cache_bytes);
  const auto left = static_cast<int64_t>(cache) / rank.block_bytes();
  return std::min(blocks_asked(rank, arguments.args).value_or(left), rank.plan.num_kv_blocks);
}

}  // namespace

int64_t rank_blocks(const RankLaunch& rank, const Arguments& arguments, const hardware::Gpu* gpu,
                    int64_t budget) {
  return gpu != nullptr ? card_blocks(rank, arguments, budget) : host_blocks(rank, arguments);
}

int64_t blocks_needed(const RankLaunch& rank, int64_t length) {
  return engine::blocks_of_sequence(rank.layout.kv, length, rank.layout.limits.batched_tokens);
}

int64_t longest_sequence(const RankLaunch& rank, int64_t blocks, int64_t most) {
  const int64_t step = rank.layout.limits.batched_tokens;
  return engine::longest_sequence(rank.layout.kv, blocks, most, step);
}

}  // namespace plimsoll::plan::own
