// vllm/config/parallel.py, vllm/config/model.py (verify_with_parallel_config: 0.11.1 on),
// vllm/v1/kv_cache_interface.py, vllm/v1/core/kv_cache_coordinator.py (only the one that keeps
// prefixes asserts) and, from 0.20 on, kv_cache_utils.py (resolve_kv_cache_block_sizes).
#include "vllm/launch/context_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>

#include "base/error.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kDividesHeads{0, 11, 1};
constexpr VllmVersion kSizesResolved{0, 20, 0};
constexpr VllmVersion kDividesHybrids{0, 26, 0};

[[noreturn]] void refuse(const std::string& why) {
  fail(ExitCode::usage, "{} Use another --decode-context-parallel-size, or leave it out.", why);
}

bool has(const KvPlan& kv, std::initializer_list<KvKind> kinds) {
  return std::ranges::any_of(kv.groups(), [&](const KvGroup& group) {
    return std::ranges::find(kinds, group.layers.front().kind) != kinds.end();
  });
}

/// Ranks divide the tokens of heads that they would all hold.
void check_heads(const ModelShape& shape, const EngineArgs& args) {
  const int64_t ranks = args.context_ranks, tensor = args.tensor_parallel;
  if (args.version < kDividesHeads) {
    refuse(
        "AssertionError: DCP requires attention impls to return the softmax lse for decode. To "
        "0.11.0 only kernels of latent attention (MLA) do.");
  }
  if (tensor <= shape.kv_heads) {
    refuse(fmt::format(
        "Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` ({}) to be "
        "greater than the model's total number of KV heads ({}).",
        tensor, shape.kv_heads));
  }
  if (ranks > tensor / shape.kv_heads) {
    refuse(fmt::format(
        "`--decode-context-parallel-size` ({}) exceeds the maximum supported value ({}) for "
        "`--tensor-parallel-size` ({}) and {} model KV heads.",
        ranks, tensor / shape.kv_heads, tensor, shape.kv_heads));
  }
  const int64_t queries = shape.heads / shape.kv_heads;
  if (queries % ranks != 0) {
    refuse(
        fmt::format("The model's number of query heads per KV head ({}) must be divisible by "
                    "`--decode-context-parallel-size` ({}) for GQA/MQA.",
                    queries, ranks));
  }
}

}  // namespace

void check_context_ranks(const ModelShape& shape, const KvPlan& kv, const EngineArgs& args,
                         bool prefixes) {
  using enum KvKind;
  if (args.context_ranks == 1) return;
  if (args.tensor_parallel % args.context_ranks != 0) {
    refuse(fmt::format("tp_size={} must be divisible by dcp_size={}.", args.tensor_parallel,
                       args.context_ranks));
  }
  if (has(kv, {full}) && !has(kv, {latent}) && shape.kv_heads > 0) check_heads(shape, args);
  if (has(kv, {sliding, sliding_latent, chunked}))
    refuse("AssertionError: DCP not support sliding window.");
  if (kv.groups().size() < 2 || args.version >= kDividesHybrids) return;
  if (args.version >= kSizesResolved) {
    refuse(
        "Hybrid KV cache groups with multiple block sizes do not support context parallelism "
        "(dcp_world_size/pcp_world_size > 1).");
  }
  if (prefixes) refuse("AssertionError: DCP not support hybrid attn now.");
}

}  // namespace plimsoll::vllm
