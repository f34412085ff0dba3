// A layer's experts, whose two weights have their parameters in turn: w13's, then w2's.
#include "base/error.h"
#include "shard/quantized/add_parameter.h"
#include "shard/quantized/quantized_layer.h"

namespace plimsoll::shard {
namespace {

using model::Repack;
using model::UnevenBlocks;
using model::WeightSpec;
using quantization::Holds;
using quantization::LayerKind;
using quantization::LayerParameter;
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
    check();
    const size_t first = result_.size();
    for (const LayerParameter& each : layer_parameters(scheme_, LayerKind::experts)) add(each);
    const bool gptq = scheme_.format == WeightFormat::gptq;
    if ((gptq || scheme_.format == WeightFormat::awq) && scheme_.group > 0) {
      set_blocks(first, scheme_.group, scheme_.group, UnevenBlocks::absent);
      const size_t turned = result_.size();
      for (const LayerParameter& each : layer_parameters(scheme_, LayerKind::turned_experts)) {
        add_turned(each);
      }
      set_blocks(turned, scheme_.group, scheme_.group, UnevenBlocks::needed);
    }
    if (!gptq) return;
    both([&](QuantizedParameters& to) {
      if (to.all_have("g_idx")) to.add_group_indices(scheme_.group);
    });
  }

 private:
  template <typename Add>
  void both(const Add& add) {
    add(up_);
    add(down_);
  }

  // Sets the blocks of the parameters from `first` on: ranks' shares must be multiples of them.
  void set_blocks(size_t first, int64_t outputs, int64_t inputs, UnevenBlocks uneven) {
    for (size_t i = first; i < result_.size(); ++i) {
      result_[i].expert_blocks = {outputs, inputs, down_.inputs(), up_.inputs(), uneven};
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

  void check_nvfp4() {
    if (scheme_.whole_inputs && !scheme_.unused_input) {
      refuse(
          "NVFP4 without scales of inputs, for which vLLM has parameters all the same, that "
          "nothing would fill");
    }
    if (of_.second_first) return;
    refuse("NVFP4 of Quark, whose scales of inputs vLLM fills with those of one matrix");
  }

  // Throws for what vLLM has no parameters for, or others than those that are listed.
  void check() {
    switch (scheme_.format) {
      case WeightFormat::fp8:
      case WeightFormat::int8:
        return check_eight_bits();
      case WeightFormat::awq:
      case WeightFormat::gptq:
        return check_words();
      case WeightFormat::nvfp4:
        check_nvfp4();
        return form_.check();
      case WeightFormat::packed:
      case WeightFormat::mxfp4:
        return;
      default:
        refuse_quantized(up_.weight().name + " is in a format whose shards are not known");
    }
  }

  void add(const LayerParameter& parameter) {
    if (parameter.holds == Holds::shape) {
      down_.add_shape();
      return up_.add_shape();
    }
    both([&](QuantizedParameters& to) { add_parameter(parameter, form_, to); });
    if (parameter.holds != Holds::scales) return;
    const size_t scales = result_.size() - 2;
    const int64_t group = scheme_.group;
    if (parameter.partial) {
      set_blocks(scales, scheme_.block_out, scheme_.block_in,
                 scheme_.refine_expert_blocks ? UnevenBlocks::refined : UnevenBlocks::refused);
    } else if (scheme_.format == WeightFormat::packed && group > 0) {
      set_blocks(scales, group, group, UnevenBlocks::refused);
    } else if (scheme_.format == WeightFormat::mxfp4 && of_.pads_experts) {
      keep_unpadded(scales - 2);
    }
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
    result_[codes + 1].input_multiple = kLargest / 2;
  }

  void check_words() {
    const bool awq = scheme_.format == WeightFormat::awq;
    const bool suits = quantization::suits_marlin(scheme_.group, up_.inputs());
    if (suits && (scheme_.group > 0 || !awq)) return;
    refuse(fmt::format(
        "groups of {} and a hidden size of {}; vLLM packs such experts anew for another kernel "
        "(moe_wna16), in a layout that is not written",
        scheme_.group, up_.inputs()));
  }

  // Adds the tensors that ranks have instead where their shares cut groups (vLLM's moe_wna16):
  // integers turned, in bytes, and scales of smaller groups. GPTQ's zero points, which are all
  // alike, are left out.
  void add_turned(const LayerParameter& parameter) {
    const bool gptq = scheme_.format == WeightFormat::gptq;
    const bool codes = parameter.holds == Holds::codes;
    const Repack repack = codes ? (gptq ? Repack::words : Repack::awq_words)
                          : parameter.holds == Holds::zeros ? Repack::awq_zeros
                                                            : Repack::none;
    both([&](QuantizedParameters& to) {
      to.turned(form_.name_of(parameter),
                codes ? to.inputs() / to.integers_per_word(scheme_) : to.groups(scheme_), repack);
    });
  }

  WeightScheme scheme_;
  const LayerClass& of_;
  const LayerForm form_{scheme_, of_};
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
