#include "model/recurrent.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace plimsoll::model {
namespace {

class Builder {
 public:
  Builder(const RecurrentTable& table, const std::string& layer, int64_t hidden, SpecBuilder& add)
      : table_(table),
        spec_(table.sizes),
        stored_(layer + table.module),
        name_(layer + (table.engine_module.empty() ? table.module : table.engine_module)),
        hidden_(hidden),
        add_(add) {}

  RecurrentSpec build() {
    switch (spec_.kind) {
      case RecurrentKind::short_conv:
        short_conv();
        break;
      case RecurrentKind::mamba1:
        mamba1();
        break;
      case RecurrentKind::mamba2:
        mamba2();
        break;
      case RecurrentKind::gated_delta:
        gated_delta();
        break;
      case RecurrentKind::channel_delta:
        channel_delta();
        break;
      case RecurrentKind::linear:
        linear_attention();
        break;
      case RecurrentKind::gated_linear:
        gated_linear();
        break;
    }
    return spec_;
  }

 private:
  void short_conv() {
    const int64_t width = spec_.conv.width;
    conv({{width}}, Split::column);
    spec_.in = fused("in_proj", {width, width, width}, hidden_, table_.bias);
    out();
  }

  void mamba1() {
    const int64_t width = spec_.width();
    numbers("A_log", "A", {width, spec_.state}, spec_.decay);
    numbers("D", "D", {width}, spec_.skip);
    conv({{width}}, Split::column);
    spec_.in = fused("in_proj", {width, width}, hidden_, table_.bias);
    spec_.choose = plain("x_proj", spec_.rank + 2 * spec_.state, width, {.split = Split::row});
    spec_.step = plain("dt_proj", width, spec_.rank, {.split = Split::column, .bias = true});
    out();
    if (!table_.choice_norms) return;
    choice_norm("dt_layernorm", spec_.rank, spec_.step_norm);
    choice_norm("b_layernorm", spec_.state, spec_.b_norm);
    choice_norm("c_layernorm", spec_.state, spec_.c_norm);
  }

  void mamba2() {
    const int64_t width = spec_.width(), shared = spec_.groups * spec_.state;
    numbers("A_log", "A", {spec_.heads}, spec_.decay);
    numbers("D", "D", {spec_.heads}, spec_.skip);
    numbers("dt_bias", "dt_bias", {spec_.heads}, spec_.step_bias);
    conv({width, shared, shared}, Split::merged_column);
    spec_.in = fused("in_proj", {width, width, shared, shared, spec_.heads}, hidden_, table_.bias);
    if (spec_.groups == 1) {  // ranks that share a group all have it
      for (const WeightId id : {spec_.conv.weight, spec_.conv.bias}) keep_whole(id, 1);
      for (const WeightId id : {spec_.in.weight, spec_.in.bias}) keep_whole(id, 2);
    }
    out();
    output_norm(width, Split::column);
  }

  // B and C: two parts of a weight.
  void keep_whole(WeightId id, size_t first) {
    if (id == kNoWeight) return;
    std::vector<Part>& parts = add_.at(id).parts;
    parts[first].every_rank = parts[first + 1].every_rank = true;
  }

  [[nodiscard]] std::string module(const char* name) const { return stored_ + "." + name; }

  // q's, k's and v's, stored apart.
  void delta_convolutions(int64_t keys, int64_t width) {
    const std::pair<const char*, int64_t> convolutions[] = {
        {"q_conv1d", keys}, {"k_conv1d", keys}, {"v_conv1d", width}};
    ConvSpec& conv = spec_.conv;
    conv.weight = add_.parameter(name_ + ".conv1d.weight", {conv.width, 1, conv.taps});
    WeightSpec& weight = add_.at(conv.weight);
    weight.parts.clear();
    for (const auto& [name, rows] : convolutions) {
      weight.parts.push_back({.tensor = module(name) + ".weight",
                              .stored_shape = {rows, 1, conv.taps},
                              .block_rows = rows,
                              .block_stride = rows});
    }
    weight.split = Split::merged_column;
  }

