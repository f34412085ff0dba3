#include "vllm/launch/host.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/amount.h"
#include "vllm/launch/engine_choice.h"

namespace plimsoll::vllm {
namespace {

constexpr int64_t kTokenId = 4;  // int32

int64_t ranks_of(const EngineArgs& args) {
  return (Amount{args.tensor_parallel} * args.pipeline_parallel * args.data_parallel).value();
}

/// Processors of images and videos keep what they made, in the server and in each engine.
void add_processed(std::vector<PlanPart>& parts, const EngineArgs& args) {
  const int64_t processes = args.version < VllmVersion{0, 10, 0} ? 2 : args.data_parallel + 1;
  constexpr double kMost = 0x1p61;
  const double bytes =
      args.processor_cache_gib * static_cast<double>(kGiB) * static_cast<double>(processes);
  parts.push_back(
      {"processed inputs", static_cast<int64_t>(std::min(bytes, kMost)),
       fmt::format("{:.3g} GiB x {} processes, at most", args.processor_cache_gib, processes),
       "--mm-processor-cache-gb"});
  parts.back().less = parts.back().bytes;
}

}  // namespace

bool keeps_ngrams_on_host(const EngineArgs& args) {
  constexpr VllmVersion kOnHost{0, 30, 0};
  return args.tables.offload.value_or(args.version >= kOnHost);
}

int64_t host_processes(const EngineArgs& args) {
  const int64_t ranks = ranks_of(args);
  return 1 + args.data_parallel + (ranks > args.data_parallel ? ranks : 0);
}

std::vector<PlanPart> host_parts(const EngineArgs& args, const HostTerms& terms,
                                 const ModelShape& shape) {
  std::vector<PlanPart> parts;
  if (runs_first_engine(args)) return parts;
  const int64_t ranks = ranks_of(args);
  if (terms.offloaded_bytes > 0) {
    parts.push_back({"offloaded weights", (Amount{terms.offloaded_bytes} * ranks).value(),
                     fmt::format("{} B x {} ranks, pinned", terms.offloaded_bytes, ranks),
                     "--cpu-offload-gb"});
  }
  if (shape.host_table_bytes > Amount{0}) {
    // Replicas have parts of one table, share a copy, or have one each.
    constexpr VllmVersion kShared{0, 31, 0};
    const TableArgs& tables = args.tables;
    const bool shared = tables.shared.value_or(args.version >= kShared) && !tables.huge_pages;
    const int64_t copies = tables.over_replicas || !shared ? args.data_parallel : 1;
    const Amount holders = Amount{args.tensor_parallel} * copies;
    parts.push_back(
        {"embeddings of n-grams", (shape.host_table_bytes * holders).value(),
         fmt::format("{} B x {} ranks, pinned", shape.host_table_bytes.value(), holders.value()),
         "--engram-config"});
  }
  if (!shape.pools) {
    const Amount rows = terms.max_num_seqs;
    parts.push_back({"tables of tokens", (rows * terms.max_model_len * kTokenId * ranks).value(),
                     fmt::format("{} sequences x {} tokens x {} B x {} ranks", terms.max_num_seqs,
                                 terms.max_model_len, kTokenId, ranks),
                     "v1/worker/gpu_input_batch.py, gpu/states.py: all_token_ids"});
    const Amount words = ceil_div(shape.vocabulary, 32);
    const int64_t drafts = args.draft_tokens + 1;
    parts.push_back({"bitmasks of grammars",
                     (rows * drafts * words * kTokenId * args.data_parallel).value(),
                     fmt::format("{} sequences x {} tokens x {} words x {} B", terms.max_num_seqs,
                                 drafts, words.value(), kTokenId),
                     "v1/structured_output, once a request asks for structured output"});
    parts.back().less = parts.back().bytes;
  }
  if (shape.multimodal && args.processor_cache_gib > 0) add_processed(parts, args);
  for (PlanPart& part : parts) part.inside_budget = false;
  return parts;
}

}  // namespace plimsoll::vllm
