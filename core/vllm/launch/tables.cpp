#include "vllm/launch/tables.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "vllm/launch/activation.h"
#include "vllm/launch/attention_room.h"
#include "vllm/launch/engine_choice.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kPageIndices{0, 10, 1};  // of FlashInfer, kept for graphs
constexpr VllmVersion kIndexTable{0, 17, 0};   // of indexers, a row for each token of a step
constexpr VllmVersion kSparseGathers{0, 26, 0};
constexpr VllmVersion kMasksChoices{0, 27, 0};
constexpr int64_t kMaskMiB = 128;               // GLOBAL_TOPK_MASK_MAX_BYTES
constexpr VllmVersion kTokensOnCard{0, 32, 0};  // of requests, for the second runner's n-grams
constexpr VllmVersion kDraftLogits{0, 19, 0};
constexpr VllmVersion kLogitsOfModelType{0, 28, 0};  // before: float32
constexpr int64_t kIndex = 4;                        // bytes of a block's or a token's number

class Tables {
 public:
  Tables(Made made, const TableTerms& terms, const ModelShape& shape, const KvPlan& kv)
      : made_(made),
        terms_(terms),
        args_(terms.args),
        shape_(shape),
        kv_(kv),
        second_(uses_second_runner(terms.args, shape)),
        sequences_(terms.limits.max_num_seqs),
        tokens_(terms.limits.max_num_batched_tokens),
        length_(terms.max_model_len) {}

  /// The second runner has a copy for a step's requests (input_block_tables).
  void add_block_tables() {
    TensorSum sum;
    for (const GroupNeed& need : kv_.group_needs()) {
      const Amount blocks = ceil_div(length_, need.block_size);
      sum.add(sequences_ * (second_ ? 2 : 1), blocks, kIndex, "block table");
    }
    if (second_) return add(Made::with_cache, "block tables", sum, "v1/worker/gpu/block_table.py");
    add(Made::before_profile, "block tables", sum, "v1/worker/block_table.py",
        args_.version >= kConsumed);
  }

  /// v1/attention/backends/flashinfer.py: paged_kv_indices of each group with attention.
  void add_page_indices() {
    if (args_.version < kPageIndices) return;
    TensorSum sum;
    for (const KvGroup& group : kv_.groups()) {
      const KvSpec& spec = group.layers.front();
      const bool attends = spec.kind == KvKind::full || spec.kind == KvKind::sliding;
      if (attends) sum.add(sequences_, ceil_div(length_, spec.block_size), kIndex, "page indices");
    }
    add(Made::with_cache, "FlashInfer's page indices", sum, "v1/attention/backends/flashinfer.py");
  }

  void add_latent_buffers() {
    const AttentionSizes& sizes = shape_.attention;
    const auto group = std::ranges::find_if(
        kv_.groups(), [](const KvGroup& one) { return one.layers.front().kind == KvKind::latent; });
    if (sizes.heads == 0 || group == kv_.groups().end()) return;
    const int64_t block = group->layers.front().block_size;
    TensorSum sum;
    if (sizes.index_key > 0 && args_.version >= kIndexTable) {
      sum.add(tokens_, ceil_div(length_, block), kIndex, "block table of indexers");
    }
    if (const Amount rows = gathered_rows(block); rows > Amount{0})
      sum.add(rows, sizes.row, terms_.element, "gathered context");
    if (masks_choices()) sum.add(kMaskMiB, kMiB, 1, "masks of chosen keys");
    if (shape_.latent.workspace > 0) {
      sum.add(1, shape_.latent.workspace, 1, "workspace of the sparse backend");
      sum.add(tokens_, sizes.chosen, kIndex, "its indices");
    }
    add(Made::with_cache, "buffers of latent attention", sum, "v1/attention/backends/mla");
  }

