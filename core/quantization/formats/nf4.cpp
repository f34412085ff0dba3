// bitsandbytes' 4 bits: `weight` U8 [out * in / 2, 1], flat, the higher bits first; the 16 numbers
// in weight.quant_map; weight.absmax of each block, itself quantized where there is a
// weight.nested_absmax; weight.quant_state.bitsandbytes__nf4 (or __fp4), which is JSON.
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "base/rounding.h"
#include "quantization/formats/stored_rows.h"

namespace plimsoll::quantization {
namespace {

constexpr const char* kStates[] = {"weight.quant_state.bitsandbytes__nf4",
                                   "weight.quant_state.bitsandbytes__fp4"};
constexpr int64_t kUsualBlock = 64;

struct State {
  std::string tensor;
  int64_t block = kUsualBlock;
  int64_t nested_block = model::NestedScales::kBlock;
  double offset = 0;
};

std::optional<State> read_state(const StoredMatrix& matrix) {
  for (const char* name : kStates) {
    const std::optional<StoredTensor> tensor = matrix.find(name);
    if (!tensor) continue;
    std::string text(static_cast<size_t>(tensor->elements()), ' ');
    if (tensor->dtype != DType::u8 || text.size() > 65536) break;
    tensor->guarded([&] { std::memcpy(text.data(), tensor->data, text.size()); });
    try {
      const Json json = parse_json(text);
      return State{.tensor = tensor->name,
                   .block = json.value("blocksize", kUsualBlock),
                   .nested_block = json.value("nested_blocksize", model::NestedScales::kBlock),
                   .offset = json.value("nested_offset", 0.0)};
    } catch (const std::exception& error) {
      fail(ExitCode::checkpoint_unusable,
           "tensor \"{}\" is not the JSON that bitsandbytes writes: {}", tensor->name,
           error.what());
    }
  }
  return std::nullopt;
}

class Nf4Rows final : public StoredRows {
 public:
  Nf4Rows(const model::Packing& packing, const StoredMatrix& matrix)
      : StoredRows(packing, matrix),
        nested_(has("weight.nested_absmax")),
        state_(read_state(matrix)),
        codes_(require("weight", {DType::u8}, {rows() * columns() / 2, 1})),
        absmax_(require("weight.absmax", {nested_ ? DType::u8 : DType::f32}, {blocks()})),
        numbers_(require("weight.quant_map", {DType::f32}, {16})) {
    if (!state_) (void)require(kStates[0], {DType::u8}, {-1});
    if (state_->block % packing.group != 0) {
      refuse(state_->tensor,
             fmt::format("says blocks of {}; expected {}", state_->block, packing.group));
    }
    if (!nested_) return;
    if (state_->nested_block != model::NestedScales::kBlock || !std::isfinite(state_->offset)) {
      refuse(state_->tensor,
             fmt::format("says nested blocks of {}, offset {}; expected {} and a number",
                         state_->nested_block, state_->offset, model::NestedScales::kBlock));
    }
    nested_absmax_ = require("weight.nested_absmax", {DType::f32},
                             {divide_up(blocks(), model::NestedScales::kBlock)});
    nested_numbers_ = require("weight.nested_quant_map", {DType::f32}, {256});
    if (packing.scale == model::ScaleType::nested) return;
    unnested_numbers_.resize(256);
    unnested_absmax_.resize(static_cast<size_t>(nested_absmax_.elements()));
    copy_numbers(nested_numbers_, unnested_numbers_);
    copy_numbers(nested_absmax_, unnested_absmax_);
  }

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    codes_.guarded([&] {
      for (int64_t i = 0; i < count; ++i) {
        const std::byte* from = codes_.data + ((first + i) * columns() + first_input()) / 2;
        for (const std::byte* const end = from + inputs() / 2; from < end; ++from) {
          *to++ = static_cast<uint8_t>(*from) >> 4;
          *to++ = static_cast<uint8_t>(*from) & 15;
        }
      }
    });
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    const bool stays_nested = packing().scale == model::ScaleType::nested;
    const int64_t size = model::scale_bytes(packing().scale);
    absmax_.guarded([&] {
      for (int64_t i = first; i < first + count; ++i)
        for (int64_t g = first_group(); g < end_group(); ++g, to += size) {
          const int64_t block = (i * columns() + g * packing().group) / state_->block;
          if (stays_nested) {
            *to = nested_ ? absmax_.data[block] : std::byte{0};
            continue;
          }
          const float scale = nested_ ? unnested(block) : absmax_.number(block);
          std::memcpy(to, &scale, sizeof scale);
        }
    });
  }
  void table(std::span<float, 16> to) const override { copy_numbers(numbers_, to); }
  void nested(model::NestedScales& to) const override {
    if (nested_) {
      copy_numbers(nested_numbers_, to.numbers);
      copy_numbers(nested_absmax_, to.absmax);
      to.offset = static_cast<float>(state_->offset);
    } else {
      std::ranges::fill(to.numbers, 0.F);
      to.numbers[0] = 1;
      copy_numbers(absmax_, to.absmax);
    }
    to.first = first_group();
    to.stride = groups();
  }

