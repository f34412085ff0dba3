#include "vllm/launch/attention_room.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "base/size_text.h"
#include "hardware/capability.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kExpandsContext{0, 11, 0};   // in the profile (MLA's _dummy run)
constexpr VllmVersion kSharesWorkspace{0, 13, 0};  // before: the profile gathers keys of its own
constexpr VllmVersion kSparseExpands{0, 16, 0};    // sparse layers are MLAAttention's too
constexpr VllmVersion kHoldsQueries{0, 18, 0};
constexpr VllmVersion kProfilesLogits{0, 19, 0};  // of indexers
constexpr VllmVersion kHoldsTopK{0, 20, 0};       // RADIX_TOPK_WORKSPACE_SIZE
constexpr VllmVersion kFlashInferCompressed{0, 24, 0};
constexpr VllmVersion kHoldsSplits{0, 25, 0};
constexpr VllmVersion kHoldsChoice{0, 27, 0};      // of compressed entries
constexpr VllmVersion kPadsQueries{0, 29, 0};      // of caches in 16 bits
constexpr VllmVersion kHoldsPrefill{0, 31, 0};     // padded queries and both outputs
constexpr VllmVersion kSixtyFourHeads{0, 32, 0};   // on Blackwell; before: 128
constexpr VllmVersion kPositionsInRows{0, 32, 0};  // zeros, where latents have none
constexpr VllmVersion kFewerRowsIfLong{0, 32, 0};  // sparse_mla_prefill_workspace_factor
constexpr VllmVersion kExchangesChoice{0, 32, 0};  // between ranks
constexpr VllmVersion kSplitsOfDrafts{0, 31, 0};
constexpr VllmVersion kProfilesSplits{0, 33, 0};  // before: reserved with the KV cache

constexpr int64_t kHalf = 2;  // bytes of bfloat16, in which backends gather

/// A launch as far as rooms of attention go by it.
struct Scene {
  const EngineArgs& args;
  const AttentionSizes& sizes;
  const LatentBackend& backend;
  hardware::Architecture card;
  Amount tokens;
  Amount length;
  Amount context;  // rows that MLA expands at once
  int64_t element;

  [[nodiscard]] bool since(const VllmVersion& first) const { return args.version >= first; }
  [[nodiscard]] bool sparse() const { return sizes.chosen > 0; }

  /// Contexts of the longest request that prefill gathers at once (get_prefill_workspace_size).
  [[nodiscard]] int64_t contexts() const {
    constexpr int64_t kLong = 256 * 1024;
    return since(kFewerRowsIfLong) && length > Amount{kLong} ? 2 : 5;
  }
};

/// FlashMLA's for sparse attention (v1/attention/backends/mla/flashmla_sparse.py: __init__).
TensorSum sparse_request(const Scene& scene) {
  constexpr int64_t kHopperHeads = 64, kBlackwellHeads = 128, kRotated = 64;
  TensorSum request;
  if (!scene.backend.gathers) return request;
  const AttentionSizes& sizes = scene.sizes;
  const bool packed = scene.backend.packed;
  const bool wide =
      scene.card == hardware::Architecture::blackwell && !scene.since(kSixtyFourHeads);
  const int64_t multiple = wide ? kBlackwellHeads : kHopperHeads;
  const Amount padded = padded_to(sizes.heads, multiple);
  const bool rotates = sizes.row > sizes.latent;
  const int64_t row =
      packed && !rotates && scene.since(kPositionsInRows) ? sizes.latent + kRotated : sizes.row;
  const bool pads = !packed && scene.since(kPadsQueries);
  if (scene.since(kHoldsQueries)) {
    request.add(scene.tokens * (pads ? padded : Amount{sizes.heads}), row, kHalf, "queries");
  }
  if (!packed) return request;
  request.add(scene.length * scene.contexts(), row, kHalf, "cache in 16 bits");
  if (scene.since(kHoldsPrefill)) {
    request.add(scene.tokens * padded, row, kHalf, "padded queries");
    request.add(scene.tokens * padded, sizes.latent, kHalf, "padded outputs");
    request.add(scene.tokens * sizes.heads, sizes.latent, kHalf, "outputs");
  }
  return request;
}

/// FlashMLA's for compressed entries (vllm/models/deepseek_v4/nvidia/flashmla.py).
TensorSum compressed_request(const Scene& scene) {
  constexpr int64_t kRequests = 4, kTile = 128, kIndex = 4;
  TensorSum request;
  const AttentionSizes& sizes = scene.sizes;
  if (sizes.compression == 0) return request;
  const Amount entries = ceil_div(scene.length, sizes.compression) + sizes.window + scene.tokens;
  request.add(entries * kRequests, sizes.row, kHalf, "entries in 16 bits");
  if (scene.since(kHoldsChoice)) {
    request.add(scene.tokens, padded_to(Amount{sizes.chosen} + sizes.window, kTile), kIndex,
                "indices");
    request.add(scene.tokens, 1, kIndex, "lengths");
  }
  return request;
}

/// An indexer's keys of the context (model_executor/layers/sparse_attn_indexer.py).
TensorSum index_request(const Scene& scene) {
  constexpr int64_t kKeysInLatent = 8;  // 576 x 2 // 132
  TensorSum request;
  if (scene.sizes.index_key == 0) return request;
  const Amount rows = scene.length * (kKeysInLatent * scene.contexts()) / scene.sizes.pool;
  request.add(rows, scene.sizes.index_key, 1, "keys of indexers");
  request.add(rows, kFloat32, 1, "their scales");
  if (scene.since(kHoldsTopK)) request.add(1, kMiB, 1, "top-k");
  return request;
}

