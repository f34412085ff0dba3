// A source of weights that counts what is read through it.
#pragma once

#include <atomic>

#include "checkpoint/checkpoint.h"

namespace plimsoll::checkpoint {

class CountedSource final : public WeightSource {
 public:
  /// `source` must outlive the reading; the object itself need not.
  explicit CountedSource(const WeightSource& source) : source_(source) {}

  void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                 void* to) const override {
    bytes_ += source_.stored_bytes(weight, first, count);
    source_.read_rows(weight, first, count, dtype, to);
  }
  void read_block(const model::WeightSpec& weight, const Block& block, DType dtype,
                  void* to) const override {
    const uint64_t rows = source_.stored_bytes(weight, block.row, block.rows);
    bytes_ += rows * static_cast<uint64_t>(block.columns) / static_cast<uint64_t>(weight.columns());
    source_.read_block(weight, block, dtype, to);
  }
  [[nodiscard]] std::unique_ptr<model::PackedRows> packed(const model::WeightSpec& weight,
                                                          size_t part,
                                                          const Block& block) const override {
    if (weight.parts[part].packing->format == model::PackedFormat::online_fp8) {
      return WeightSource::packed(weight, part, block);
    }
    const auto elements = [](int64_t rows, int64_t columns) {
      return static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns);
    };
    bytes_ += source_.stored_bytes(weight, part) * elements(block.rows, block.columns) /
              elements(weight.parts[part].rows(), weight.columns());
    return source_.packed(weight, part, block);
  }

  /// Bytes read from files so far; a block of a quantized part counts when it is opened.
  [[nodiscard]] uint64_t bytes_read() const { return bytes_; }

 private:
  const WeightSource& source_;
  mutable std::atomic<uint64_t> bytes_ = 0;
};

}  // namespace plimsoll::checkpoint
