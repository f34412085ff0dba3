// Buffers of one step: the largest sum of tensors of ggml's graph that live at once. The graph is
// not built; each formula counts the tensors at the place where they are most, in the words of
// llama.cpp 0c1e57098's src/llama-graph.cpp.
#include <algorithm>

#include "base/amount.h"
#include "base/rounding.h"
#include "engines/llamacpp/memory.h"

namespace plimsoll::engines::llamacpp {
namespace {

constexpr int64_t kPerToken = 20;         // bytes: ids, positions and rows to write
constexpr int64_t kOffloadedTokens = 32;  // least batch whose products go to a card
/// Copies of a step's inputs where cards work on several steps at once (GGML_SCHED_MAX_COPIES).
constexpr int64_t kCopies = 4;

/// Sizes that the formulas share.
struct Step {
  int64_t tokens = 0;
  int64_t hidden = 0, wide = 0, query = 0, key_value = 0;  // values of a token
  int64_t heads = 0, cells = 0;                            // of the layer with most of them
  Amount masks;                                            // bytes
  [[nodiscard]] Amount bytes(Amount values) const { return values * 4 * tokens; }
};

Step step_of(const Shape& shape, const Launch& launch, int64_t context) {
  Step step;
  // A step has as many tokens of each stream.
  step.tokens = round_up(launch.micro_batch_of(context), launch.streams());
  step.hidden = shape.embedding;
  step.wide = shape.feed_forward;
  int64_t full = 0, windowed = 0, indexed = 0;
  for (const Layer& layer : shape.layers) {
    if (!layer.attends()) continue;
    const int64_t cells = cells_of(layer, shape, launch, context);
    (layer.windowed ? windowed : full) = cells;
    if (layer.indexer > 0) indexed = cells;  // it has a mask of its own
    step.query = std::max(step.query, (Amount{layer.heads} * layer.key_head).value());
    step.key_value = std::max(step.key_value, layer.key + layer.value);
    step.heads = std::max(step.heads, layer.heads);
    step.cells = std::max(step.cells, cells);
  }
  step.masks = Amount{launch.flash_attention ? 2 : 4} * step.tokens * (full + windowed + indexed);
  return step;
}

/// Values of a token at the widest place of a layer.
Amount widest(const Shape& shape, const Step& step) {
  const Amount h = step.hidden, f = step.wide;
  if (shape.experts > 0) {
    const Amount used = shape.experts_used, e = shape.expert_feed_forward;
    const Amount experts = std::max(used * h * 2 + used * e + h * 2, used * e * 3 + h * 3);
    // What waits for an MLP beside the experts: three outputs of each expert (compared with seven
    // models: six within 8 %, GLM-4.7-Flash 28 % too low).
    return shape.has_mlp_beside ? std::max(experts, used * h * 3 + h * 2) : experts;
  }
  if (shape.recurs()) return f * 3 + h * 2;
  if (!shape.gated) return f + h * (shape.architecture == "phi2" ? 4 : 3);
  return f * 3 + h * 2 + step.query;
}

/// Bytes of a step on a card with layers, without masks: caches of 16 bits and flash attention read
/// as they are; other caches are copied to 16 bits; without flash attention all scores are stored.
Amount busy_bytes(const Shape& shape, const Launch& launch, const Step& step) {
  const Amount plain = step.bytes(widest(shape, step));
  const Amount q = step.query, h = step.hidden;
  if (!launch.flash_attention) {
    const Amount scores = Amount{step.cells} * step.heads;
    return std::max(plain, step.bytes(scores + h * 2 + q * 2 + Amount{step.key_value}));
  }
  Amount copied;
  for (const Layer& layer : shape.layers) {
    const bool key = launch.key_type->type() != GgmlType::f16;
    const bool value = launch.value_type->type() != GgmlType::f16;
    copied = std::max(copied, Amount{key ? layer.key : 0} + (value ? layer.value : 0));
  }
  if (copied == 0) return plain;
  const Amount cells = Amount{step.cells} * launch.streams();
  return std::max(plain, cells * 2 * copied + step.bytes(q * 2 + h * 2));
}

/// Weights on the host that a card takes for a large batch, with what it needs to use them.
Amount offloaded_bytes(const Shape& shape, const Devices& devices, const Step& step) {
  int64_t largest_expert = 0, experts = 0, gates = 0;
  std::vector<int64_t> of_layer(shape.layers.size()), experts_of(shape.layers.size());
  for (size_t i = 0; i < shape.weights.size(); ++i) {
    const Weight& weight = shape.weights[i];
    if (devices.weights[i] != kHost || weight.layer < 0 || weight.layer >= shape.count()) continue;
    const auto bytes = static_cast<int64_t>(weight.tensor->bytes);
    const auto layer = static_cast<size_t>(weight.layer);
    if (weight.expert) {
      largest_expert = std::max(largest_expert, bytes);
      experts = std::max(experts, experts_of[layer] += bytes);
    }
    const bool first = weight.part == MlpPart::gate || weight.part == MlpPart::up ||
                       weight.part == MlpPart::gate_up;
    if (!first || weight.expert) continue;
    int64_t& sum = of_layer[layer];
    gates = std::max(gates, sum += bytes);
  }
  const Amount h = step.hidden;
  if (largest_expert > 0) {
    const Amount used = shape.experts_used, e = shape.expert_feed_forward;
    // Without a gate both products follow each other, and both weights are on the card at once.
    if (!shape.gated) return step.bytes(used * h) + experts;
    return step.bytes(used * h + used * e + h * 4) + largest_expert;
  }
  return gates == 0 ? Amount{} : step.bytes(Amount{step.wide} * 2 + h) + gates;
}

/// Caches on the host that a card reads: a layer's keys and values, and masks of its own.
Amount cache_copies(const Shape& shape, const Launch& launch, const Devices& devices,
                    const Step& step) {
  bool any = false;
  for (size_t l = 0; l < shape.layers.size(); ++l)
    any = any || (shape.layers[l].attends() && devices.layers[l] == kHost);
  if (!any || !launch.caches_on_cards) return 0;
  return Amount{step.cells} * launch.streams() * 2 * step.key_value + step.masks * 2 +
         step.bytes(Amount{step.query} + step.hidden * 2);
}

bool runs_as_pipeline(const Shape& shape, const Launch& launch, const Placement& placement) {
  const bool all = placement.gpu_layers < 0 || placement.gpu_layers > shape.count();
  return launch.cards.size() > 1 && all && launch.split == Split::layer &&
         launch.overrides.empty() && placement.partial.empty() && !placement.experts_on_host &&
         launch.caches_on_cards;
}

}  // namespace

void add_compute(const Shape& shape, const Launch& launch, const Placement& placement,
                 const Devices& devices, Memory& memory) {
  const Step step = step_of(shape, launch, placement.context);
  const Amount h = step.hidden;
  const bool pipeline = runs_as_pipeline(shape, launch, placement);
  const Amount masks = step.masks * (pipeline ? kCopies : 1);
  const Amount tables = Amount{kPerToken} * step.tokens;
  const bool host_works =
      std::ranges::find(devices.weights, kHost) != devices.weights.end() &&
      std::find(devices.layers.begin(), devices.layers.end(), kHost) != devices.layers.end();
  const bool offloads = launch.offloads_products && launch.pinned_host &&
                        step.tokens >= kOffloadedTokens && !launch.cards.empty();
  for (size_t i = 0; i < memory.cards.size(); ++i) {
    const int card = static_cast<int>(i);
    const bool layers = std::ranges::find(devices.layers, card) != devices.layers.end();
    Amount bytes;
    if (layers) bytes = busy_bytes(shape, launch, step);
    if (i == 0 && offloads) {  // the first card that can takes them
      bytes = std::max(bytes, offloaded_bytes(shape, devices, step));
      bytes = std::max(bytes, cache_copies(shape, launch, devices, step));
    }
    if (layers && pipeline) bytes += step.bytes(h * kCopies * (i == 0 ? 1 : 2));
    if (layers && launch.all_logits && devices.layers.back() == card)
      bytes = std::max(bytes, step.bytes(h + shape.vocabulary));
    memory.cards[i].compute = bytes == 0 ? 0 : (bytes + masks + tables).value();
  }
  Amount host = step.bytes(h * (pipeline ? 1 + kCopies : 2));
  if (host_works && !offloads)
    host = std::max(host, busy_bytes(shape, launch, step) + step.bytes(h));
  const int64_t bytes = (host + masks + tables).value();
  (launch.cards.empty() ? memory.plain : memory.pinned).compute = bytes;
}

}  // namespace plimsoll::engines::llamacpp
