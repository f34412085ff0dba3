// One step's sequences as flat arrays: rows, positions, slots, and how tokens are drawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/operands.h"

namespace plimsoll::backend {

/// A change to the logit of one token; the meaning of `value` depends on its section.
struct TokenChange {
  int32_t token = 0;
  int32_t value = 0;
};

/// Sections of a row's changes, in the order in which they are applied: steps 1 to 5 of
/// engine/sampling/sampler.h.
enum class ChangeSection : uint8_t {
  allowed,  // ascending; all other tokens are masked. None: all are allowed
  masked,   // always where value is below 0, else where value is the row's own token
  biased,   // the bits of a float, added
  seen      // for penalties, each token of prompt and output once: its count in the output
};
inline constexpr size_t kChangeSections = 4;

/// How the tokens after the first D of a step's logits rows are drawn, where the device does it
/// (Footprint::draws). Arrays [D] with the numbers of the requests; the order of steps is that of
/// engine/sampling/sampler.h.
struct Drawing {
  std::span<const double> temperature{};  // below 1e-5: the largest, of equals the lowest id
  std::span<const int32_t> top_k{};       // 0: all
  std::span<const double> top_p{};        // 1: all
  std::span<const double> min_p{};        // 0: all
  std::span<const double> uniform{};      // the random number, in [0, 1)
  std::span<const float> repetition{};    // 1: none
  std::span<const float> frequency{};     // 0: none
  std::span<const float> presence{};      // 0: none
  /// 1: the row's own token, which the host did not know, is once more in the output than counted
  /// in `seen`.
  std::span<const uint8_t> adds_own{};
  /// [4 D + 1] section s of row d is changes[sections[4 d + s], sections[4 d + s + 1]).
  std::span<const int32_t> sections{};
  std::span<const TokenChange> changes{};  // at least one, in use or not
  /// Masks of grammars and of forced tokens: [D] which of `masks` a row has, -1: none; [M,
  /// mask_words] bit i % 32 of word i / 32 is set where token i may come. The host writes the masks
  /// after the step's start, and sends them before the rows are drawn (Backend::send_masks).
  std::span<const int32_t> mask_of{};
  std::span<const int32_t> masks{};
  int64_t mask_words = 0;
};

/// Which rows of an image encoder see each other both ways: segments, which are the sequences of a
/// batch that is not a step.
enum class Segmentation : uint8_t {
  none,     // a step
  frames,   // whole images
  windows,  // windows of images
};

/// Values that a device returns in place of a token that cannot be drawn.
inline constexpr int32_t kDrewNotFinite = -1, kDrewNothingAllowed = -2;

/// The batch of one step: flat arrays in host memory. Sequence s owns rows [query_start[s],
/// query_start[s + 1]), which are its positions [context_length[s] - rows, context_length[s]).
///
/// A device with memory of its own (not Footprint::shares_memory) has equal arrays at equal offsets
/// from `device_base`, where start_step() copies them; its ops read them there (`on_device`). The
/// host may write a slab again once its step has been awaited.
struct BatchMeta {
  /// [T] token ids; -1 - d stands for the token that entry d of the previous step drew, which
  /// embed() reads on the device.
  std::span<const int32_t> token_ids{};
  std::span<const int32_t> positions{};       // [T]
  std::span<const int32_t> row_sequence{};    // [T] sequence of each row; -1: padding
  std::span<const int32_t> query_start{};     // [B + 1]
  std::span<const int32_t> context_length{};  // [B] tokens in the cache after this step
  std::span<const uint8_t> long_rope{};       // [B] 1: RopeSpec::long_table
  std::span<const int32_t> state_slots{};     // [B] of StateLayer; empty: none has a state
  std::span<const int32_t> logits_rows{};  // [R] rows whose logits are wanted; D drawn ones first
  /// One table per KV group: [B, table_stride] block numbers, entry i for positions [i *
  /// block_size, ...); entries before a window are -1.
  std::span<const std::span<const int32_t>> block_tables{};
  int64_t table_stride = 0;
  int64_t table_width = 0;  // entries of a row in use: those behind it may hold anything

  /// The last `padding` rows and sequences fill a step up to a recorded size: each such sequence
  /// has one row, of token 0 at position 0, context_length 0 and row_sequence -1. It stores
  /// nothing, attention gives zeros, and its logits row is drawn (greedily) and ignored.
  int64_t padding = 0;

  // Arrays of images, in prompts with images; empty otherwise.

  Segmentation segmentation = Segmentation::none;
  /// [3 T] positions by kind (RopeSpec::sections): times of all rows, then rows, then columns.
  /// Encoders have two kinds, rows and columns.
  std::span<const int32_t> rope_positions{};
  /// [T] the position after the last one that a row sees; it may be larger than the row's own,
  /// where an image's tokens see each other both ways.
  std::span<const int32_t> seen_end{};
  /// [I] rows that take an embedding in place of their token's, and its row in `embeddings`.
  std::span<const int32_t> embedded_rows{}, embedding_rows{};
  View embeddings{};

  int32_t slot = 0;  // index of the host's slab, one for each step that may be under way

  // Arrays and addresses that only a step on a device uses.
  Drawing drawing{};
  /// The backend's own array, filled by start_step; it has a place on the device.
  std::span<std::byte> plan{};
  const std::byte* host_base = nullptr;
  std::byte* device_base = nullptr;
  int32_t* drawn_on_device = nullptr;  // [D] draw() writes it, the next step's token_ids read it
  std::span<int32_t> drawn{};          // [D] on the host, good after await_step

  /// Address of an array of this batch on the device.
  template <typename T>
  [[nodiscard]] T* on_device(std::span<T> array) const {
    if (array.empty()) return nullptr;
    const auto offset = reinterpret_cast<const std::byte*>(array.data()) - host_base;
    return reinterpret_cast<T*>(device_base + offset);
  }
};

/// Calls f(array) for each array of a batch that the engine fills, except block tables and masks.
template <typename Batch, typename F>
void for_each_array(Batch& batch, const F& f) {
  f(batch.token_ids);
  f(batch.positions);
  f(batch.row_sequence);
  f(batch.query_start);
  f(batch.context_length);
  f(batch.long_rope);
  f(batch.state_slots);
  f(batch.logits_rows);
  f(batch.rope_positions);
  f(batch.seen_end);
  f(batch.embedded_rows);
  f(batch.embedding_rows);
  f(batch.drawing.temperature);
  f(batch.drawing.top_k);
  f(batch.drawing.top_p);
  f(batch.drawing.min_p);
  f(batch.drawing.uniform);
  f(batch.drawing.repetition);
  f(batch.drawing.frequency);
  f(batch.drawing.presence);
  f(batch.drawing.adds_own);
  f(batch.drawing.sections);
  f(batch.drawing.changes);
  f(batch.drawing.mask_of);
}

}  // namespace plimsoll::backend