  // No class of vLLM's refereed this one: order and names are ours.
  void delta_all_apart() {
    const int64_t width = spec_.width(), keys = spec_.groups * spec_.state;
    numbers("dt_bias", "dt_bias", {spec_.heads}, spec_.step_bias);
    numbers("A_log", "A_log", {spec_.heads}, spec_.decay);
    delta_convolutions(keys, width);
    spec_.in = add_.linear(name_ + ".in_proj_qkvz",
                           {Rows::all(module("q_proj"), keys), Rows::all(module("k_proj"), keys),
                            Rows::all(module("v_proj"), width), Rows::all(module("g_proj"), width)},
                           hidden_, {.split = Split::merged_column});
    spec_.steps = add_.linear(
        name_ + ".in_proj_ba",
        {Rows::all(module("b_proj"), spec_.heads), Rows::all(module("a_proj"), spec_.heads)},
        hidden_, {.split = Split::merged_column});
    spec_.norm = add_.norm(name_ + ".o_norm", spec_.head_dim, spec_.norm);
    add_.at(spec_.norm.weight).parts[0].tensor = module("o_norm") + ".weight";
    spec_.out = plain("o_proj", hidden_, width, {.split = Split::row});
  }

  void channel_delta() {
    const int64_t width = spec_.width(), keys = spec_.groups * spec_.state;
    numbers("dt_bias", "dt_bias", {keys}, spec_.step_bias);
    numbers("A_log", "A_log", {spec_.heads}, spec_.decay);
    Part& decay = add_.at(spec_.decay).parts[0];
    decay.stored_shape = {1, 1, spec_.heads, 1};  // one row, whose columns are the heads
    decay.transposed = true;
    for (const WeightId id : {spec_.step_bias, spec_.decay}) add_.at(id).dtype = DType::f32;
    const bool low = spec_.rank > 0;
    std::vector<Rows> rows = {Rows::all(module("q_proj"), keys), Rows::all(module("k_proj"), keys),
                              Rows::all(module("v_proj"), width)};
    if (table_.full_gate) rows.push_back(Rows::all(module("g_proj"), width));
    rows.push_back(Rows::all(module("b_proj"), spec_.heads));
    if (low) rows.push_back(Rows::all(module("f_a_proj"), spec_.rank));
    spec_.in = add_.linear(name_ + (low ? ".in_proj_qkvgfab" : ".qkvb_proj"), rows, hidden_,
                           {.split = Split::merged_column});
    spec_.step = plain(low ? "f_b_proj" : "f_proj", keys, low ? spec_.rank : hidden_,
                       {.split = Split::column});
    delta_convolutions(keys, width);
    add_.at(spec_.conv.weight).dtype = DType::f32;
    if (low && !table_.full_gate) {
      spec_.gate_down = plain("g_a_proj", spec_.head_dim, hidden_, {});
      spec_.gate_up = plain("g_b_proj", width, spec_.head_dim, {.split = Split::column});
    } else if (!low) {
      spec_.gate_up = plain("g_proj", width, hidden_, {.split = Split::column});
    }
    spec_.norm = add_.norm(name_ + ".o_norm", spec_.head_dim, spec_.norm);
    spec_.out = plain("o_proj", hidden_, width, {.split = Split::row});
  }

  void linear_attention() {
    const int64_t width = spec_.width(), head = spec_.head_dim;
    if (table_.fused) {
      spec_.in = fused("query_key_value", {width, width, width}, hidden_, table_.bias);
    } else {
      const auto rows = Rows::parts(module("qkv_proj"), {head, head, head}, spec_.heads);
      spec_.in = add_.linear(name_ + ".qkv_proj", rows, hidden_,
                             {.split = Split::column, .interleaved = InterleavedCut::untangled});
    }
    if (table_.qk_norm) {
      for (const char* name : {"query_layernorm", "key_layernorm"}) {
        add_.norm(module(name), head, spec_.norm);
      }
    }
    spec_.decay = add_.add({.name = name_ + ".slope_rate",
                            .shape = {spec_.heads},
                            .use = WeightUse::vector,
                            .split = Split::column,
                            .dtype = DType::f32,
                            .kept = Kept::in_run,
                            .constant = table_.decays});
    spec_.gate_up =
        plain(table_.fused ? "g_proj" : "output_gate", width, hidden_, {.split = Split::column});
    output_norm(width, Split::column);
    out();
  }

