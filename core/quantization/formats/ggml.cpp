// Tensors of GGUF files, whose blocks are taken apart into codes and scales. The slow twin that
// decodes them is base/ggml/decode.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"
#include "base/ggml/blocks.h"
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

  /// Not called for plain types, which have no codes.
  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    for_each_block(first, count, [&](const std::byte* block) {
      split_ggml_block(*blocks_, block, to, nullptr);
      to += blocks_->values;
    });
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    if (blocks_ == nullptr) return numbers(first, count, to);
    for_each_block(first, count, [&](const std::byte* block) {
      split_ggml_block(*blocks_, block, nullptr, to);
      to += blocks_->scale_bytes();
    });
  }
  void table(std::span<float, 16> to) const override {
    std::ranges::copy(*blocks_->table, to.begin());
  }
  void factors(int64_t first, int64_t count, float* to) const override {
    const int64_t each = rows() / static_cast<int64_t>(factors_.size());
    for (int64_t i = 0; i < count; ++i) to[i] = factors_[static_cast<size_t>((first + i) / each)];
  }

 private:
  /// Copies the numbers of a plain type; those of F64 become floats.
  void numbers(int64_t first, int64_t count, std::byte* to) const {
    const int64_t bytes = tensor_.blocks->bytes;
    tensor_.guarded([&] {
      for (int64_t row = first; row < first + count; ++row) {
        const std::byte* const from = tensor_.data + (row * columns() + first_input()) * bytes;
        if (tensor_.blocks->type() == GgmlType::f64) {
          convert(from, DType::f64, to, DType::f32, static_cast<size_t>(inputs()));
        } else {
          std::memcpy(to, from, static_cast<size_t>(inputs() * bytes));
        }
        to += inputs() * model::scale_bytes(packing().scale);
      }
    });
  }
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
  /// Calls f(block) for the blocks of rows [first, first + count) that are read.
  template <typename F>
  void for_each_block(int64_t first, int64_t count, const F& f) const {
    const int64_t bytes = tensor_.blocks->bytes, values = tensor_.blocks->values;
    tensor_.guarded([&] {
      for (int64_t row = first; row < first + count; ++row) {
        const int64_t block = row * (columns() / values) + first_input() / values;
        for (int64_t i = 0; i < inputs() / values; ++i) f(tensor_.data + (block + i) * bytes);
      }
    });
  }

  StoredTensor tensor_;
  const GgmlBlocks* const blocks_ = find_ggml_blocks(tensor_.blocks->type());
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
  const bool factors = matrix.find("scale").has_value();
  if (!type.is_packed()) {
    const auto scale = type.type() == GgmlType::f16    ? model::ScaleType::f16
                       : type.type() == GgmlType::bf16 ? model::ScaleType::bf16
                                                       : model::ScaleType::f32;
    return {.format = model::PackedFormat::ggml,
            .code = model::Code::none,
            .blocks = type.type(),
            .bits = 32,
            .group = 1,
            .scale = scale,
            .factors = factors};
  }
  const GgmlBlocks& blocks = *find_ggml_blocks(type.type());
  return {.format = model::PackedFormat::ggml,
          .code = blocks.table ? model::Code::table : model::Code::integer,
          .blocks = blocks.type,
          .bits = blocks.bits,
          .group = blocks.group,
          .scale = model::ScaleType::blocks,
          .zero = blocks.zero,
          .factors = factors};
}

std::unique_ptr<model::PackedRows> open_ggml(const Packing& packing, const StoredMatrix& matrix) {
  return std::make_unique<GgmlRows>(packing, matrix);
}

}  // namespace plimsoll::quantization
