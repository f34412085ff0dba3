// A layer's experts, whose two weights have their parameters in turn: w13's, then w2's.
#include "base/error.h"
#include "shard/quantized/eight_bits.h"
#include "shard/quantized/four_bit_floats.h"
#include "shard/quantized/quantized_layer.h"
#include "shard/quantized/quantized_parameters.h"

namespace plimsoll::shard {
namespace {

using model::Repack;
using model::UnevenBlocks;
using model::WeightSpec;
using quantization::Scales;
using quantization::WeightFormat;
using quantization::WeightScheme;

class Experts {
 public:
  Experts(const WeightSpec& up, const WeightSpec& down, const WeightScheme& scheme,
          const LayerClass& of, const StoredTensors& stored, std::vector<WeightSpec>& result)
      : scheme_(groups_as_blocks(scheme)),
        of_(of),
        up_(up, stored, result),
        down_(down, stored, result),
        result_(result) {}

  void add() {
    switch (scheme_.format) {
      case WeightFormat::fp8:
      case WeightFormat::int8:
        return add_eight_bit();
      case WeightFormat::packed:
        return add_packed();
      case WeightFormat::awq:
      case WeightFormat::gptq:
        return add_transposed();
      case WeightFormat::nvfp4:
      case WeightFormat::mxfp4:
        return add_four_bits();
      default:
        refuse_quantized(up_.weight().name + " is in a format whose shards are not known");
    }
  }

 private:
  template <typename Add>
  void both(const Add& add) {
    add(up_);
    add(down_);
  }

  // Sets the block sizes of the last two parameters, the scales: ranks' shares must be multiples of
  // them.
  void set_blocks(int64_t outputs, int64_t inputs, UnevenBlocks uneven) {
    set_blocks(result_.size() - 2, outputs, inputs, uneven);
  }

  void set_blocks(size_t first, int64_t outputs, int64_t inputs, UnevenBlocks uneven) {
    for (size_t i = first; i < result_.size(); ++i) {
      result_[i].expert_blocks = {.outputs = outputs,
                                  .inputs = inputs,
                                  .intermediate = down_.inputs(),
                                  .hidden = up_.inputs(),
                                  .uneven = uneven};
    }
  }

  [[noreturn]] void refuse(const std::string& what) {
    refuse_quantized(fmt::format("{} has {}", up_.weight().name, what));
  }

  // Combinations that vLLM's classes of the method have no parameters for.
  void check_eight_bits() {
    const bool is_int8 = scheme_.format == WeightFormat::int8;
    if (is_int8 && (scheme_.scales != Scales::channel || scheme_.static_input)) {
      refuse(
          "int8 experts whose weights have no scales per channel, or whose inputs have stored "
          "ones; vLLM takes neither");
    }
    if (scheme_.scales == Scales::channel && scheme_.static_input) {
      refuse("scales per channel beside stored scales of inputs, which vLLM does not take");
    }
    const bool mxfp8 = scheme_.scales == Scales::block && scheme_.block_out == 1;
    if (of_.four_axes && scheme_.scales != Scales::tensor && !mxfp8) {
      refuse("scales per channel or block of ModelOpt, which vLLM takes in linear layers alone");
    }
    if (!mxfp8) return;
    for (const QuantizedParameters* to : {&up_, &down_}) {
      if (to->inputs() % scheme_.block_in == 0) continue;
      refuse(fmt::format("{} inputs, no multiple of its groups of {}", to->inputs(),
                         scheme_.block_in));
    }
  }

  void add_eight_bit() {
    check_eight_bits();
    both([&](QuantizedParameters& to) { add_eight_bit_codes(to, scheme_); });
    both([&](QuantizedParameters& to) { add_eight_bit_scales(to, scheme_, of_); });
    if (scheme_.scales == Scales::block) {
      set_blocks(scheme_.block_out, scheme_.block_in,
                 scheme_.refine_expert_blocks ? UnevenBlocks::refined : UnevenBlocks::refused);
    }
    if (!scheme_.static_input) return;
    both([](QuantizedParameters& to) { to.by_last("input_scale", DType::f32); });
  }

  void add_four_bits() {
    const bool nvfp4 = scheme_.format == WeightFormat::nvfp4;
    if (nvfp4 && scheme_.whole_inputs && !scheme_.unused_input) {
      refuse(
          "NVFP4 without scales of inputs, for which vLLM has parameters all the same, that "
          "nothing would fill");
    }
    if (nvfp4 && !of_.second_first) {
      refuse("NVFP4 of Quark, whose scales of inputs vLLM fills with those of one matrix");
    }
    const FourBitFloats floats(scheme_, of_);
    const size_t first = result_.size();
    both([&](QuantizedParameters& to) { floats.add_codes(to); });
    both([&](QuantizedParameters& to) { floats.add_scales(to); });
    if (!nvfp4 && of_.pads_experts) keep_unpadded(first);
    both([&](QuantizedParameters& to) { floats.add_second_scales(to); });
    both([&](QuantizedParameters& to) { floats.add_input_scales(to); });
  }

