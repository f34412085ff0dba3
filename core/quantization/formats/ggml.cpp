// Tensors of GGUF files, whose blocks memory holds as they are. The slow twin that decodes them is
// base/ggml/decode.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "quantization/formats/stored_rows.h"

namespace plimsoll::quantization {
namespace {

using model::Packing;

StoredTensor find_blocks(const StoredMatrix& matrix) {
  std::optional<StoredTensor> found = matrix.find("weight");
  if (found && found->blocks != nullptr) return *found;
  fail(ExitCode::checkpoint_unusable, "the GGUF file lacks tensor \"{}.weight\", shape [{}, {}]",
       matrix.module, matrix.rows, matrix.columns);
}

class GgmlRows final : public StoredRows {
 public:
  GgmlRows(const Packing& packing, const StoredMatrix& matrix)
      : StoredRows(packing, matrix), tensor_(find_blocks(matrix)) {
    const bool padded = matrix.padded_rows && tensor_.shape.size() == 2 &&
                        tensor_.shape.front() >= rows() && tensor_.shape.back() == columns();
    if (!padded && tensor_.shape != Shape{rows(), columns()}) {
      refuse(tensor_.name,
             fmt::format("has shape {} (rows of the other order: {} x {} in the "
                         "file); expected {} x {}",
                         fmt::format("[{}]", fmt::join(tensor_.shape, ", ")), tensor_.shape.back(),
                         tensor_.shape.front(), columns(), rows()));
    }
    const int64_t values = tensor_.blocks->values;
    if (first_input() % values != 0 || inputs() % values != 0) {
      refuse(tensor_.name, fmt::format("has blocks of {} values, which inputs {} to {} of a rank "
                                       "would cut; use fewer ranks",
                                       values, first_input(), end_input()));
    }
    if (packing.factors) read_factors();
  }

  void blocks(int64_t first, int64_t count, std::byte* to) const override {
    const auto whole = static_cast<size_t>(packing().block_row_bytes(columns()));
    const auto before = static_cast<size_t>(packing().block_row_bytes(first_input()));
    const auto own = static_cast<size_t>(packing().block_row_bytes(inputs()));
    tensor_.guarded([&] {
      const std::byte* from = tensor_.data + static_cast<size_t>(first) * whole + before;
      for (int64_t i = 0; i < count; ++i, from += whole, to += own) std::memcpy(to, from, own);
    });
  }
  void codes(int64_t, int64_t, uint8_t*) const override { never_asked(); }
  void scales(int64_t, int64_t, std::byte*) const override { never_asked(); }
  void factors(int64_t first, int64_t count, float* to) const override {
    const int64_t each = rows() / static_cast<int64_t>(factors_.size());
    for (int64_t i = 0; i < count; ++i) to[i] = factors_[static_cast<size_t>((first + i) / each)];
  }

 private:
  /// One factor of the matrix, or one of each expert's rows.
  void read_factors() {
    const StoredTensor scale = *matrix().find("scale");
    const int64_t count = scale.elements();
    if (scale.dtype != DType::f32 || count < 1 || rows() % count != 0) {
      refuse(scale.name,
             fmt::format("has {} values; expected 1 or one of each expert, F32", count));
    }
    scale.guarded([&] {
      for (int64_t i = 0; i < count; ++i) factors_.push_back(scale.number(i));
    });
  }
  [[noreturn]] static void never_asked() {
    throw std::logic_error("blocks of a GGUF file have no codes beside their scales");
  }

  StoredTensor tensor_;
  std::vector<float> factors_;
};

}  // namespace

Packing ggml_packing(const WeightScheme&, const StoredMatrix& matrix) {
  const StoredTensor tensor = find_blocks(matrix);
  const GgmlTypeInfo& type = *tensor.blocks;
  if (!type.is_run) {
    fail(ExitCode::checkpoint_unusable,
         "tensor {} is {}, which run does not decode (plan counts it); use a file of another "
         "mixture, such as Q4_K_M",
         tensor.name, type.name);
  }
  return {.format = model::PackedFormat::ggml,
          .code = model::Code::blocks,
          .blocks = type.type(),
          .bits = 8,
          .group = type.values,
          .factors = matrix.find("scale").has_value()};
}

std::unique_ptr<model::PackedRows> open_ggml(const Packing& packing, const StoredMatrix& matrix) {
  return std::make_unique<GgmlRows>(packing, matrix);
}

}  // namespace plimsoll::quantization
