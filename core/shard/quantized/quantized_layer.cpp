#include "shard/quantized/quantized_layer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"
#include "shard/quantized/quantized_parameters.h"

namespace plimsoll::shard {
namespace {

using model::Part;
using model::Repack;
using model::Split;
using model::UnevenBlocks;
using model::WeightSpec;
using quantization::Scales;
using quantization::WeightFormat;
using quantization::WeightScheme;

const char* block_scale_name(const WeightScheme& scheme) {
  return scheme.check_merged ? "weight_scale"
                             : "weight_scale_inv";  // compressed-tensors: the first
}

void add_scales(QuantisedParameters& to, const WeightScheme& scheme) {
  switch (scheme.scales) {
    case Scales::tensor:
      return to.by_part("weight_scale");
    case Scales::channel:
      return to.by_rows("weight_scale", DType::f32, to.outputs_only(), 1, 1);
    case Scales::block:
      return to.by_rows(block_scale_name(scheme), DType::f32, to.weight().split, scheme.block_out,
                        divide_up(to.inputs(), scheme.block_in));
  }
}

DType eight_bits(const WeightScheme& scheme) {
  return scheme.format == WeightFormat::fp8 ? DType::f8_e4m3 : DType::i8;
}

// ---- linear layers ----

void keep_blocks_whole(WeightSpec& made, const WeightScheme& scheme) {
  if (made.split == Split::vocabulary) {
    refuse_quantised(made.name + " has scales of blocks, which vLLM does not load there");
  }
  made.output_multiple = scheme.block_out;
  made.input_multiple = scheme.block_in;
  // Scales of fused matrices that do not begin on a block would stand over each other.
  for (size_t i = 0; i + 1 < made.parts.size(); ++i) {
    if (made.parts[i].rows() % scheme.block_out == 0) continue;
    refuse_quantised(fmt::format("{}: {} rows of {} are no multiple of its blocks of {} rows",
                                 made.name, made.parts[i].rows(), made.parts[i].tensor,
                                 scheme.block_out));
  }
}

void add_eight_bit(QuantisedParameters& to, const WeightScheme& scheme) {
  WeightSpec& made = to.as_stored(eight_bits(scheme));
  if (scheme.scales == Scales::block) keep_blocks_whole(made, scheme);
  add_scales(to, scheme);
  if (!scheme.static_input) return;
  if (scheme.format == WeightFormat::fp8) return to.by_part("input_scale");
  // Its zero point, where the activations have one; int8 in the checkpoint and in the layer.
  if (to.all_have("input_zero_point")) to.by_last("input_zero_point", DType::i8);
  to.by_last("input_scale", DType::f32);
}

void add_packed(QuantisedParameters& to, const WeightScheme& scheme) {
  const int64_t packed = to.integers_per_word(scheme);
  to.by_rows("weight_packed", DType::i32, to.weight().split, 1, to.inputs() / packed);
  to.by_rows("weight_scale", std::nullopt, to.group_split(scheme), 1, to.groups(scheme));
  to.add_shape();
  if (!scheme.zero_points) return;
  to.by_rows("weight_zero_point", DType::i32, to.group_split(scheme), packed, to.groups(scheme));
}

void add_awq(QuantisedParameters& to, const WeightScheme& scheme) {
  if (scheme.bits != 4) refuse_quantised(fmt::format("AWQ of {} bits; vLLM takes 4", scheme.bits));
  const int64_t packed = to.integers_per_word(scheme);
  const Split split = to.weight().split;
  // vLLM cuts even a single group of all inputs, which then divides by no number of ranks.
  to.by_columns("qweight", DType::i32, split, to.inputs(), packed);
  to.by_columns("qzeros", DType::i32, split, to.groups(scheme), packed);
  to.by_columns("scales", std::nullopt, split, to.groups(scheme), 1);
}

void add_gptq(QuantisedParameters& to, const WeightScheme& scheme) {
  const int64_t packed = to.integers_per_word(scheme);
  const Split groups = to.group_split(scheme);
  to.by_columns("qweight", DType::i32, to.weight().split, to.inputs() / packed, 1);
  to.by_columns("scales", std::nullopt, groups, to.groups(scheme), 1);
  to.by_columns("qzeros", DType::i32, groups, to.groups(scheme), packed);
  if (to.all_have("g_idx")) to.add_group_indices(scheme.group);
}

// ---- experts ----

/// The two weights of a layer's experts, whose parameters alternate: w13's, then w2's.
class Experts {
 public:
  Experts(const WeightSpec& up, const WeightSpec& down, const WeightScheme& scheme,
          const StoredTensors& stored, std::vector<WeightSpec>& result)
      : scheme_(scheme), up_(up, stored, result), down_(down, stored, result), result_(result) {}

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
      default:
        refuse_quantised(up_.weight().name + " is in a format whose shards are not known");
    }
  }

 private:
  template <typename Add>
  void both(const Add& add) {
    add(up_);
    add(down_);
  }

