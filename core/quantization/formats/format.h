// The formats that quantized checkpoints come in: which tensors hold a matrix, and how to read its
// rows. A format is a file here and a row in formats.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ggml/types.h"
#include "model/packing.h"
#include "quantization/scheme.h"

namespace plimsoll::quantization {

/// A tensor of a checkpoint as a format reads it.
struct StoredTensor {
  std::string name;
  DType dtype = DType::u8;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;       // unaligned; read inside of `guarded` alone
  const GgmlTypeInfo* blocks = nullptr;  // type of a GGUF file's tensor; else null
  std::function<void(const std::function<void()>&)> guarded;

  [[nodiscard]] int64_t elements() const;
  /// Element `i` of a float tensor (of 16, 32 or 8 bits; bytes are powers of two), inside of
  /// `guarded`. Throws Error for what is not finite.
  [[nodiscard]] float number(int64_t i) const;
};

/// The tensor of a module that has this ending: "weight_scale", "qweight".
using FindTensor = std::function<std::optional<StoredTensor>(const std::string& ending)>;

/// A matrix [rows, columns] as the configuration describes it.
struct StoredMatrix {
  std::string module;  // "model.layers.0.mlp.down_proj"
  int64_t rows = 0;
  int64_t columns = 0;
  bool padded_rows = false;  // more may be stored: a vocabulary
  bool transposed = false;   // stored [columns, rows], scales too
  model::Inputs inputs{};    // range of the inputs that are read; count 0: all
  FindTensor find = nullptr;
};

/// The packing of a matrix of this scheme, by the tensors stored; where `find` finds none, by the
/// scheme alone. Throws Error(checkpoint_unusable) naming the module for schemes that `run` does
/// not support.
model::Packing packing_of(const WeightScheme& scheme, const StoredMatrix& matrix);

/// True when the tensors of a quantized matrix are stored.
bool holds_codes(const FindTensor& find);

/// True when `run` reads matrices of the format that are stored [in, out] (Llama 4's experts).
constexpr bool is_run_transposed(model::PackedFormat format) {
  return format == model::PackedFormat::fp8;
}

/// Name of a format for messages: "AWQ".
std::string_view format_name(model::PackedFormat format);

/// The endings of tensors that a format may have beside its matrix.
std::span<const char* const> endings_of(model::PackedFormat format);

/// Checks tensors and opens them. Rows are the stored matrix's. Throws Error(checkpoint_unusable)
/// naming the tensor with its actual and its expected form.
std::unique_ptr<model::PackedRows> open_matrix(const model::Packing& packing,
                                               const StoredMatrix& matrix);

}  // namespace plimsoll::quantization
