// A launch of transformers, resolved: continuous batching, or plain generate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engines/answer.h"
#include "engines/fields.h"
#include "engines/model_config.h"

namespace plimsoll::engines::transformers {

/// Layers of one kind of attention.
struct LayerGroup {
  std::string type;  // "full_attention", "sliding_attention"
  int64_t layers = 0;
};

struct Launch {
  std::string dtype;
  int64_t element = 2;  // bytes
  int64_t tp = 1;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;  // of a rank
  int64_t hidden = 0, vocabulary = 0;
  std::vector<LayerGroup> groups;  // in the order in which the config has them
  bool flash = true;
  bool processors = false;
  int64_t page = 256;
  double share = 0.9;
  int64_t requests = 1024;  // max_requests_per_batch
  int64_t blocks_per_request = 32;
  bool graphs = true;
  bool async = true;
  bool logprobs = false;
  std::optional<int64_t> blocks, batch_tokens;  // as given
  int64_t window = 0;                           // tokens; 0: none
  std::string cache = "paged";                  // or dynamic, static: plain generate
  int64_t sequences = 1, length = 0;            // of plain generate

  [[nodiscard]] bool slides() const;
};

/// Throws Refusal, Error(usage, checkpoint_unusable).
Launch resolve(const ModelConfig& config, const Fields& fields);

OrderedJson resolved_json(const Launch& launch);

/// Kinds of attention by layer as transformers' config classes make them.
std::vector<std::string> layer_types_of(const ModelConfig& config);

/// Fills in sizing, says and figures for a card of `total_gib`, of which `free_gib` are free once
/// the model is there.
void size(const Launch& launch, double total_gib, double free_gib, Answer& answer);

/// The cache of plain generate, which grows with the sequences (dynamic) or stands at once
/// (static).
void size_generate(const Launch& launch, double free_gib, Answer& answer);

}  // namespace plimsoll::engines::transformers
