// The answer of a plan, as it is printed in every format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/kv_plan.h"

namespace plimsoll::plan {

/// A named number of the ledger, with where it comes from.
struct PlanPart {
  std::string name;
  int64_t bytes = 0;
  std::string formula;  // with its numbers
  std::string source;   // config key, catalogue, version of the engine
  bool inside_budget = true;
};

struct PlanResult {
  std::string engine;
  std::string version;          // of vLLM
  std::string model;
  std::string architecture;
  std::string dtype;
  std::string gpu;              // empty: none was given
  int64_t gpus = 1;
  std::optional<bool> fits;     // absent without a card
  std::string reason;
  int64_t total_bytes = 0;
  int64_t budget_bytes = 0;
  int64_t parameter_bytes = 0;
  int64_t buffer_bytes = 0;
  int64_t weights_bytes = 0;
  int64_t activation_peak_bytes = 0;
  int64_t non_torch_bytes = 0;
  int64_t cuda_graph_bytes = 0;
  int64_t kv_cache_bytes = 0;
  int64_t kv_bytes_per_token = 0;
  int64_t num_gpu_blocks = 0;
  int64_t block_size = 0;
  int64_t kv_tokens = 0;
  double max_concurrency = 0;
  int64_t max_model_len = 0;
  int64_t estimated_max_model_len = 0;
  int64_t auto_max_model_len = 0;  // 0: one request of max_model_len fits
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;
  double gpu_memory_utilization = 0;
  int64_t cuda_graphs = 0;
  bool has_kv = false;
  std::vector<KvKindCount> kv_kinds;
  std::vector<int64_t> group_sizes;
  std::vector<PlanPart> parts;
  std::vector<std::string> notes;  // assumptions, estimates, what is not modelled
};

}  // namespace plimsoll::plan
