// A launch of LMDeploy's PyTorch engine, resolved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engines/answer.h"
#include "engines/fields.h"
#include "engines/model_config.h"
#include "engines/question.h"

namespace plimsoll::engines::lmdeploy {

struct Launch {
  std::string architecture;
  int64_t batch = 0;       // max_batch_size
  int64_t prefill = 8192;  // max_prefill_token_num
  double share = 0.8;      // cache_max_entry_count
  int64_t quant_policy = 0;
  std::string dtype;
  int64_t ranks = 1;     // GPUs of the launch
  int64_t tp = 1;        // of attention
  int64_t mlp_tp = 1;    // of what is neither attention nor experts
  int64_t experts = 1;   // ranks that each hold a part of the experts whole
  int64_t layers = 0;    // with a KV cache
  int64_t kv_heads = 0;  // after replication for tp
  int64_t k_dim = 0, v_dim = 0;
  int64_t vocabulary = 0;
  int64_t window = -1;  // tokens; -1: none
  bool flash_mla = false;
  std::optional<int64_t> selects;  // index_topk of sparse attention
  bool deepseek_v4 = false;
  bool hybrid = false;
  int64_t block = 64, kernel_block = 64;  // tokens
  std::optional<int64_t> blocks;          // num_gpu_blocks
  std::optional<int64_t> session;         // session_len
  bool prefix_caching = false;
  int64_t state_budget = 0;  // prefix_cache_state_budget
  int64_t draft_tokens = 0;
  int64_t draft_layers = 0;  // whose blocks stand beside the model's
};

/// max_batch_size where it is not given: by the card's name. Null: no card is known.
int64_t largest_batch(const hardware::Gpu* gpu);

/// Throws Refusal, Error(usage, checkpoint_unusable).
Launch resolve(const Question& question, const ModelConfig& config, const Fields& fields);

OrderedJson resolved_json(const Launch& launch);

/// Bytes of a block over all layers with a KV cache.
int64_t block_bytes(const Launch& launch, const ModelConfig& config);
/// Bytes of a block of one layer's keys and values.
int64_t layer_block_bytes(const Launch& launch);
/// Bytes of the states of a request; 0: none.
int64_t slot_bytes(const Launch& launch, const ModelConfig& config);

/// Fills in sizing, says and figures; what was sized before a Refusal stays.
void size(const Launch& launch, const ModelConfig& config, double free_gib, Answer& answer);

}  // namespace plimsoll::engines::lmdeploy
