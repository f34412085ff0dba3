// Source: transformers/generation/continuous_batching/cache.py of 5.24.0. Numbers are Amounts or
// __int128 where hostile sizes could pass 64 bits.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/amount.h"
#include "engines/question.h"
#include "engines/transformers/launch.h"

namespace plimsoll::engines::transformers {
namespace {

// Products of a card's sectors and a batch's tokens.
__extension__ using Wide = __int128;

constexpr int64_t kUsualBatch = 8192;  // max_batch_tokens
constexpr int64_t kAligned = 128;      // bytes of a sector's multiple

Wide floor_divide(Wide a, Wide b) {
  const Wide quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

/// What the cache is made of, in bytes and tokens.
struct Sectors {
  int64_t bytes = kAligned;  // of a sector
  int64_t tokens = 0;        // that a sector holds at most, over the kinds of attention
  int64_t with_rest = 0;     // bytes of a sector with what it entails
  int64_t fixed = 0;
  int64_t per_token = 0;   // of a batch
  int64_t all_layers = 0;  // bytes of a block over all layers
  int64_t io = 1;          // sets of inputs and outputs
  int64_t masks = 0;
};

int64_t layer_block_bytes(const Launch& launch) {
  return 2 * launch.kv_heads * launch.head_dim * launch.element * launch.page;
}

Sectors sectors_of(const Launch& launch) {
  Sectors out;
  const int64_t layer = layer_block_bytes(launch);
  const auto groups = static_cast<int64_t>(launch.groups.size());
  for (const LayerGroup& group : launch.groups) {
    out.bytes =
        (Amount{out.bytes} / std::gcd(out.bytes, group.layers * layer) * (group.layers * layer))
            .value();
    out.all_layers += group.layers * layer;
  }
  for (const LayerGroup& group : launch.groups)
    out.tokens =
        std::max(out.tokens, (Amount{out.bytes} / (group.layers * layer) * launch.page).value());
  out.io = launch.async ? 2 : 1;
  const int64_t kv = launch.flash ? 2 * launch.kv_heads : 2 * launch.heads + launch.kv_heads;
  out.masks = launch.flash ? 0 : launch.slides() ? 2 : 1;
  const int64_t a = launch.element, d = launch.head_dim;
  const int64_t logits = launch.hidden * a + 4 * launch.vocabulary;
  const int64_t states = a * (launch.hidden + launch.heads * d + 2 * launch.kv_heads * d + kv * d);
  out.per_token = states + out.io * (28 + (launch.logprobs ? 8 : 4) +
                                     groups * (4 * launch.blocks_per_request + 16));
  out.with_rest =
      (Amount{out.bytes} + Amount{out.tokens} * (kv * d * a + 8 * out.io * groups)).value();
  out.fixed = (Amount{2} * out.bytes + Amount{launch.requests} * logits).value();
  return out;
}

/// Bytes of attention masks over `count` sectors.
Wide mask_bytes(const Launch& launch, const Sectors& sectors, Wide count, int64_t batch) {
  return Wide{sectors.io} * sectors.masks * launch.element * batch *
         (count * sectors.tokens + batch);
}

Wide fitted(const Launch& launch, const Sectors& sectors, int64_t available, int64_t batch) {
  Wide count = floor_divide(Wide{available} - sectors.fixed - Wide{batch} * sectors.per_token,
                            sectors.with_rest);
  if (sectors.masks == 0) return count;
  const Wide mask = mask_bytes(launch, sectors, count, batch);
  const Wide step = sectors.with_rest + mask_bytes(launch, sectors, count + 1, batch) - mask;
  return count + floor_divide(-mask, step);
}

std::string decimal(Wide number) {
  if (number < 0) return "-" + decimal(-number);
  std::string digits;
  do {
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(number % 10)));
    number /= 10;
  } while (number > 0);
  return digits;
}

void put_counts(OrderedJson& json, const Launch& launch, const Sectors& sectors, int64_t count,
                int64_t batch) {
  const int64_t cache = (Amount{count} * sectors.bytes).value();
  json["max_batch_tokens"] = batch;
  json["num_sectors"] = count;
  json["num_blocks"] = cache / sectors.all_layers;
  json["cache_bytes"] = cache;
  OrderedJson types = OrderedJson::object();
  for (const LayerGroup& group : launch.groups) {
    const int64_t block = group.layers * layer_block_bytes(launch);
    types[group.type] = {{"layers", group.layers},
                         {"blocks", (Amount{count} * (sectors.bytes / block)).value()},
                         {"bytes_per_block", block}};
  }
  json["attention_types"] = std::move(types);
  json["capacity_tokens"] = (Amount{count} * sectors.tokens).value();
  json["prefix_sharing"] = !launch.slides();
}

}  // namespace

