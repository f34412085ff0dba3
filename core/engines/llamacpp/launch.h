// A launch of llama.cpp's programs: flags read, contexts and batches settled.
#pragma once

#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "base/ggml/types.h"
#include "engines/command_line.h"
#include "engines/llamacpp/shape.h"
#include "engines/question.h"

namespace plimsoll::engines::llamacpp {

/// Where a tensor or a layer lies: a card's place in Launch::cards, or the host.
inline constexpr int kHost = -1;

/// Tensors that a flag sends to a device: those that a pattern finds, or stacked experts of the
/// layers in front.
struct Override {
  std::optional<std::regex> pattern;
  int64_t expert_layers = 0;  // without a pattern
  int device = kHost;

  [[nodiscard]] bool names(const Weight& weight) const;
};

enum class Split { none, layer, row, tensor };

struct Launch {
  std::vector<Card> cards;         // that the launch uses, in its order
  std::optional<int64_t> context;  // -c; 0: the model's
  int64_t sequences = 1;           // n_seq_max
  bool unified = false;            // one cache of all sequences
  bool all_logits = false;         // of every token of a micro batch, not of one a sequence
  int64_t batch = 2048, micro_batch = 512;
  int64_t gpu_layers = -1;  // -1: all
  Split split = Split::layer;
  std::vector<float> shares;  // -ts; empty: by free memory
  std::vector<Override> overrides;
  const GgmlTypeInfo* key_type = nullptr;
  const GgmlTypeInfo* value_type = nullptr;
  bool flash_attention = true;
  bool full_windows = false;  // --swa-full
  bool caches_on_cards = true;
  bool pinned_host = true;  // weights on the host lie in CUDA's pinned memory
  bool repacks = true;
  bool offloads_products = true;  // of weights on the host, for large batches
  bool maps_file = true;          // weights on the host are the file's pages
  bool fits = true;               // -fit
  std::vector<int64_t> margins;   // bytes a card
  int64_t least_context = 4096;
  std::vector<std::string> notes;
  // Files that are loaded beside the model, as the flags name them.
  std::vector<Launch> draft;  // the draft model's launch, or none
  std::string file;           // of a draft model's launch
  std::string projector;      // --mmproj; empty: none
  bool projector_on_card = true;
  std::vector<std::string> adapters;  // LoRA
  std::vector<std::string> control_vectors;

  [[nodiscard]] int64_t streams() const { return unified ? 1 : sequences; }
  /// Tokens of a sequence, and of all, where `tokens` are asked for.
  [[nodiscard]] int64_t sequence_context(int64_t tokens) const;
  [[nodiscard]] int64_t whole_context(int64_t tokens) const;
  /// Tokens that are asked for: -c, or the model's context for every stream.
  [[nodiscard]] int64_t asked_context(const Shape& shape) const;
  [[nodiscard]] int64_t batch_of(int64_t tokens) const;
  [[nodiscard]] int64_t micro_batch_of(int64_t tokens) const;
};

/// A type's name as llama.cpp's flags and lines have it: "q8_0".
std::string type_name(const GgmlTypeInfo& type);

/// Flags of llama-server, llama-cli and llama-fit-params.
std::span<const Flag> flags();

/// Reads the flags. Throws Refusal("arguments") in llama.cpp's words, and Error(usage).
Launch read_launch(const Question& question);

/// Notes at each weight the first override that names it.
void apply_overrides(const Launch& launch, Shape& shape);

/// Refuses what the model's loader and its context refuse. Throws Refusal.
void check_launch(const Launch& launch, const Shape& shape);

}  // namespace plimsoll::engines::llamacpp
