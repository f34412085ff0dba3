#include "engines/sglang/fraction.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "engines/sglang/releases.h"

namespace plimsoll::engines::sglang {
namespace {

/// Python's round(x, 3).
double rounded(double x) {
  return std::strtod(fmt::format("{:.3f}", x).c_str(), nullptr);
}

/// The fraction of SGLang 0.4.4 by ranks.
double by_ranks(int64_t ranks) {
  if (ranks >= 16) return 0.79;
  if (ranks >= 8) return 0.81;
  if (ranks >= 4) return 0.85;
  return ranks >= 2 ? 0.87 : 0.88;
}

double by_ranks_large_cards(int64_t ranks, double card) {
  constexpr double kUsual = 81920, kLarge = 98304;
  const double fraction = card <= kUsual ? by_ranks(ranks) : 0.88;
  if (card <= kLarge) return fraction;
  return std::min(fraction + 49152 * (1 - fraction) / card, (card - 18432) / card);
}

double draft_gib(const FractionInputs& in, const Reserve& rule) {
  return static_cast<double>(in.speculation == "STANDALONE" ? rule.standalone_gib
                                                            : rule.speculative_gib);
}

/// 0.4.7 to 0.5.2: a reserve in GiB by the card's size.
double by_card(const FractionInputs& in, double card, const Reserve& rule) {
  const double ranks = static_cast<double>(in.tp * in.pp);
  const double gib = card / 1024;
  double reserve = gib < 35    ? 2.8 + ranks / 10
                   : gib < 90  ? 9.5 + ranks / 2
                   : gib < 160 ? 12 + ranks / 2
                               : 32;
  if (!in.speculation.empty()) reserve += draft_gib(in, rule);
  if (in.attention_dp > 0) reserve += 4;
  return rounded((gib - reserve) / gib);
}

double graphs_mib(const FractionInputs& in, const Reserve& rule) {
  const auto largest = static_cast<double>(in.largest_decode_graph);
  double mib = 0;
  if (in.decode_graphs || rule.graphs_when_off) mib += 2 * largest;
  if (in.attention_dp > 0) {
    const auto ranks = static_cast<double>(in.attention_dp);
    mib += 3 * largest * ranks;
    if (in.largest_decode_graph > 300) mib += 1.5 * largest * ranks;
  }
  if (!in.prefill_sizes || rule.per_prefill_size == 0) return mib;
  const bool whole = in.latent && rule.prefill_graphs;
  mib += whole ? 1536 : static_cast<double>(rule.per_prefill_size * *in.prefill_sizes);
  if (in.breakable_prefill && in.deepep) mib += 1024;
  return mib;
}

double by_reserve(const FractionInputs& in, const Reserve& rule, double card) {
  constexpr int64_t kLeastChunk = 2048;
  constexpr double kLeastOfLarge = 10240;
  const int64_t chunk = in.chunk > 0 ? in.chunk : in.max_prefill;
  double reserved = 512 + 1.5 * static_cast<double>(std::max(chunk, kLeastChunk)) +
                    128 * static_cast<double>(in.tp * in.pp) + graphs_mib(in, rule);
  if (card > static_cast<double>(kLargeCard)) reserved = std::max(reserved, kLeastOfLarge);
  if (in.deepep && in.decode_graphs && rule.deepep) reserved += 2048;
  if (in.prefill_sizes && rule.prefill_tokens_over > 0) {
    const int64_t of_chunk = chunk / rule.prefill_tokens_over;  // whole MiB
    reserved += static_cast<double>(of_chunk);
  }
  if (rule.speculative_gib > 0 && !in.speculation.empty() && in.speculation != "NGRAM")
    reserved += 1024 * draft_gib(in, rule);
  return rounded((card - reserved) / card);
}

}  // namespace

double default_fraction(const FractionInputs& inputs) {
  const Reserve& rule = reserve_of(inputs.version);
  if (!inputs.card_mib || *inputs.card_mib <= 0) return rule.unknown_card;
  const auto card = static_cast<double>(*inputs.card_mib);
  switch (rule.rule) {
    case FractionRule::by_ranks:
      return by_ranks(inputs.tp * inputs.pp);
    case FractionRule::by_ranks_large_cards:
      return by_ranks_large_cards(inputs.tp * inputs.pp, card);
    case FractionRule::by_card:
      return by_card(inputs, card, rule);
    case FractionRule::by_reserve:
      break;
  }
  return by_reserve(inputs, rule, card);
}

double multimodal_factor(const ModelConfig& config) {
  const ConfigView root = config.root();
  const bool thinker = root.has_child({"thinker_config"});
  const ConfigView whole = thinker ? root.child({"thinker_config"}) : root;
  int64_t layers = 24, hidden = 1024;
  if (whole.has_child({"vision_config"})) {
    const ConfigView vision = whole.child({"vision_config"});
    // The classes of Qwen2-VL's vision part state 3584 where a config is silent.
    if (config.architecture() == "Qwen2VLForConditionalGeneration") hidden = 3584;
    layers = vision.integer({"vt_num_hidden_layers", "num_hidden_layers"}, layers, kSizeOrNone);
    hidden = vision.integer({"vt_hidden_size", "hidden_size"}, hidden, kSizeOrNone);
  } else if (config.architecture() == "Llama4ForConditionalGeneration") {
    layers = 34;
    hidden = 768;
  } else {
    return 1;
  }
  const auto width = static_cast<double>(hidden);
  const double complexity = static_cast<double>(layers) * width * width / (24.0 * 1024 * 1024);
  return 0.95 * std::clamp(1 - 0.1 * (complexity - 1), 0.8, 1.05);
}

}  // namespace plimsoll::engines::sglang
