// A launch of SGLang as its server resolves it, before anything is loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engines/answer.h"
#include "engines/command_line.h"
#include "engines/model_config.h"
#include "engines/question.h"
#include "engines/release.h"

namespace plimsoll::engines::sglang {

/// Drafts of several tokens a step.
struct Speculation {
  std::string algorithm;  // EAGLE, STANDALONE, NGRAM ...
  int64_t steps = 0;
  int64_t topk = 0;
  int64_t draft_tokens = 0;
  int64_t draft_layers = 0;  // that add to the target's KV cell
};

/// MiB of a card that is one of a data centre to SGLang.
inline constexpr int64_t kLargeCard = 61440;

/// The card, as SGLang sees it.
struct Card {
  std::optional<int64_t> mib;  // nvidia-smi's memory.total; absent: not known
  int64_t capability = 9;      // major compute capability
  [[nodiscard]] bool is_hopper() const { return capability == 9; }
  [[nodiscard]] bool is_datacenter_blackwell() const { return capability == 10; }
};

/// What a model's class decides beside its config.
struct ModelFacts {
  std::string architecture;
  bool latent = false;  // latent attention (MLA)
  bool sparse = false;  // an indexer selects tokens (DSA)
  bool deepseek_v4 = false;
  bool hybrid = false;     // recurrent layers beside attention
  bool two_pools = false;  // a pool of its own for layers with a window
  bool multimodal = false;
  bool sinks = false;             // attention sinks
  std::optional<int64_t> window;  // that the class states, in tokens
};

struct Launch {
  Version version;
  Card card;
  ModelFacts facts;
  int64_t tp = 1, pp = 1, dp = 1;
  int64_t attention_tp = 1, attention_dp = 1;
  double fraction = 0;
  int64_t chunk = 0;  // chunked_prefill_size of an attention rank; -1: prompts are not cut
  int64_t max_prefill = 0;
  std::optional<std::vector<int64_t>> decode_graphs, prefill_graphs;  // absent: off
  int64_t page = 1;
  std::string prefill_backend, decode_backend;
  std::string kv_cache_dtype;  // as asked, or as the resolver has replaced it
  std::string kv_dtype;        // torch's name
  std::string dtype;
  std::optional<std::string> quantization;
  int64_t context = 0;
  bool radix = true;
  bool overlap = true;
  std::optional<int64_t> max_running;
  std::optional<int64_t> max_total_tokens;
  std::optional<double> window_ratio;  // --swa-full-tokens-ratio, where there are two pools
  std::optional<int64_t> window_layers, full_layers;
  std::optional<Speculation> speculation;
  double multimodal_reserve = 0;  // GiB of the KV budget
  std::string state_strategy;     // of the radix cache of recurrent states
  std::string state_dtype;
  std::optional<int64_t> state_slots;
  double state_ratio = 0.9;  // --mamba-full-memory-ratio
};

/// Resolves a launch in the order of SGLang's ServerArgs. Throws Refusal, and
/// Error(checkpoint_unusable) for a config that is no model.
Launch resolve(const Question& question, const ModelConfig& config, const CommandLine& line,
               Version version);

/// The field `resolved` of an answer.
OrderedJson resolved_json(const Launch& launch, bool with_kv_dtype);

}  // namespace plimsoll::engines::sglang
