// vLLM's KV cache: the size of a block, groups of layers that share a block table, blocks for a
// budget, concurrency, and the longest request that fits (vllm/v1/core/kv_cache_utils.py, 0.32).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

/// Which states of a recurrent layer are kept for prefixes (vLLM's mamba_cache_mode).
enum class StateMode : uint8_t {
  none,   // no states: a request holds its newest one alone
  align,  // states at multiples of a block, of a request's latest steps
  all,    // a state in every block of a request
};

/// Blocks of recurrent states (vllm/v1/kv_cache_interface.py: MambaSpec).
struct StateBlocks {
  StateMode mode = StateMode::align;
  int64_t unit = 16;           // tokens; a hybrid's block is a multiple of it,
  bool unit_of_block = true;   // and of the kernel's own block
  int64_t chunk = 0;           // tokens; with StateMode::all a block is a multiple of it too
  int64_t drafted = 0;         // blocks that a request holds for tokens of its draft
  bool drafted_in_all = true;  // with StateMode::all too
  int64_t block_size = 0;      // without prefixes: --mamba-block-size; 0: max_model_len
};

struct KvOptions {
  int64_t block_size = 0;  // --block-size; 0: the default of the attention kernel
  int64_t max_model_len = 0;
  int64_t in_flight_tokens = 0;  // scheduled and not yet finished
  bool hybrid = true;            // --disable-hybrid-kv-cache-manager unsets it
  bool keeps_windows = true;     // false: every layer keeps every token
  bool attention_alone = false;  // states lie outside the blocks (the first engine)
  StateBlocks states;
  bool long_fp8_blocks = false;     // FlashAttention 4 reads an fp8 cache in blocks of 64
  bool latents_first = false;       // packed groups: those of every token before those of windows,
  bool states_last = false;         // groups of recurrent states behind the others
  bool estimates_by_layer = false;  // needs are those of the layers as stated, in no groups
  bool pages_apart = false;         // and pages of unequal size never in one place of a block
  double group_factor = 1.5;        // buckets closer than this are not split (1.25 before 0.18)
  bool null_block = true;           // one block is held back from requests
  bool tokens_by_concurrency = true;  // the pool's tokens are computed from its requests (0.20.1)
  int64_t blocks_override = 0;        // --num-gpu-blocks-override
  bool override_checked = true;       // a request must fit them, not what was measured
  int64_t context_ranks = 1;          // among which a request's tokens are divided
  int64_t encoder_tokens = 0;         // room that is checked for the encoder's part of a request
};

/// A layer's cache with its block size resolved.
struct KvSpec {
  KvKind kind = KvKind::full;
  int64_t block_size = 0;
  Amount page;         // bytes of one block of one layer, as the layer states it
  Amount padded_page;  // after pages of unequal size are made equal
  int64_t window = 0;
  std::string kernel;
  size_t layer = 0;   // in the shape's list of caches
  Amount stride = 0;  // bytes of which a packed block is a multiple; 0: none
  bool replicated = false;
  bool exports = false;  // a state that a prefill can export before its end
};

/// One line of the `kv_kinds` list.
struct KvKindCount {
  KvSpec spec;
  int64_t layers = 0;
};

/// Layers that share one block table.
struct KvGroup {
  std::vector<KvSpec> layers;
};

/// How many blocks a request needs of one group: state_blocks where there are any, else
/// min(ceil(length / block_size), most_blocks) + extra_blocks.
struct GroupNeed {
  int64_t block_size = 0;    // tokens of a request for each block of a rank
  int64_t most_blocks = 0;   // of a window; 0: no bound
  int64_t extra_blocks = 0;  // of a window that begins inside a block, or for a draft's tokens
  int64_t state_blocks = 0;  // recurrent states or what an encoder read, whatever the length

  [[nodiscard]] Amount blocks(int64_t length) const;
};

class KvPlan {
 public:
  /// Throws Error(usage) for a block size that the kernels refuse.
  KvPlan(const ModelShape& shape, const KvOptions& options);

  /// The part of the plan for the caches [first, first + count) of the shape's list: those of a
  /// pipeline stage, under block tables that all stages share.
  [[nodiscard]] KvPlan part(size_t first, size_t count) const;

  [[nodiscard]] int64_t block_size() const { return block_size_; }
  [[nodiscard]] const std::vector<KvKindCount>& kinds() const { return kinds_; }
  [[nodiscard]] const std::vector<KvGroup>& groups() const { return groups_; }
  [[nodiscard]] std::vector<int64_t> group_sizes() const;
  /// Blocks that a request holds of each group.
  [[nodiscard]] std::vector<GroupNeed> group_needs() const;
  [[nodiscard]] bool empty() const { return groups_.empty(); }
  /// Bytes of one block in every tensor of the pool.
  [[nodiscard]] Amount bytes_per_block() const { return bytes_per_block_; }
  [[nodiscard]] int64_t blocks_for(Amount budget) const;
  /// Blocks that one request of this length holds, over all groups.
  [[nodiscard]] Amount blocks_per_request(int64_t length) const;
  [[nodiscard]] Amount bytes_per_request(int64_t length) const;
  [[nodiscard]] double concurrency(int64_t blocks, int64_t length) const;
  /// Tokens that `blocks` hold by the release's own count, for requests of `length`.
  [[nodiscard]] int64_t tokens(int64_t blocks, int64_t length) const;
  /// Bytes of a budget that are left for requests: all but the null block.
  [[nodiscard]] Amount usable(Amount budget) const;
  /// The longest request up to `most` that fits in `usable` bytes; 0: none.
  [[nodiscard]] int64_t longest_request(Amount usable, int64_t most) const;
  /// Bytes that one more token adds beyond every window.
  [[nodiscard]] Amount bytes_per_token() const;
  [[nodiscard]] const KvOptions& options() const { return options_; }

 private:
  void resolve_block_size(const ModelShape& shape);
  void resolve_state_page(const ModelShape& shape, Amount state, int64_t multiple);
  void make_specs(const ModelShape& shape);
  void make_groups();
  void promote_to_full();
  void count_kinds();
  void weigh_block();
  [[nodiscard]] Amount block_stride() const;
  [[nodiscard]] Amount pages_of_each_size() const;
  [[nodiscard]] Amount group_blocks(const KvGroup& group, int64_t length) const;
  [[nodiscard]] GroupNeed need_of(const KvSpec& spec) const;

  KvOptions options_;
  int64_t block_size_ = 16;
  Amount state_page_ = 0;       // a recurrent state padded to an attention page; 0: no states
  bool packed_ = false;         // pages of unequal size lie side by side in a block
  std::vector<KvSpec> stated_;  // as the layers state them
  std::vector<KvSpec> specs_;   // with pages made equal
  std::vector<KvKindCount> kinds_;
  std::vector<KvGroup> groups_;
  Amount bytes_per_block_ = 0;
};

}  // namespace plimsoll::vllm
