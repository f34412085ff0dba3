// Sources: llama.cpp 0c1e57098, src/llama-model-loader.cpp, llama-kv-cache.cpp,
// llama-memory-recurrent.cpp; ggml/src/ggml-cuda (alignment and padding of rows), ggml-cpu/repack.
#include "engines/llamacpp/memory.h"

#include <algorithm>
#include <numeric>

#include "base/amount.h"
#include "base/rounding.h"

namespace plimsoll::engines::llamacpp {
namespace {

constexpr int64_t kCardAlignment = 128, kHostAlignment = 32;
constexpr int64_t kCardRow = 512;  // values: kernels of packed types read whole tiles
constexpr int64_t kCellPad = 256;

int64_t row_bytes(const GgmlTypeInfo& type, int64_t values) {
  return divide_up(values, type.values) * type.bytes;
}

/// Bytes of a tensor in a buffer: aligned, on cards with the last row of a packed type padded.
int64_t allocated_rows(const GgmlTypeInfo& type, int64_t row, int64_t bytes, int device) {
  if (device == kHost) return round_up(bytes, kHostAlignment);
  const int64_t beyond = row % kCardRow;
  if (type.is_packed() && beyond != 0) bytes += row_bytes(type, kCardRow - beyond);
  return round_up(bytes, kCardAlignment);
}

/// True for tensors that the part of a split layer's MLP is made of (patterns of common/fit.cpp).
bool is_rest(const Weight& weight, Fraction kept) {
  if (weight.part == MlpPart::none || weight.part == MlpPart::other) return false;
  switch (kept) {
    case Fraction::attention:
      return true;
    case Fraction::up:
      return weight.part != MlpPart::up;
    case Fraction::gate:
      return weight.part == MlpPart::down;
    case Fraction::dense:
      break;
  }
  return weight.expert;
}

/// Cumulated shares of the cards, the last 1.
std::vector<float> cumulated_shares(const Launch& launch, const Placement& placement) {
  std::vector<float> shares = placement.shares;
  shares.resize(launch.cards.size(), 0.0F);
  if (std::ranges::all_of(shares, [](float share) { return share == 0; })) {
    for (size_t i = 0; i < shares.size(); ++i)
      shares[i] = static_cast<float>(launch.cards[i].free_bytes);
  }
  std::partial_sum(shares.begin(), shares.end(), shares.begin());
  const float sum = shares.empty() ? 1 : shares.back();
  for (float& share : shares) share /= sum > 0 ? sum : 1;
  return shares;
}

/// Types of matrices that the CPU backend repacks (AVX2).
bool is_repacked(const Weight& weight) {
  const GgmlType type = weight.tensor->type->type();
  const bool known = type == GgmlType::q4_0 || type == GgmlType::q4_k || type == GgmlType::iq4_nl;
  return known && weight.is_matrix && weight.tensor->ne[1] % 8 == 0;
}

void add_host_weight(const Launch& launch, const Weight& weight, Memory& memory) {
  const int64_t bytes = allocated(*weight.tensor, kHost);
  if (!launch.cards.empty() && launch.pinned_host) {
    memory.pinned.model += bytes;
  } else if (launch.repacks && is_repacked(weight)) {
    memory.repacked.model += bytes;
  } else {
    memory.plain.model += bytes;
  }
}

void add_weights(const Shape& shape, const Launch& launch, const Devices& devices, Memory& memory) {
  const auto has_layers = [&](int device) {
    return std::find(devices.layers.begin(), devices.layers.end() - 1, device) !=
           devices.layers.end() - 1;
  };
  for (size_t i = 0; i < shape.weights.size(); ++i) {
    const Weight& weight = shape.weights[i];
    const int device = devices.weights[i];
    if (weight.layer == Weight::kEverywhere) {
      if (has_layers(kHost)) add_host_weight(launch, weight, memory);
      for (size_t card = 0; card < launch.cards.size(); ++card) {
        if (has_layers(static_cast<int>(card)))
          memory.cards[card].model += allocated(*weight.tensor, static_cast<int>(card));
      }
    } else if (device != kHost) {
      memory.cards[static_cast<size_t>(device)].model += allocated(*weight.tensor, device);
    } else if (!weight.second_use) {
      add_host_weight(launch, weight, memory);
    }
  }
}

/// Bytes of a cache's tensor: `values` of each of `rows`.
int64_t cached(const GgmlTypeInfo& type, int64_t values, int64_t rows, int device) {
  return values == 0 ? 0 : allocated_rows(type, values, row_bytes(type, values) * rows, device);
}

void add_caches(const Shape& shape, const Launch& launch, const Placement& placement,
                const Devices& devices, Memory& memory) {
  const GgmlTypeInfo& f32 = *find_ggml_type("F32");
  for (size_t l = 0; l < shape.layers.size(); ++l) {
    const Layer& layer = shape.layers[l];
    const int device = launch.caches_on_cards ? devices.layers[l] : kHost;
    Usage& usage = device == kHost ? memory.plain : memory.cards[static_cast<size_t>(device)];
    const int64_t rows = cells_of(layer, shape, launch, placement.context) * launch.streams();
    usage.context += cached(*launch.key_type, layer.key, rows, device) +
                     cached(*launch.value_type, layer.value, rows, device) +
                     cached(*launch.key_type, layer.indexer, rows, device) +
                     cached(f32, layer.shift_state, launch.sequences, device) +
                     cached(f32, layer.memory_state, launch.sequences, device);
  }
}

}  // namespace

int64_t allocated(const checkpoint::gguf::Tensor& tensor, int device) {
  return allocated_rows(*tensor.type, tensor.ne.front(), static_cast<int64_t>(tensor.bytes),
                        device);
}

int64_t cells_of(const Layer& layer, const Shape& shape, const Launch& launch, int64_t context) {
  const int64_t all = launch.sequence_context(context);
  if (!layer.windowed || launch.full_windows) return all;
  const int64_t windows = shape.window * (launch.unified ? launch.sequences : 1);
  return round_up(std::min(all, windows + launch.micro_batch_of(context)), kCellPad);
}

Placement asked_placement(const Shape& shape, const Launch& launch) {
  Placement placement;
  placement.context = launch.asked_context(shape);
  placement.gpu_layers = launch.gpu_layers;
  placement.shares = launch.shares;
  return placement;
}

Devices devices_of(const Shape& shape, const Launch& launch, const Placement& placement) {
  Devices devices;
  const int64_t all = shape.count() + 1;
  int64_t on_cards = placement.gpu_layers < 0 ? all : std::min(placement.gpu_layers, all);
  if (launch.cards.empty()) on_cards = 0;
  const std::vector<float> shares = cumulated_shares(launch, placement);
  for (int64_t l = 0; l < all; ++l) {
    const int64_t place = l - (all - on_cards);
    if (place < 0) {
      devices.layers.push_back(kHost);
      continue;
    }
    const float at = static_cast<float>(place) / static_cast<float>(on_cards);
    const auto card = std::ranges::upper_bound(shares, at) - shares.begin();
    devices.layers.push_back(
        static_cast<int>(std::min<std::ptrdiff_t>(card, std::ssize(shares) - 1)));
  }
  std::vector<const PartialLayer*> split(static_cast<size_t>(all), nullptr);
  for (const PartialLayer& row : placement.partial)
    if (row.layer < all) split[static_cast<size_t>(row.layer)] = &row;
  for (const Weight& weight : shape.weights) {
    int device = weight.layer < 0 ? kHost : devices.layers[static_cast<size_t>(weight.layer)];
    const PartialLayer* const part =
        weight.layer < 0 ? nullptr : split[static_cast<size_t>(weight.layer)];
    if (weight.sent_to) {
      device = *weight.sent_to;
    } else if (placement.experts_on_host && weight.layer >= 0 && is_rest(weight, Fraction::dense)) {
      device = kHost;
    } else if (part != nullptr && is_rest(weight, part->kept)) {
      device = part->device;
    }
    devices.weights.push_back(device);
  }
  return devices;
}

Memory measure(const Shape& shape, const Launch& launch, const Placement& placement) {
  Memory memory;
  memory.cards.resize(launch.cards.size());
  const Devices devices = devices_of(shape, launch, placement);
  add_weights(shape, launch, devices, memory);
  add_caches(shape, launch, placement, devices, memory);
  add_compute(shape, launch, placement, devices, memory);
  return memory;
}

}  // namespace plimsoll::engines::llamacpp
