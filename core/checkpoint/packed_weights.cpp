#include "checkpoint/packed_weights.h"

#include <utility>

#include "checkpoint/copy_rows.h"
#include "checkpoint/find_tensor.h"
#include "checkpoint/mapped_file.h"

namespace plimsoll::checkpoint {
namespace {

/// A block of a part, whose rows may be runs of the stored matrix's.
class PartRows final : public model::PackedRows {
 public:
  /// `columns` are the weight's, of which the block has some.
  PartRows(const model::Part& part, const Block& block, int64_t columns,
           std::unique_ptr<model::PackedRows> stored)
      : part_(part), block_(block), columns_(columns), stored_(std::move(stored)) {}

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    for_each_run(part_, block_.row + first, count, [&](int64_t row, int64_t done, int64_t run) {
      stored_->codes(row, run, to + done * block_.columns);
    });
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    const int64_t bytes = part_.packing->scales_bytes(groups());
    for_each_run(part_, block_.row + first, count, [&](int64_t row, int64_t done, int64_t run) {
      stored_->scales(row, run, to + done * bytes);
    });
  }
  void zeros(int64_t first, int64_t count, uint8_t* to) const override {
    for_each_run(part_, block_.row + first, count, [&](int64_t row, int64_t done, int64_t run) {
      stored_->zeros(row, run, to + done * groups());
    });
  }
  void factors(int64_t first, int64_t count, float* to) const override {
    for_each_run(part_, block_.row + first, count, [&](int64_t row, int64_t done, int64_t run) {
      stored_->factors(row, run, to + done);
    });
  }
  void input_groups(int32_t* to) const override { stored_->input_groups(to); }
  void table(std::span<float, 16> to) const override { stored_->table(to); }
  void nested(model::NestedScales& to) const override {
    stored_->nested(to);
    if (block_.rows > 0) to.first += part_.run_at(block_.row).first * to.stride;
  }
  [[nodiscard]] model::InputScale input_scale() const override { return stored_->input_scale(); }
  [[nodiscard]] int64_t first_input() const override { return stored_->first_input(); }

 private:
  [[nodiscard]] int64_t groups() const {
    const model::Packing& packing = *part_.packing;
    if (packing.ordered) return packing.groups(columns_);
    const int64_t lead = packing.inputs_before(block_.column);
    return packing.groups(lead + block_.columns);
  }

  const model::Part& part_;
  Block block_;
  int64_t columns_;
  std::unique_ptr<model::PackedRows> stored_;
};

}  // namespace

quantization::FindStored find_stored(const Checkpoint& checkpoint, const model::ModelSpec& spec) {
  return
      [&checkpoint, &spec](const std::string& name) -> std::optional<quantization::StoredTensor> {
        const TensorEntry* const found = find_tensor(checkpoint, spec, name);
        if (found == nullptr) return std::nullopt;
        return quantization::StoredTensor{.name = found->name,
                                          .dtype = found->dtype,
                                          .shape = found->shape,
                                          .data = found->data,
                                          .blocks = found->blocks,
                                          .guarded = [file = found->file](const auto& read) {
                                            const GuardedRead guard(*file);
                                            read();
                                            guard.finish();
                                          }};
      };
}

std::unique_ptr<model::PackedRows> open_part(const model::WeightSpec& weight,
                                             const model::Part& part, const Block& block,
                                             const quantization::FindStored& find) {
  quantization::StoredMatrix matrix = quantization::stored_matrix(weight, part, find);
  matrix.inputs = {block.column, block.columns};
  return std::make_unique<PartRows>(part, block, weight.columns(),
                                    quantization::open_matrix(*part.packing, matrix));
}

Block whole_part(const model::WeightSpec& weight, const model::Part& part) {
  return {0, part.rows(), 0, weight.columns()};
}

}  // namespace plimsoll::checkpoint