  // No class of vLLM's: order and names are ours. A head's gates are stored [heads, in, out]
  // (StackedTensor).
  void gated_linear() {
    const int64_t width = spec_.width(), head = spec_.head_dim;
    spec_.gate_up = plain("linear_y", width, hidden_, {.split = Split::column, .bias = true});
    spec_.in = plain("linear_x", width, hidden_, {.split = Split::column, .bias = true});
    conv({{width}}, Split::column);
    numbers("rg_lru.recurrent_param", "rg_lru.recurrent_param", {width}, spec_.decay);
    for (int64_t h = 0; h < spec_.heads; ++h) {
      const std::string number = "[" + std::to_string(h) + "]", lru = stored_ + ".rg_lru.";
      Linear gates = add_.linear(
          name_ + ".rg_lru.gates" + number,
          {Rows::all(lru + "input_gate", head), Rows::all(lru + "recurrent_gate", head)}, head,
          {.bias = true, .transposed = true});
      for (const auto& [id, kind] :
           {std::pair(gates.weight, "_weight"), std::pair(gates.bias, "_bias")}) {
        add_.at(id).parts[0].tensor = fmt::format("{}input_gate{}{}", lru, kind, number);
        add_.at(id).parts[1].tensor = fmt::format("{}recurrent_gate{}{}", lru, kind, number);
      }
      spec_.head_gates.push_back(gates);
    }
    spec_.out = plain("linear_out", hidden_, width, {.split = Split::row, .bias = true});
  }

  void gated_delta() {
    if (table_.stored == DeltaStored::all_apart) return delta_all_apart();
    const int64_t width = spec_.width(), keys = spec_.groups * spec_.state;
    numbers("dt_bias", "dt_bias", {spec_.heads}, spec_.step_bias);
    numbers("A_log", "A_log", {spec_.heads}, spec_.decay);
    add_.at(spec_.decay).dtype = DType::f32;
    conv({keys, keys, width}, Split::merged_column);
    if (table_.stored == DeltaStored::by_key_head) {
      by_key_head(width);
    } else {
      apart(keys, width);
    }
    output_norm(spec_.head_dim, Split::replicated);
    out();
  }

  void apart(int64_t keys, int64_t width) {
    std::vector<Rows> rows = Rows::parts(module("in_proj_qkv"), {keys, keys, width});
    rows.push_back(Rows::all(stored_ + ".in_proj_z", width));
    spec_.in = add_.linear(name_ + ".in_proj_qkvz", rows, hidden_, {.split = Split::merged_column});
    spec_.steps = add_.linear(name_ + ".in_proj_ba",
                              {Rows::all(stored_ + ".in_proj_b", spec_.heads),
                               Rows::all(stored_ + ".in_proj_a", spec_.heads)},
                              hidden_, {.split = Split::merged_column});
  }

  void by_key_head(int64_t width) {
    const int64_t values = width / spec_.groups, steps = spec_.heads / spec_.groups;
    const LinearLayout in_place{.split = Split::column, .interleaved = InterleavedCut::in_place};
    const auto add = [&](const std::string& name, const std::vector<int64_t>& sizes) {
      return add_.linear(name_ + "." + name, Rows::parts(stored_ + "." + name, sizes, spec_.groups),
                         hidden_, in_place);
    };
    spec_.in = add("in_proj_qkvz", {spec_.state, spec_.state, values, values});
    spec_.steps = add("in_proj_ba", {steps, steps});
  }