 private:
  /// Blocks of the whole matrix; a block may run over the end of a row.
  [[nodiscard]] int64_t blocks() const {
    return divide_up(rows() * columns(), state_ ? state_->block : kUsualBlock);
  }
  [[nodiscard]] float unnested(int64_t block) const {
    const auto code = static_cast<size_t>(absmax_.data[block]);
    return unnested_numbers_[code] *
               unnested_absmax_[static_cast<size_t>(block / model::NestedScales::kBlock)] +
           static_cast<float>(state_->offset);
  }
  static void copy_numbers(const StoredTensor& from, std::span<float> to) {
    from.guarded([&] {
      for (size_t i = 0; i < to.size(); ++i) to[i] = from.number(static_cast<int64_t>(i));
    });
  }

  bool nested_;
  std::optional<State> state_;
  StoredTensor codes_, absmax_, numbers_, nested_absmax_, nested_numbers_;
  std::vector<float> unnested_numbers_, unnested_absmax_;  // where scales do not stay nested
};

}  // namespace

model::Packing nf4_packing(const WeightScheme& scheme, const StoredMatrix& matrix) {
  if (scheme.bits != 4) {
    fail(ExitCode::checkpoint_unusable,
         "{}: bitsandbytes of {} bits is not run; of 4 bits it is. Use the unquantized model",
         matrix.module, scheme.bits);
  }
  const std::optional<State> state = read_state(matrix);
  const int64_t block = state ? state->block : kUsualBlock;
  if (block < 2 || block % 2 != 0 || matrix.columns % 2 != 0) {
    fail(ExitCode::checkpoint_unusable,
         "{}: {} inputs in bitsandbytes' blocks of {}, which is not run: both are even. Use the "
         "unquantized model",
         matrix.module, matrix.columns, block);
  }
  // Blocks that run over the ends of outputs are cut there. So that memory holds no scale twice,
  // each piece has a byte beside it even where scales are no bytes in the checkpoint: always the
  // same.
  const int64_t group = std::gcd(matrix.columns, block);
  const bool twice = state ? matrix.find("weight.nested_absmax").has_value() : scheme.nested_scales;
  const bool nested = twice || group < block;
  return {.format = model::PackedFormat::nf4,
          .code = model::Code::table,
          .group = group,
          .scale = nested ? model::ScaleType::nested : model::ScaleType::f32,
          .block_inputs = nested ? block * (twice ? model::NestedScales::kBlock : 1) : 0};
}

std::unique_ptr<model::PackedRows> open_nf4(const model::Packing& packing,
                                            const StoredMatrix& matrix) {
  return std::make_unique<Nf4Rows>(packing, matrix);
}

}  // namespace plimsoll::quantization
