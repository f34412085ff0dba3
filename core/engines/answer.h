// What an engine makes of a launch: what it settles on, the memory it shares out, what it refuses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engines/question.h"

namespace plimsoll::engines {

/// A launch that the engine ends by itself, in the engine's words.
struct Refusal {
  std::string stage;  // "arguments": parser or resolver; "model": no such class; "memory"
  std::string words;
};

/// Bytes on one rank, and counts, which reports of every engine show.
struct Figures {
  std::string dtype;
  std::string kv_dtype;
  std::string quantization;     // of weights that are stored without, while they are loaded
  int64_t ranks = 1;            // GPUs of the launch
  int64_t weight_ranks = 0;     // ranks that a copy of the weights is divided among; 0: all
  int64_t attention_ranks = 0;  // ranks that attention and embedding are divided among; 0: as above
  int64_t expert_ranks = 0;     // ranks that experts are divided among; 0: as weights are
  bool whole_experts = false;   // a rank holds some experts whole (expert parallelism)
  bool host_ngrams = false;     // embeddings of n-grams lie in the host's memory
  int64_t context = 0;          // tokens of the longest request
  int64_t running = 0;          // requests at once, at most
  int64_t step_tokens = 0;      // tokens of one prefill step
  int64_t card_layers = 0;      // layers on cards, the head among them
  int64_t block_tokens = 1;     // tokens of a page or block
  int64_t kv_tokens = 0;        // that the cache holds
  double bytes_per_token = 0;   // of the cache, on one rank
  int64_t kv_bytes = 0;         // of the cache, as allocated
  int64_t state_bytes = 0;      // of recurrent states
  int64_t beside_bytes = 0;     // taken beside the cache once it stands (a request table, masks)
  int64_t runtime_bytes = 0;    // kept free for steps
  double share = 0;             // of the card, or of what is free, that the engine may take
  std::string share_of;         // what the share is of, in words
  int64_t graphs = 0;           // CUDA graphs that are captured
  std::string kv_formula, state_formula, runtime_formula, beside_formula;
};

/// What llama.cpp allocates under one name, in bytes.
struct Buffer {
  std::string name;
  int card = -1;  // its place in Answer::cards; -1: the host's
  int64_t model = 0, context = 0, compute = 0;
  [[nodiscard]] int64_t total() const { return model + context + compute; }
};

struct Answer {
  OrderedJson resolved;            // null: refused before anything was settled
  OrderedJson sizing;              // null: nothing was sized
  std::vector<std::string> says;   // the engine's log lines
  std::vector<std::string> log;    // all lines of memory in order, `says` among them
  std::vector<std::string> notes;  // what the plan assumes, or cannot know
  std::optional<Refusal> refused;
  Figures figures;
  std::vector<Buffer> buffers;  // llama.cpp's
  std::vector<Card> cards;      // that they lie on
  std::string version;          // as planned
  std::string asked_for;        // another version was asked for; empty: `version`
};

}  // namespace plimsoll::engines