  /// What the shared workspace grows by when the cache is made.
  void add_grown_workspace() {
    if (terms_.late.bytes <= terms_.workspace) return;
    TensorSum grown = terms_.late;
    grown.bytes -= terms_.workspace;
    if (terms_.workspace > Amount{0})
      grown.formula += fmt::format(" - {} B that it has by then", terms_.workspace.value());
    add(Made::with_cache, "attention workspace", grown, "v1/attention/backends/mla/triton_mla.py");
  }

  void add_drafts() {
    if (!second_) return;
    const std::string& method = args_.draft_method;
    if (method.starts_with("ngram")) {
      TensorSum sum;
      if (args_.version >= kTokensOnCard) sum.add(sequences_, length_, kIndex, "tokens");
      return add(Made::before_profile, "tokens of requests", sum, "v1/worker/gpu/states.py", true);
    }
    if (!terms_.last || !args_.draft_logits || method.empty() || args_.version < kDraftLogits)
      return;
    TensorSum sum;
    const int64_t size = args_.version < kLogitsOfModelType ? kFloat32 : terms_.element;
    sum.add(sequences_ * args_.draft_tokens, shape_.activation.vocabulary, size, "draft logits");
    add(Made::before_profile, "draft logits", sum, "v1/worker/gpu/spec_decode/speculator.py",
        args_.version >= kConsumed);
  }

  std::vector<PlanPart> parts;

 private:
  /// Rows of context that prefill gathers, in blocks of `block` tokens: of sparse attention no more
  /// than is chosen.
  [[nodiscard]] Amount gathered_rows(int64_t block) const {
    const AttentionSizes& sizes = shape_.attention;
    if (sizes.expanded == 0) return 0;
    if (sizes.index_key == 0) {
      const Amount rows = context_rows(args_, terms_.limits, terms_.max_model_len, shape_);
      // Ranks that divide the context gather each other's rows into it.
      return args_.context_ranks > 1 ? rows + rows / args_.context_ranks : rows;
    }
    if (!shape_.latent.expands || args_.version < kSparseGathers) return 0;
    const Amount rows =
        std::min(wanted_rows(sequences_, length_, block), sequences_ * sizes.chosen);
    return std::max(rows, Amount{block});
  }

  /// sparse_mla_attention.py: _is_masked_mha_available.
  [[nodiscard]] bool masks_choices() const {
    struct Heads {
      int64_t heads, latent, query, value;
    };
    constexpr Heads kMasked[] = {{128, 512, 192, 128}, {64, 512, 256, 256}};
    const AttentionSizes& sizes = shape_.attention;
    return shape_.latent.masks && args_.version >= kMasksChoices &&
           std::ranges::any_of(kMasked, [&](const Heads& one) {
             return one.heads == sizes.heads * args_.tensor_parallel &&
                    one.latent == sizes.latent && one.query == sizes.query &&
                    one.value == sizes.value;
           });
  }

  void add(Made made, const char* name, const TensorSum& sum, const char* source,
           bool inside = false) {
    constexpr int64_t kWorthNaming = 8 << 20;
    if (made != made_ || sum.bytes < Amount{kWorthNaming}) return;
    parts.push_back({name, sum.bytes.value(), sum.formula, source, inside});
  }

  Made made_;
  const TableTerms& terms_;
  const EngineArgs& args_;
  const ModelShape& shape_;
  const KvPlan& kv_;
  bool second_;
  Amount sequences_, tokens_, length_;
};

}  // namespace

std::vector<PlanPart> table_parts(Made made, const TableTerms& terms, const ModelShape& shape,
                                  const KvPlan& kv) {
  if (runs_first_engine(terms.args) || kv.empty()) return {};
  Tables tables(made, terms, shape, kv);
  tables.add_block_tables();
  if (terms.flashinfer) tables.add_page_indices();
  tables.add_latent_buffers();
  tables.add_grown_workspace();
  tables.add_drafts();
  return std::move(tables.parts);
}

}  // namespace plimsoll::vllm