  // Numbers of a head or channel; `name` is vLLM's, which keeps Mamba's A rather than its
  // logarithm.
  void numbers(const char* stored, const std::string& name, std::vector<int64_t> shape,
               WeightId& id) {
    id = add_.parameter(name_ + "." + name, std::move(shape));
    WeightSpec& weight = add_.at(id);
    weight.split = Split::column;
    weight.parts[0].tensor = stored_ + "." + stored;
    if (name != "A") return;
    weight.parts[0].mapping = Mapping::minus_exp;
    weight.dtype = DType::f32;
  }

  void conv(const std::vector<int64_t>& parts, Split split) {
    const std::string module = stored_ + "." + table_.conv, name = name_ + "." + table_.conv;
    ConvSpec& conv = spec_.conv;
    conv.weight = add_.parameter(name + ".weight", {conv.width, 1, conv.taps});
    cut(add_.at(conv.weight), module + ".weight", {conv.width, 1, conv.taps}, parts, split);
    if (!table_.conv_bias) return;
    conv.bias = add_.parameter(name + ".bias", {conv.width});
    cut(add_.at(conv.bias), module + ".bias", {conv.width}, parts, split);
  }

  // The rows of one tensor in parts that ranks cut one by one.
  static void cut(WeightSpec& weight, const std::string& tensor, const std::vector<int64_t>& shape,
                  const std::vector<int64_t>& parts, Split split) {
    weight.split = split;
    weight.parts.clear();
    int64_t first = 0;
    for (const int64_t rows : parts) {
      weight.parts.push_back({.tensor = tensor,
                              .stored_shape = shape,
                              .first_row = first,
                              .block_rows = rows,
                              .block_stride = rows});
      first += rows;
    }
  }

  // One stored matrix whose rows are cut in parts.
  Linear fused(const std::string& module, const std::vector<int64_t>& parts, int64_t columns,
               bool bias) {
    return add_.linear(name_ + "." + module, Rows::parts(stored_ + "." + module, parts), columns,
                       {.split = Split::merged_column, .bias = bias});
  }

  Linear plain(const std::string& module, int64_t rows, int64_t columns,
               const LinearLayout& layout) {
    return add_.linear(name_ + "." + module, {Rows::all(stored_ + "." + module, rows)}, columns,
                       layout);
  }

  void out() {
    const int64_t width =
        spec_.kind == RecurrentKind::short_conv ? spec_.conv.width : spec_.width();
    spec_.out =
        plain(table_.fused ? "dense" : "out_proj", hidden_, width,
              {.split = Split::row, .bias = table_.out_bias, .bias_kept = table_.out_bias_kept});
  }

  void output_norm(int64_t n, Split split) {
    if (!spec_.norm.present) return;
    spec_.norm = add_.norm(name_ + ".norm", n, spec_.norm);
    WeightSpec& weight = add_.at(spec_.norm.weight);
    weight.parts[0].tensor = stored_ + ".norm.weight";
    weight.split = split;
  }

  void choice_norm(const std::string& module, int64_t n, Norm& norm) {
    norm = add_.norm(name_ + "." + module, n, norm,
                     table_.choice_weights ? NormTensors::weight : NormTensors::none);
    if (norm.weight != kNoWeight) {
      add_.at(norm.weight).parts[0].tensor = stored_ + "." + module + ".weight";
    }
  }

  const RecurrentTable& table_;
  RecurrentSpec spec_;
  std::string stored_, name_;
  int64_t hidden_;
  SpecBuilder& add_;
};

}  // namespace

RecurrentSpec add_recurrent(const RecurrentTable& table, const std::string& layer, int64_t hidden,
                            SpecBuilder& add) {
  return Builder(table, layer, hidden, add).build();
}

std::vector<float> lightning_decays(int64_t heads, int64_t layer, int64_t layers) {
  const double depth = static_cast<double>(layer) / (static_cast<double>(layers - 1) + 1e-5);
  std::vector<float> decays;
  for (int64_t head = 0; head < heads; ++head) {
    const double slope =
        std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(heads));
    decays.push_back(static_cast<float>(-slope * (1 - depth + 1e-5)));
  }
  return decays;
}

}  // namespace plimsoll::model
