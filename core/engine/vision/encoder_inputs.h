// Inputs of an image encoder that the host writes: values of pixels, arrays of rows and segments.
// Where memory is shared they are written in scratch, else in the region "image staging", and
// sent to scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "engine/vision/encoder_rows.h"
#include "engine/vision/segments.h"
#include "memory/arena.h"

namespace plimsoll::engine {

/// Memory of scratch, and the host memory in which its contents are written: the same where memory
/// is shared.
struct StagedPiece {
  std::byte* device = nullptr;
  std::byte* host = nullptr;
  size_t bytes = 0;
};

/// Inputs of one image or tile. While the object lives, its pieces keep their places.
class EncoderInputs {
 public:
  /// Waits until earlier data from `staging` has arrived on the device. It counts where scratch
  /// does.
  EncoderInputs(backend::Backend& backend, memory::Arena& staging);

  StagedPiece take(std::string_view name, size_t bytes);
  void send(const StagedPiece& piece);

  [[nodiscard]] backend::Backend& backend() { return backend_; }
  [[nodiscard]] bool is_counting() const { return backend_.scratch().is_counting(); }

 private:
  backend::Backend& backend_;
  memory::Arena& staging_;
  bool shares_memory_;
  memory::Scope scope_;
};

/// An encoder's rows and segments, in the memory in which its ops read them.
class EncoderArrays {
 public:
  /// Takes the arrays from scratch, plans attention and sends all of it.
  EncoderArrays(const EncoderRows& rows, const model::AttentionSpec& attention,
                EncoderInputs& inputs);

  /// gather_rows() by EncoderRows::order.
  [[nodiscard]] backend::BatchMeta order() const { return at({.logits_rows = order_}); }
  /// ops::RopeAngles of EncoderRows::places.
  [[nodiscard]] backend::BatchMeta places() const;
  [[nodiscard]] const Segments& frames() const { return *frames_; }
  /// Segments of the windows; the frames where there are no windows.
  [[nodiscard]] const Segments& windows() const { return windows_ ? *windows_ : *frames_; }
  /// A cache for the keys and values of frames or windows.
  [[nodiscard]] backend::KvLayer take_cache(const model::AttentionSpec& attention, DType dtype,
                                            backend::Backend& backend) const;

 private:
  void lay_out(const EncoderRows& rows, const model::AttentionSpec& attention,
               const backend::Footprint& footprint, memory::Arena& arena);
  [[nodiscard]] backend::BatchMeta at(backend::BatchMeta batch) const;

  StagedPiece piece_;
  std::span<const int32_t> order_, places_;
  std::optional<Segments> frames_, windows_;
};

}  // namespace plimsoll::engine