void size(const Launch& launch, double total_gib, double free_gib, Answer& answer) {
  const Sectors sectors = sectors_of(launch);
  // CUDA's counts are whole bytes; allocated = total - free, so that other processes count.
  const auto total = static_cast<int64_t>(total_gib * kGib);
  const int64_t allocated = total - static_cast<int64_t>(free_gib * kGib);
  const auto available =
      static_cast<int64_t>(static_cast<double>(total - allocated) * launch.share);
  OrderedJson& json = answer.sizing;
  json["available"] = available;
  json["bytes_per_batch_token"] = sectors.per_token;
  json["bytes_per_sector"] = sectors.bytes;
  json["tokens_per_sector"] = sectors.tokens;
  json["bytes_per_cache_sector"] = sectors.with_rest;
  json["fixed_bytes"] = sectors.fixed;
  json["bytes_per_block"] = sectors.all_layers;
  json["groups"] = launch.groups.size();
  answer.says.push_back(fmt::format("Memory available for cache allocation: {:.2f} MB",
                                    static_cast<double>(available) / 0x1p20));
  const int64_t batch = launch.batch_tokens.value_or(kUsualBatch);
  Wide count = 0;
  if (launch.blocks) {
    count = Wide{*launch.blocks} * sectors.all_layers / sectors.bytes;
    const Wide footprint = sectors.fixed + Wide{batch} * sectors.per_token +
                           count * sectors.with_rest + mask_bytes(launch, sectors, count, batch);
    if (footprint > available) {
      throw Refusal{"memory",
                    fmt::format("MemoryError: Memory footprint {} is more than available memory {}",
                                decimal(footprint), available)};
    }
  } else {
    count = fitted(launch, sectors, available, batch);
  }
  if (count <= 0) {
    throw Refusal{"memory",
                  fmt::format("ValueError: Invalid values: max_batch_tokens = {}, num_sectors = {}",
                              batch, decimal(count))};
  }
  const auto held = static_cast<int64_t>(count);
  put_counts(json, launch, sectors, held, batch);
  answer.says.push_back(fmt::format(
      "Paged cache initialized: self.max_batch_tokens = {}, self.num_sectors = {}, mb_per_sector = "
      "{:.2f}",
      batch, held, static_cast<double>(sectors.bytes) / 0x1p20));
  Figures& figures = answer.figures;
  figures.kv_tokens = (Amount{held} * sectors.tokens).value();
  figures.kv_bytes = (Amount{held + 2} * sectors.bytes).value();
  figures.kv_formula = fmt::format("({} sectors + 2) x {} bytes", held, sectors.bytes);
  figures.bytes_per_token =
      static_cast<double>(sectors.all_layers) / static_cast<double>(launch.page);
  figures.step_tokens = batch;
  const Wide runtime = Wide{batch} * sectors.per_token + mask_bytes(launch, sectors, count, batch);
  figures.runtime_bytes = static_cast<int64_t>(std::min(runtime, Wide{Amount::kMost}));
  figures.runtime_formula =
      fmt::format("{} tokens of a batch x {} bytes{}", batch, sectors.per_token,
                  sectors.masks > 0 ? ", and attention masks" : "");
}

void size_generate(const Launch& launch, double free_gib, Answer& answer) {
  int64_t full = 0, window = 0;
  for (const LayerGroup& group : launch.groups)
    (group.type == "sliding_attention" ? window : full) += group.layers;
  const int64_t token = 2 * launch.kv_heads * launch.head_dim * launch.element;
  const int64_t held = launch.window > 0 ? std::min(launch.window, launch.length) : launch.length;
  const Amount sequence = Amount{full} * token * launch.length + Amount{window} * token * held;
  const Amount cache = sequence * launch.sequences;
  // Logits of the last position in float32 beside the model's, and the growing cache's copy: torch
  // concatenates keys and values of a layer at each step.
  const Amount logits = Amount{launch.sequences} * launch.vocabulary * (4 + launch.element);
  const Amount copy =
      launch.cache == "dynamic" ? Amount{launch.sequences} * token * launch.length : Amount{0};
  OrderedJson& json = answer.sizing;
  json["cache_implementation"] = launch.cache;
  json["batch_size"] = launch.sequences;
  json["max_length"] = launch.length;
  json["bytes_per_sequence"] = sequence.value();
  json["cache_bytes"] = cache.value();
  json["logits_bytes"] = logits.value();
  json["growth_bytes"] = copy.value();
  Figures& figures = answer.figures;
  figures.kv_bytes = cache.value();
  figures.kv_tokens = (Amount{launch.sequences} * launch.length).value();
  figures.kv_formula = fmt::format("{} sequences x {} tokens x {} layers ({} with a window)",
                                   launch.sequences, launch.length, full + window, window);
  figures.bytes_per_token = static_cast<double>(token * (full + window));
  figures.runtime_bytes = (logits + copy).value();
  figures.runtime_formula = "logits of the last position, and a layer's copy while a cache grows";
  const Amount needed = cache + figures.runtime_bytes;
  constexpr double kMost = 0x1p33;
  if (needed > Amount{static_cast<int64_t>(std::clamp(free_gib, 0.0, kMost) * kGib)}) {
    throw Refusal{"memory",
                  fmt::format("torch.OutOfMemoryError: CUDA out of memory: the cache of {} "
                              "sequences of {} tokens takes {:.2f} GiB of {:.2f} GiB free",
                              launch.sequences, launch.length,
                              static_cast<double>(needed.value()) / kGib, free_gib)};
  }
}

}  // namespace plimsoll::engines::transformers