  // Of the last two, the scales: what the ranks' shares must be multiples of.
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
    refuse_quantised(fmt::format("{} has {}", up_.weight().name, what));
  }

  void add_eight_bit() {
    const bool is_int8 = scheme_.format == WeightFormat::int8;
    if (is_int8 && (scheme_.scales != Scales::channel || scheme_.static_input)) {
      refuse(
          "int8 experts whose weights have no scales per channel, or whose inputs have stored "
          "ones; vLLM takes neither");
    }
    if (scheme_.scales == Scales::channel && scheme_.static_input) {
      refuse("scales per channel beside stored scales of inputs, which vLLM does not take");
    }
    both([&](QuantisedParameters& to) { to.as_stored(eight_bits(scheme_)); });
    both([&](QuantisedParameters& to) { add_scales(to, scheme_); });
    if (scheme_.scales == Scales::block) {
      set_blocks(scheme_.block_out, scheme_.block_in,
                 scheme_.refine_expert_blocks ? UnevenBlocks::refined : UnevenBlocks::refused);
    }
    if (!scheme_.static_input) return;
    both([](QuantisedParameters& to) { to.by_last("input_scale", DType::f32); });
  }

  void add_packed() {
    const int64_t packed = up_.integers_per_word(scheme_);
    both([&](QuantisedParameters& to) {
      to.by_rows("weight_packed", DType::i32, to.weight().split, 1,
                 to.inputs() / to.integers_per_word(scheme_));
    });
    both([&](QuantisedParameters& to) {
      to.by_rows("weight_scale", std::nullopt, to.group_split(scheme_), 1, to.groups(scheme_));
    });
    if (scheme_.group > 0) set_blocks(scheme_.group, scheme_.group, UnevenBlocks::refused);
    if (scheme_.zero_points) {
      both([&](QuantisedParameters& to) {
        to.by_rows("weight_zero_point", DType::i32, to.group_split(scheme_), packed,
                   to.groups(scheme_));
      });
    }
    down_.add_shape();
    up_.add_shape();
  }

  // Whether vLLM takes Marlin's kernel where no group is cut.
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
    if (gptq) both([](QuantisedParameters& to) { to.add_expert_bias(); });
    if (scheme_.group > 0) {
      set_blocks(first, scheme_.group, scheme_.group, UnevenBlocks::absent);
      add_turned();
    }
    if (!gptq) return;
    both([&](QuantisedParameters& to) {
      if (to.all_have("g_idx")) to.add_group_indices(scheme_.group);
    });
  }

  void add_packed_columns() {
    const bool gptq = scheme_.format == WeightFormat::gptq;
    const int64_t packed = up_.integers_per_word(scheme_);
    both([&](QuantisedParameters& to) {
      const int64_t words = to.inputs() / (gptq ? to.integers_per_word(scheme_) : 1);
      to.by_columns("qweight", DType::i32, to.weight().split, words, gptq ? 1 : packed);
    });
    both([&](QuantisedParameters& to) {
      to.by_columns("scales", std::nullopt, to.group_split(scheme_), to.groups(scheme_), 1);
    });
    both([&](QuantisedParameters& to) {
      to.by_columns("qzeros", DType::i32, to.group_split(scheme_), to.groups(scheme_), packed);
    });
  }

  // What the ranks have instead where their shares cut groups (vLLM's moe_wna16): integers turned,
  // in bytes, and scales of smaller groups. GPTQ's zero points, which are all alike, are left out.
  void add_turned() {
    const size_t first = result_.size();
    const bool gptq = scheme_.format == WeightFormat::gptq;
    both([&](QuantisedParameters& to) {
      to.turned("qweight", to.inputs() / to.integers_per_word(scheme_),
                gptq ? Repack::words : Repack::awq_words);
    });
    both([&](QuantisedParameters& to) { to.turned("scales", to.groups(scheme_), Repack::none); });
    if (!gptq && scheme_.zero_points) {
      both([&](QuantisedParameters& to) {
        to.turned("qzeros", to.groups(scheme_), Repack::awq_zeros);
      });
    }
    set_blocks(first, scheme_.group, scheme_.group, UnevenBlocks::needed);
  }

  const WeightScheme& scheme_;
  QuantisedParameters up_, down_;
  std::vector<WeightSpec>& result_;
};

}  // namespace

void add_quantised_linear(const WeightSpec& weight, const WeightScheme& scheme,
                          const StoredTensors& stored, std::vector<WeightSpec>& result) {
  if (std::ranges::any_of(weight.parts, &Part::transposed)) {
    refuse_quantised(weight.name + " is stored transposed");
  }
  QuantisedParameters to(weight, stored, result);
  switch (scheme.format) {
    case WeightFormat::fp8:
    case WeightFormat::int8:
      return add_eight_bit(to, scheme);
    case WeightFormat::packed:
      return add_packed(to, scheme);
    case WeightFormat::awq:
      return add_awq(to, scheme);
    case WeightFormat::gptq:
      return add_gptq(to, scheme);
    default:
      refuse_quantised(weight.name + " is in a format whose shards are not known");
  }
}

void add_quantised_experts(const WeightSpec& up, const WeightSpec& down, const WeightScheme& scheme,
                           const StoredTensors& stored, std::vector<WeightSpec>& result) {
  for (const WeightSpec* weight : {&up, &down}) {
    const std::string& tensor = weight->parts.front().tensor;
    if (tensor.ends_with(".weight") && !tensor.ends_with("].weight")) continue;
    refuse_quantised(tensor.substr(0, tensor.find('[')) +
                     " holds all experts of a layer in one tensor");
  }
  Experts(up, down, scheme, stored, result).add();
}

}  // namespace plimsoll::shard