  // The kernels for MXFP4's experts take sizes that are multiples of up to 256, each of others.
  void keep_unpadded(size_t codes) {
    constexpr int64_t kLargest = 256;
    for (const QuantizedParameters* to : {&up_, &down_}) {
      if (to->inputs() % kLargest == 0) continue;
      refuse(
          fmt::format("{} inputs, no multiple of {}: how vLLM pads them depends on the kernel "
                      "that it takes for the card",
                      to->inputs(), kLargest));
    }
    result_[codes].output_multiple = kLargest;
    result_[codes + 1].input_multiple = kLargest / FourBitFloats::kInByte;
  }

  void add_packed() {
    const int64_t packed = up_.integers_per_word(scheme_);
    both([&](QuantizedParameters& to) {
      to.by_rows("weight_packed", DType::i32, to.weight().split, 1,
                 to.inputs() / to.integers_per_word(scheme_));
    });
    both([&](QuantizedParameters& to) {
      to.by_rows("weight_scale", std::nullopt, to.group_split(scheme_), 1, to.groups(scheme_));
    });
    if (scheme_.group > 0) set_blocks(scheme_.group, scheme_.group, UnevenBlocks::refused);
    if (scheme_.zero_points) {
      both([&](QuantizedParameters& to) {
        to.by_rows("weight_zero_point", DType::i32, to.group_split(scheme_), packed,
                   to.groups(scheme_));
      });
    }
    down_.add_shape();
    up_.add_shape();
  }

  // True when vLLM takes Marlin's kernel where no group is cut.
  [[nodiscard]] bool suits_marlin() const {
    const int64_t group = scheme_.group;
    const bool gptq = scheme_.format == WeightFormat::gptq;
    constexpr int64_t kTile = 128;
    const bool known = group == 32 || group == 64 || group == 128 || (group <= 0 && gptq);
    return known && up_.inputs() % kTile == 0;
  }

  void add_transposed() {
    if (!suits_marlin()) {
      refuse(fmt::format(
          "groups of {} and a hidden size of {}; vLLM packs such experts anew for another kernel "
          "(moe_wna16), in a layout that is not written",
          scheme_.group, up_.inputs()));
    }
    const bool gptq = scheme_.format == WeightFormat::gptq;
    const size_t first = result_.size();
    add_packed_columns();
    if (gptq) both([](QuantizedParameters& to) { to.add_expert_bias(); });
    if (scheme_.group > 0) {
      set_blocks(first, scheme_.group, scheme_.group, UnevenBlocks::absent);
      add_turned();
    }
    if (!gptq) return;
    both([&](QuantizedParameters& to) {
      if (to.all_have("g_idx")) to.add_group_indices(scheme_.group);
    });
  }

  void add_packed_columns() {
    const bool gptq = scheme_.format == WeightFormat::gptq;
    const int64_t packed = up_.integers_per_word(scheme_);
    both([&](QuantizedParameters& to) {
      const int64_t words = to.inputs() / (gptq ? to.integers_per_word(scheme_) : 1);
      to.by_columns("qweight", DType::i32, to.weight().split, words, gptq ? 1 : packed);
    });
    both([&](QuantizedParameters& to) {
      to.by_columns("scales", std::nullopt, to.group_split(scheme_), to.groups(scheme_), 1);
    });
    both([&](QuantizedParameters& to) {
      to.by_columns("qzeros", DType::i32, to.group_split(scheme_), to.groups(scheme_), packed);
    });
  }

  // Adds the tensors that ranks have instead where their shares cut groups (vLLM's moe_wna16):
  // integers turned, in bytes, and scales of smaller groups. GPTQ's zero points, which are all
  // alike, are left out.
  void add_turned() {
    const size_t first = result_.size();
    const bool gptq = scheme_.format == WeightFormat::gptq;
    both([&](QuantizedParameters& to) {
      to.turned("qweight", to.inputs() / to.integers_per_word(scheme_),
                gptq ? Repack::words : Repack::awq_words);
    });
    both([&](QuantizedParameters& to) { to.turned("scales", to.groups(scheme_), Repack::none); });
    if (!gptq && scheme_.zero_points) {
      both([&](QuantizedParameters& to) {
        to.turned("qzeros", to.groups(scheme_), Repack::awq_zeros);
      });
    }
    set_blocks(first, scheme_.group, scheme_.group, UnevenBlocks::needed);
  }

  WeightScheme scheme_;
  const LayerClass& of_;
  QuantizedParameters up_, down_;
  std::vector<WeightSpec>& result_;
};

}  // namespace

void add_quantized_experts(const WeightSpec& up, const WeightSpec& down, const WeightScheme& scheme,
                           const LayerClass& of, const StoredTensors& stored,
                           std::vector<WeightSpec>& result) {
  for (const WeightSpec* weight : {&up, &down}) {
    const std::string& tensor = weight->parts.front().tensor;
    if (tensor.ends_with(".weight") && !tensor.ends_with("].weight")) continue;
    refuse_quantized(tensor.substr(0, tensor.find('[')) +
                     " holds all experts of a layer in one tensor");
  }
  Experts(up, down, scheme, of, stored, result).add();
}

}  // namespace plimsoll::shard
