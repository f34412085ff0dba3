// The types of tensors in GGUF files: identifiers, names, and blocks of values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

/// ggml's identifier of a type, as GGUF files store it (ggml.h, `enum ggml_type`).
enum class GgmlType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23,
  f64 = 28,
  bf16 = 30,
  mxfp4 = 39,
  nvfp4 = 40,
};

/// How a type stores values: rows are whole blocks of `values` values in `bytes` bytes.
struct GgmlTypeInfo {
  uint32_t id = 0;
  std::string_view name;  // "Q4_K"
  int64_t values = 1;
  int64_t bytes = 0;
  bool is_run = false;  // `run` decodes it; the others are only counted

  [[nodiscard]] GgmlType type() const { return static_cast<GgmlType>(id); }
  /// True for types whose values are packed into blocks.
  [[nodiscard]] bool is_packed() const { return values > 1; }
};

/// The type of this identifier; null for identifiers that ggml does not have (any more).
const GgmlTypeInfo* find_ggml_type(uint32_t id);
/// The type of this name ("Q4_K"); null: there is none.
const GgmlTypeInfo* find_ggml_type(std::string_view name);
/// Identifier, with its name where ggml once had such a type: "77", "4 (Q4_2, removed)".
std::string ggml_type_text(uint32_t id);

}  // namespace plimsoll
