#include "vllm/kv/kv_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "vllm/kv/kv_groups.h"

namespace plimsoll::vllm {
namespace {

constexpr int64_t kDefaultBlock = 16;

struct BlockRule {
  int64_t multiple;   // sizes of block that the kernels take
  int64_t preferred;  // without --block-size
};

/// Sizes of block by attention kernel on an NVIDIA card.
BlockRule block_rule(const ModelShape& shape, bool long_fp8_blocks) {
  switch (shape.kernel) {
    case AttentionKernel::flash:
      return {16, kDefaultBlock};
    // Heads beyond 256 elements need FlashAttention 4.
    case AttentionKernel::large_head_flash:
      return long_fp8_blocks ? BlockRule{64, 64} : BlockRule{16, kDefaultBlock};
    case AttentionKernel::mla:
    case AttentionKernel::sparse_mla:
      return {shape.latent.multiple, shape.latent.block};
    case AttentionKernel::deepseek_v4:
      return {256, 256};
  }
  return {16, kDefaultBlock};
}

/// Tokens at whose multiples every recurrent layer can export its state in the middle of a prefill;
/// 1: some layer cannot (vllm/model_executor/layers/mamba/abstract.py).
int64_t checkpoint_alignment(const ModelShape& shape) {
  int64_t alignment = 1;
  for (const KvLayer& layer : shape.kv_layers) {
    if (layer.kind != KvKind::state) continue;
    if (layer.checkpoint == 0) return 1;
    alignment = std::lcm(alignment, layer.checkpoint);
  }
  return alignment;
}

/// Pages of windows take the size of some latents' pages.
void pad_to_latents(std::vector<KvSpec>& specs) {
  std::set<Amount> sizes;
  for (const KvSpec& spec : specs) {
    if (spec.kind == KvKind::latent) sizes.insert(spec.padded_page);
  }
  for (KvSpec& spec : specs) {
    const auto size = sizes.lower_bound(spec.padded_page);
    if (size != sizes.end()) spec.padded_page = *size;
  }
}

/// Bytes of which a packed block with such a page is a multiple (vllm/v1/kv_cache_interface.py:
/// get_block_stride_alignment); 0: none.
Amount stride_of(const KvLayer& layer, int64_t block) {
  if (layer.kernel_block == 0) return layer.stride;
  const int64_t kernel = std::gcd(layer.kernel_block, block);
  if (kernel == block) return 0;
  return layer.token_bytes * (kernel / layer.compression);
}

Amount bytes_of(const KvGroup& group) {
  Amount bytes = 0;
  for (const KvSpec& spec : group.layers) bytes += spec.padded_page;
  return bytes;
}

/// Lets a layer keep every token.
void widen(KvSpec& spec) {
  if (spec.kind == KvKind::sliding || spec.kind == KvKind::chunked) spec.kind = KvKind::full;
  if (spec.kind == KvKind::sliding_latent) spec.kind = KvKind::latent;
  if (spec.kind == KvKind::full || spec.kind == KvKind::latent) spec.window = 0;
}

}  // namespace

Amount GroupNeed::blocks(int64_t length) const {
  if (state_blocks > 0) return state_blocks;
  Amount held = ceil_div(length, std::max<int64_t>(1, block_size));
  if (most_blocks > 0) held = std::min(held, Amount{most_blocks});
  return held + extra_blocks;
}

KvPlan::KvPlan(const ModelShape& shape, const KvOptions& options) : options_(options) {
  resolve_block_size(shape);
  make_specs(shape);
  make_groups();
}

void KvPlan::resolve_block_size(const ModelShape& shape) {
  const BlockRule rule = block_rule(shape, options_.long_fp8_blocks);
  block_size_ = options_.block_size > 0 ? options_.block_size : rule.preferred;
  if (block_size_ % rule.multiple != 0) {
    fail(ExitCode::usage,
         "--block-size {}: the attention kernels of this model take multiples of {}", block_size_,
         rule.multiple);
  }
  packed_ = shape.packs_pages;
  Amount state = 0;
  for (const KvLayer& layer : shape.kv_layers) {
    if (layer.kind == KvKind::state && !options_.attention_alone)
      state = std::max(state, layer.token_bytes);
  }
  if (state > Amount{0}) {
    resolve_state_page(shape, state, std::lcm(rule.multiple, shape.block_multiple));
  }
}

/// A hybrid's block is made large enough that one attention page holds a state
/// (vllm/platforms/interface.py: _align_hybrid_block_size).
void KvPlan::resolve_state_page(const ModelShape& shape, Amount state, int64_t multiple) {
  const Amount token = shape.attention_token_bytes;
  if (token == Amount{0}) {
    state_page_ = state;
    return;
  }
  const StateBlocks& states = options_.states;
  int64_t unit = states.unit_of_block ? std::max(block_size_, states.unit) : states.unit;
  if (states.mode == StateMode::all) unit = std::lcm(unit, states.chunk);
  if (states.mode == StateMode::align) unit = std::lcm(unit, checkpoint_alignment(shape));
  const Amount needed = ceil_div(state, token * unit) * unit;
  block_size_ = std::max<int64_t>(block_size_, padded_to(needed, multiple).value());
  state_page_ = token * block_size_;
}

void KvPlan::make_specs(const ModelShape& shape) {
  for (size_t at = 0; at < shape.kv_layers.size(); ++at) {
    const KvLayer& layer = shape.kv_layers[at];
    if (options_.attention_alone && layer.kind == KvKind::state) continue;
    KvSpec spec;
    spec.kind = layer.kind;
    spec.window = layer.window;
    if (!options_.keeps_windows) widen(spec);
    spec.kernel = layer.kernel;
    spec.block_size = layer.fixed_block > 0 ? layer.fixed_block : block_size_;
    if (layer.kind == KvKind::state) {
      const StateBlocks& states = options_.states;
      spec.page = state_page_;
      spec.exports = layer.checkpoint > 0;
      spec.replicated = layer.replicated;
      if (states.mode == StateMode::none)
        spec.block_size = states.block_size > 0 ? states.block_size : options_.max_model_len;
    } else {
      spec.page = layer.token_bytes * (spec.block_size / layer.compression);
      if (layer.alignment > 0) spec.page = padded_to(spec.page, layer.alignment);
      spec.stride = stride_of(layer, spec.block_size);
    }
    spec.padded_page = spec.page;
    spec.layer = at;
    specs_.push_back(spec);
  }
  stated_ = specs_;
  count_kinds();
}

void KvPlan::count_kinds() {
  kinds_.clear();
  for (const KvSpec& spec : stated_) {
    const auto known = std::find_if(kinds_.begin(), kinds_.end(), [&](const KvKindCount& kind) {
      return kind.spec.kind == spec.kind && kind.spec.block_size == spec.block_size &&
             kind.spec.page == spec.page && kind.spec.window == spec.window;
    });
    if (known == kinds_.end()) {
      kinds_.push_back({spec, 1});
    } else {
      ++known->layers;
    }
  }
}

void KvPlan::promote_to_full() {
  const bool some_full = std::any_of(specs_.begin(), specs_.end(), [](const KvSpec& spec) {
    return spec.kind == KvKind::full || spec.kind == KvKind::latent;
  });
  if (!some_full) return;
  for (KvSpec& spec : specs_) widen(spec);
}

void KvPlan::make_groups() {
  if (specs_.empty()) return;
  if (!options_.hybrid) promote_to_full();
  if (is_uniform(specs_)) {
    groups_ = {{specs_}};
  } else if (packed_) {
    if (options_.pages_apart) pad_to_latents(specs_);
    groups_ = packed_groups(specs_);
    if (options_.latents_first) {
      std::stable_partition(groups_.begin(), groups_.end(), [](const KvGroup& group) {
        return group.layers.front().kind == KvKind::latent;
      });
    }
  } else {
    unify_pages(specs_);
    groups_ = groups_of_equal_pages(specs_, options_.group_factor);
    if (options_.states_last) {
      std::stable_partition(groups_.begin(), groups_.end(), [](const KvGroup& group) {
        return group.layers.front().kind != KvKind::state;
      });
    }
  }
  weigh_block();
}

/// A place in the block for each page of a size, as many as the group with most has.
Amount KvPlan::pages_of_each_size() const {
  std::map<Amount, int64_t> places;
  for (const KvGroup& group : groups_) {
    std::map<Amount, int64_t> own;
    for (const KvSpec& spec : group.layers) ++own[spec.padded_page];
    for (const auto& [page, count] : own) places[page] = std::max(places[page], count);
  }
  Amount bytes = 0;
  for (const auto& [page, count] : places) bytes += page * count;
  return bytes;
}

void KvPlan::weigh_block() {
  bytes_per_block_ = packed_ && options_.pages_apart ? pages_of_each_size() : Amount{0};
  if (bytes_per_block_ > Amount{0}) return;
  for (const KvGroup& group : groups_) {
    bytes_per_block_ = std::max(bytes_per_block_, bytes_of(group));
  }
  if (packed_) bytes_per_block_ = padded_to(bytes_per_block_, block_stride());
}

Amount KvPlan::block_stride() const {
  int64_t stride = 1;
  for (const KvSpec& spec : specs_) {
    if (spec.stride > Amount{0}) stride = std::lcm(stride, spec.stride.value());
  }
  return stride;
}

KvPlan KvPlan::part(size_t first, size_t count) const {
  KvPlan result = *this;
  const auto outside = [&](const KvSpec& spec) {
    return spec.layer < first || spec.layer >= first + count;
  };
  std::erase_if(result.stated_, outside);
  std::erase_if(result.specs_, outside);
  for (KvGroup& group : result.groups_) std::erase_if(group.layers, outside);
  std::erase_if(result.groups_, [](const KvGroup& group) { return group.layers.empty(); });
  result.count_kinds();
  result.weigh_block();
  return result;
}

std::vector<int64_t> KvPlan::group_sizes() const {
  std::vector<int64_t> sizes;
  for (const KvGroup& group : groups_) sizes.push_back(static_cast<int64_t>(group.layers.size()));
  return sizes;
}

std::vector<GroupNeed> KvPlan::group_needs() const {
  std::vector<GroupNeed> needs;
  for (const KvGroup& group : groups_) needs.push_back(need_of(group.layers.front()));
  return needs;
}

int64_t KvPlan::blocks_for(Amount budget) const {
  if (options_.blocks_override > 0) return options_.blocks_override;
  if (bytes_per_block_ == Amount{0} || budget <= Amount{0}) return 0;
  return budget.value() / bytes_per_block_.value();
}

GroupNeed KvPlan::need_of(const KvSpec& spec) const {
  GroupNeed need;
  need.block_size = spec.block_size;
  const Amount in_flight = options_.in_flight_tokens;
  switch (spec.kind) {
    case KvKind::full:
    case KvKind::latent:
      need.block_size *= options_.context_ranks;
      break;
    case KvKind::sliding:
    case KvKind::sliding_latent:
      need.most_blocks = ceil_div(Amount{spec.window} - 1 + in_flight, spec.block_size).value();
      need.extra_blocks = 1;
      break;
    case KvKind::chunked:
      need.most_blocks = ceil_div(Amount{spec.window} + in_flight, spec.block_size).value();
      break;
    case KvKind::state:
      if (options_.states.mode == StateMode::all) {
        need.extra_blocks = options_.states.drafted_in_all ? options_.states.drafted : 0;
      } else {
        const int64_t kept = options_.states.mode == StateMode::none ? 1 : spec.exports ? 3 : 2;
        need.state_blocks = kept + options_.states.drafted;
      }
      break;
    case KvKind::ring:
      need.state_blocks = 1;
      break;
    case KvKind::crossed:
      need.state_blocks = ceil_div(options_.encoder_tokens, spec.block_size).value();
  }
  return need;
}

Amount KvPlan::group_blocks(const KvGroup& group, int64_t length) const {
  Amount most = 0;
  for (const KvSpec& spec : group.layers) most = std::max(most, need_of(spec).blocks(length));
  return most;
}

Amount KvPlan::blocks_per_request(int64_t length) const {
  Amount sum = 0;
  for (const KvGroup& group : groups_) sum += group_blocks(group, length);
  return sum;
}

Amount KvPlan::bytes_per_request(int64_t length) const {
  if (!options_.estimates_by_layer) return blocks_per_request(length) * bytes_per_block_;
  Amount bytes = 0;
  for (const KvSpec& spec : stated_) bytes += need_of(spec).blocks(length) * spec.page;
  return bytes;
}

double KvPlan::concurrency(int64_t blocks, int64_t length) const {
  Amount each = blocks_per_request(length);
  if (packed_ && options_.pages_apart) {  // of the first group's size
    Amount bytes = 0;
    for (const KvGroup& group : groups_) bytes += group_blocks(group, length) * bytes_of(group);
    each = ceil_div(bytes, bytes_of(groups_.front()));
  }
  if (each <= Amount{0}) return 0;
  return static_cast<double>(blocks) / static_cast<double>(each.value());
}

int64_t KvPlan::tokens(int64_t blocks, int64_t length) const {
  if (options_.tokens_by_concurrency) {
    return static_cast<int64_t>(concurrency(blocks, length) * static_cast<double>(length));
  }
  const auto groups = static_cast<int64_t>(std::max<size_t>(1, groups_.size()));
  return (Amount{blocks / groups} * block_size_ * options_.context_ranks).value();
}

Amount KvPlan::usable(Amount budget) const {
  if (options_.blocks_override > 0 && options_.override_checked)
    budget = bytes_per_block_ * options_.blocks_override;
  return options_.null_block ? budget - bytes_per_block_ : budget;
}

int64_t KvPlan::longest_request(Amount usable, int64_t most) const {
  if (bytes_per_request(1) > usable) return 0;
  int64_t low = 1;
  int64_t high = most;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (bytes_per_request(middle) <= usable) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

Amount KvPlan::bytes_per_token() const {
  Amount sum = 0;
  for (const KvSpec& spec : specs_) {
    const bool grows = spec.kind == KvKind::full || spec.kind == KvKind::latent;
    if (grows) sum += spec.page / (spec.block_size * options_.context_ranks);
  }
  return sum;
}

}  // namespace plimsoll::vllm
