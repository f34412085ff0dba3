// Defaults of SGLang that changed with a release: a row each, with the release that brought it.
#pragma once

#include <cstdint>
#include <optional>

#include "engines/sglang/launch.h"

namespace plimsoll::engines::sglang {

/// The newest release whose rules are known.
inline constexpr Version kNewest{0, 5, 23};

/// Defaults by the memory of the card.
struct Tier {
  int64_t chunk = 0;           // chunked_prefill_size
  int64_t graphs = 0;          // largest decode graph with fewer than 4 ranks
  int64_t graphs_of_many = 0;  // with 4 ranks and more
};
Tier tier_of(Version version, std::optional<int64_t> card_mib);

/// How --mem-fraction-static is made where it is not given.
enum class FractionRule { by_ranks, by_ranks_large_cards, by_card, by_reserve };

/// Parts of the rule by_reserve.
struct Reserve {
  FractionRule rule = FractionRule::by_reserve;
  bool graphs_when_off = false;     // 2 MiB a sequence although decode graphs are off
  bool prefill_graphs = false;      // prefill graphs are on by default
  int64_t per_prefill_size = 0;     // MiB for each size of a prefill graph, below the floor
  int64_t prefill_tokens_over = 0;  // prefill graphs, if asked for, take tokens / this after it
  int64_t speculative_gib = 0;      // after the floor
  int64_t standalone_gib = 6;       // of a draft that is a model of its own, where drafts have any
  bool deepep = false;              // + 2 GiB for DeepEP
  double unknown_card = 0.88;       // the fraction without a known card
};
const Reserve& reserve_of(Version version);

}  // namespace plimsoll::engines::sglang
