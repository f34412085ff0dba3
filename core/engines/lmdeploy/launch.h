// A launch of LMDeploy, resolved: what both of its engines have, and the PyTorch engine's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engines/answer.h"
#include "engines/fields.h"
#include "engines/model_config.h"
#include "engines/question.h"

namespace plimsoll::engines::lmdeploy {

inline constexpr Bounds kTokens{-(int64_t{1} << 31), int64_t{1} << 31};

/// What both engines of LMDeploy settle on.
struct Settings {
  std::string architecture;
  int64_t batch = 0;       // max_batch_size
  int64_t prefill = 8192;  // max_prefill_token_num
  double share = 0.8;      // cache_max_entry_count
  int64_t quant_policy = 0;
  std::string dtype;
  int64_t ranks = 1;    // GPUs of the launch
  int64_t tp = 1;       // of attention
  int64_t mlp_tp = 1;   // of what is neither attention nor experts
  int64_t experts = 1;  // ranks that each hold a part of the experts whole
  int64_t layers = 0;   // with a KV cache
  int64_t vocabulary = 0;
  int64_t block = 64;  // tokens
  bool prefix_caching = false;
};

/// A launch of the PyTorch engine.
struct Launch : Settings {
  int64_t kv_heads = 0;  // after replication for tp
  int64_t k_dim = 0, v_dim = 0;
  int64_t window = -1;  // tokens; -1: none
  bool flash_mla = false;
  std::optional<int64_t> selects;  // index_topk of sparse attention
  bool deepseek_v4 = false;
  bool hybrid = false;
  int64_t kernel_block = 64;       // tokens
  std::optional<int64_t> blocks;   // num_gpu_blocks
  std::optional<int64_t> session;  // session_len
  int64_t state_budget = 0;        // prefix_cache_state_budget
  int64_t draft_tokens = 0;
  int64_t draft_layers = 0;  // whose blocks stand beside the model's
};

/// Ends a launch in the engine's words: of its arguments, or of its memory.
[[noreturn]] void refuse_launch(std::string words);
[[noreturn]] void refuse_size(std::string words);

/// True for architectures of latent attention.
bool is_latent(const std::string& architecture);
/// max_batch_size where it is not given: by the card's name. Null: no card is known.
int64_t largest_batch(const hardware::Gpu* gpu);

/// Throws Refusal, Error(usage, checkpoint_unusable).
Launch resolve(const Question& question, const ModelConfig& config, const Fields& fields);

/// The fields of `resolved` that both engines have first.
OrderedJson settings_json(const Settings& settings);
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