/// Outputs of the parts in which Triton's kernels decode (v1/attention/backends/mla/triton_mla.py:
/// _compute_num_kv_splits).
TensorSum split_request(const Scene& scene, Amount sequences, int64_t processors) {
  constexpr int64_t kPart = 512, kPartsOfProcessor = 2;
  TensorSum request;
  if (!scene.backend.splits || !scene.since(kHoldsSplits)) return request;
  const int64_t wanted = std::max<int64_t>(1, scene.length.value() / kPart);
  auto parts = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted)));
  if (processors > 0) parts = std::min(parts, processors * kPartsOfProcessor);
  const bool drafts = scene.since(kSplitsOfDrafts) && !scene.args.draft_method.empty();
  const Amount rows = sequences * (drafts ? 1 + scene.args.draft_tokens : 1);
  request.add(rows * scene.sizes.heads * parts, scene.sizes.latent + 1, kFloat32,
              "parts of decodes");
  return request;
}

/// Keys and values of the context, which the profile allocates in each layer.
TensorSum expanded_context(const Scene& scene) {
  TensorSum sum;
  const AttentionSizes& sizes = scene.sizes;
  if (sizes.expanded == 0 || !scene.since(scene.sparse() ? kSparseExpands : kExpandsContext))
    return sum;
  sum.add(scene.context * sizes.heads, sizes.expanded, scene.element, "expanded context");
  return sum;
}

/// What the profile allocates in the place of an indexer's logits
/// (envs.py: VLLM_SPARSE_INDEXER_MAX_LOGITS_MB), or of the keys that it gathers.
TensorSum index_trial(const Scene& scene) {
  constexpr int64_t kLogits = 512, kIndex = 4, kCopies = 2, kContexts = 2;
  TensorSum sum;
  const AttentionSizes& sizes = scene.sizes;
  if (sizes.index_key == 0) return sum;
  if (!scene.since(kSharesWorkspace)) {
    sum.add(scene.length * kContexts * kCopies, sizes.index_key + kFloat32, 1, "keys of indexers");
  }
  if (scene.since(kProfilesLogits)) sum.add(kLogits, kMiB, 1, "logits of indexers");
  if (scene.since(kExchangesChoice) && scene.args.tensor_parallel > 1) {
    sum.add(scene.tokens * kCopies, sizes.chosen, kIndex, "indices between ranks");
  }
  return sum;
}

const TensorSum& larger(const TensorSum& a, const TensorSum& b) {
  return a.bytes < b.bytes ? b : a;
}

}  // namespace

void TensorSum::add(Amount count, Amount elements, int64_t size, const char* what) {
  constexpr int64_t kAlignment = 256;
  bytes += padded_to(count * elements * size, kAlignment);
  formula += fmt::format("{}{} x {} x {} B ({})", formula.empty() ? "" : " + ", count.value(),
                         elements.value(), size, what);
}

Amount wanted_rows(Amount sequences, Amount length, int64_t block) {
  constexpr int64_t kRequests = 8, kBlocks = 4, kMost = 64 * 1024;
  const Amount wanted = std::max(length * kRequests, sequences * block * kBlocks);
  return std::min(wanted, Amount{kMost});
}

Amount context_rows(const EngineArgs& args, const EngineLimits& limits, int64_t max_model_len,
                    const ModelShape& shape) {
  constexpr VllmVersion kWholePages{0, 28, 0};  // before: a page for each request at least
  const int64_t block = args.block_size > 0 ? args.block_size : shape.latent.block;
  const Amount sequences = limits.max_num_seqs;
  const Amount rows = wanted_rows(sequences, max_model_len, block);
  if (args.version >= kWholePages) return padded_to(rows, block);
  return std::max(rows, sequences * block);
}

AttentionRoom attention_room(const EngineArgs& args, const EngineLimits& limits,
                             int64_t max_model_len, int64_t element, const ModelShape& shape,
                             const hardware::Gpu* gpu) {
  constexpr int64_t kFlashInferMiB = 128;
  AttentionRoom room;
  const AttentionSizes& sizes = shape.attention;
  if (sizes.heads == 0) return room;
  const Scene scene{args,
                    sizes,
                    shape.latent,
                    hardware::capability_of(gpu).architecture,
                    limits.max_num_batched_tokens,
                    max_model_len,
                    context_rows(args, limits, max_model_len, shape),
                    element};
  const bool flashinfer = sizes.compression > 0 &&
                          scene.card == hardware::Architecture::consumer_blackwell &&
                          scene.since(kFlashInferCompressed);
  if (flashinfer) room.own.add(kFlashInferMiB, kMiB, 1, "FlashInfer's workspace");
  if (scene.since(kSharesWorkspace)) {
    room.shared = larger(sparse_request(scene), index_request(scene));
    if (!flashinfer) room.shared = larger(room.shared, compressed_request(scene));
  }
  const TensorSum splits =
      split_request(scene, limits.max_num_seqs, gpu != nullptr ? gpu->processors : 0);
  if (scene.since(kProfilesSplits)) {
    room.shared = larger(room.shared, splits);
  } else {
    room.late = splits;
  }
  const TensorSum trial = larger(expanded_context(scene), index_trial(scene));
  if (trial.bytes == Amount{0}) return room;
  const int64_t hidden = shape.activation.hidden;
  room.step = trial;
  room.step.add(scene.tokens, hidden * 2, element, "hidden states and residuals");
  room.step.add(scene.tokens * sizes.heads, sizes.query + sizes.value, element,
                "queries and outputs");
  return room;
}

}  // namespace plimsoll::vllm
