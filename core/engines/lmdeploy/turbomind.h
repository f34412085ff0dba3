// LMDeploy's TurboMind, its engine in C++: the models that it takes, and how it shares out a
// cache of blocks (keys and values of some tokens) and recurrent states.
// Sources: lmdeploy/turbomind/ and src/turbomind/ of 0.16.0 and of the tags before it.
#pragma once

#include <cstdint>
#include <string>

#include "engines/answer.h"
#include "engines/fields.h"
#include "engines/lmdeploy/launch.h"
#include "engines/model_config.h"
#include "engines/question.h"
#include "engines/release.h"

namespace plimsoll::engines::lmdeploy::turbomind {

/// Since this release blocks and states are objects in pages of one region.
inline constexpr Version kObjectCache{0, 15, 0};

/// True where `lmdeploy serve` of this release takes TurboMind for the model; it takes the PyTorch
/// engine for others, whatever --backend says.
bool takes(const ModelConfig& config, Version release);

struct Launch : Settings {
  int64_t blocks = 0;    // cache_max_entry_count as a count, before 0.15; 0: not given
  int64_t kv_heads = 0;  // of a rank
  int64_t head_dim = 0;  // of latent attention: the row of a token
  int64_t session = 0;   // session_len
  // Recurrent states of a request, in bytes of a rank.
  int64_t convolutions = 0;             // of all layers, one object
  int64_t state = 0, state_layers = 0;  // an object a layer
};

/// Throws Refusal, Error(usage, checkpoint_unusable).
Launch resolve(const Question& question, const ModelConfig& config, const Fields& fields,
               Version release);

OrderedJson resolved_json(const Launch& launch);

/// Bytes of a block over all layers with a KV cache.
int64_t block_bytes(const Launch& launch);

/// Fills in sizing, says and figures; throws Refusal.
void size(const Launch& launch, double free_gib, Version release, Answer& answer);

}  // namespace plimsoll::engines::lmdeploy::turbomind
