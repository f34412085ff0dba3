// Sources: sglang/srt/server_args.py of the releases named.
#include "engines/sglang/releases.h"

namespace plimsoll::engines::sglang {
namespace {

/// A tier: the release from which the row holds, cards below `below` MiB.
struct TierRow {
  Version since;
  int64_t below;
  Tier tier;
};

constexpr int64_t kAny = int64_t{1} << 40;
constexpr int64_t kUnknown = 0;  // the row of a card whose memory is not known

// The last row of a boundary that is not younger than the release counts.
constexpr TierRow kTiers[] = {
    {{0, 4, 4}, 20480, {2048, 8, 80}},       {{0, 5, 3}, 20480, {2048, 8, 8}},
    {{0, 4, 4}, 25000, {2048, 8, 80}},       {{0, 5, 3}, 25000, {2048, 16, 80}},
    {{0, 5, 4}, 25000, {2048, 24, 80}},      {{0, 5, 21}, 25000, {4096, 48, 160}},
    {{0, 4, 4}, 35840, {8192, 160, 160}},    {{0, 4, 7}, 35840, {2048, 8, 80}},
    {{0, 5, 3}, 35840, {2048, 16, 80}},      {{0, 5, 4}, 35840, {2048, 24, 80}},
    {{0, 5, 21}, 35840, {4096, 48, 160}},    {{0, 4, 4}, 61440, {8192, 160, 160}},
    {{0, 5, 3}, 61440, {4096, 32, 160}},     {{0, 4, 4}, 163840, {8192, 160, 160}},
    {{0, 5, 3}, 163840, {8192, 256, 512}},   {{0, 4, 4}, kAny, {8192, 160, 160}},
    {{0, 4, 7}, kAny, {16384, 160, 160}},    {{0, 5, 3}, kAny, {16384, 512, 512}},
    {{0, 4, 4}, kUnknown, {4096, 160, 160}},
};

struct ReserveRow {
  Version since;
  Reserve reserve;
};

constexpr ReserveRow kReserves[] = {
    {{0, 4, 4}, {.rule = FractionRule::by_ranks}},
    {{0, 4, 6}, {.rule = FractionRule::by_ranks_large_cards}},
    {{0, 4, 7}, {.rule = FractionRule::by_card, .speculative_gib = 2, .standalone_gib = 2}},
    {{0, 5, 2}, {.rule = FractionRule::by_card, .speculative_gib = 2}},
    {{0, 5, 3}, {.graphs_when_off = true, .speculative_gib = 2}},
    {{0, 5, 5}, {.graphs_when_off = true, .prefill_tokens_over = 4, .speculative_gib = 2}},
    {{0, 5, 6}, {.graphs_when_off = true, .prefill_tokens_over = 8, .speculative_gib = 2}},
    {{0, 5, 8}, {.graphs_when_off = true, .per_prefill_size = 8, .speculative_gib = 2}},
    {{0, 5, 10},
     {.graphs_when_off = true,
      .prefill_graphs = true,
      .per_prefill_size = 8,
      .speculative_gib = 4}},
    {{0, 5, 15}, {.prefill_graphs = true, .per_prefill_size = 8, .deepep = true}},
    {{0, 5, 21},
     {.prefill_graphs = true, .per_prefill_size = 8, .deepep = true, .unknown_card = 0.95}},
};

}  // namespace

Tier tier_of(Version version, std::optional<int64_t> card_mib) {
  int64_t boundary = kUnknown;
  if (card_mib) {
    boundary = kAny;
    for (const TierRow& row : kTiers)
      if (row.below != kUnknown && *card_mib < row.below) boundary = std::min(boundary, row.below);
  }
  Tier tier = kTiers[0].tier;
  for (const TierRow& row : kTiers)
    if (row.below == boundary && row.since <= version) tier = row.tier;
  return tier;
}

const Reserve& reserve_of(Version version) {
  const Reserve* reserve = &kReserves[0].reserve;
  for (const ReserveRow& row : kReserves)
    if (row.since <= version) reserve = &row.reserve;
  return *reserve;
}

}  // namespace plimsoll::engines::sglang
