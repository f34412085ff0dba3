// Tiny checkpoints in formats that no golden result has, beside their weights as plain numbers.
#pragma once

#include <map>

#include "conformance/drawn_formats.h"
#include "conformance/drawn_integers.h"
#include "conformance/golden_models.h"

namespace plimsoll::testing {

inline constexpr const char* kQuark = R"({"quant_method": "quark", "global_quant_config": {
  "weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"},
  "input_tensors": {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": false}},
  "exclude": ["lm_head"]})";
inline constexpr const char* kQuarkChannel = R"({"quant_method": "quark", "global_quant_config": {
  "weight": {"dtype": "fp8_e4m3", "qscheme": "per_channel"},
  "input_tensors": {"dtype": "fp8_e4m3", "qscheme": "per_channel", "is_dynamic": true}},
  "layer_quant_config": {}, "exclude": ["lm_head"]})";
inline constexpr const char* kQuarkInt8 = R"({"quant_method": "quark", "global_quant_config": {
  "weight": {"dtype": "int8", "qscheme": "per_channel", "symmetric": true},
  "input_tensors": {"dtype": "int8", "qscheme": "per_tensor", "symmetric": false}},
  "exclude": ["lm_head"]})";
inline constexpr const char* kQuarkMxfp4 = R"({"quant_method": "quark", "global_quant_config": {
  "weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}},
  "exclude": ["lm_head"]})";
inline constexpr const char* kQuarkMx = R"({"quant_method": "quark", "global_quant_config": {
  "weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"},
  "input_tensors": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32,
                    "scale_format": "e8m0", "is_dynamic": true}},
  "exclude": ["lm_head"]})";
inline constexpr const char* kQuarkInt4 = R"({"quant_method": "quark", "global_quant_config": {
  "weight": {"dtype": "int4", "qscheme": "per_group", "group_size": 32, "symmetric": true}},
  "export": {"pack_method": "reorder"}, "exclude": ["lm_head"]})";
inline constexpr const char* kQuarkUint4 = R"({"quant_method": "quark", "global_quant_config": {
  "weight": [{"dtype": "uint4", "qscheme": "per_group", "group_size": 32, "symmetric": false}]},
  "export": {"pack_method": "reorder"}, "exclude": ["lm_head"]})";
inline constexpr const char* kQuarkNvfp4 = R"({"quant_method": "quark", "global_quant_config": {
  "weight": [{"dtype": "fp4", "qscheme": "per_group", "group_size": 16, "is_dynamic": false},
             {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": false}],
  "input_tensors": [{"dtype": "fp4", "qscheme": "per_group", "group_size": 16, "is_dynamic": true},
                    {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": false}]},
  "exclude": ["lm_head"]})";
/// compressed-tensors' integers in groups of 32.
inline std::string packed_settings(int64_t bits, bool symmetric) {
  return fmt::format(R"({{"quant_method": "compressed-tensors", "ignore": ["lm_head"],
  "format": "pack-quantized", "config_groups": {{"group_0": {{"targets": ["Linear"],
    "weights": {{"num_bits": {}, "type": "int", "strategy": "group", "group_size": 32,
                "symmetric": {}}}}}}}}})",
                     bits, symmetric);
}
inline constexpr const char* kModelOptMxfp8 = R"({"quant_method": "modelopt",
  "quant_algo": "MXFP8", "exclude_modules": ["lm_head"]})";
inline constexpr const char* kFbgemm = R"({"quant_method": "fbgemm_fp8", "activation_scale_ub": 0.5,
  "modules_to_not_convert": ["lm_head"]})";
inline constexpr const char* kMxfp4 =
    R"({"quant_method": "compressed-tensors", "ignore": ["lm_head"],
  "format": "mxfp4-pack-quantized", "config_groups": {"group_0": {"targets": ["Linear"],
    "weights": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}}}})";
inline constexpr const char* kMxfp4Inputs =
    R"({"quant_method": "compressed-tensors", "ignore": ["lm_head"],
  "format": "mxfp4-pack-quantized", "config_groups": {"group_0": {"targets": ["Linear"],
    "weights": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32},
    "input_activations": {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32,
                          "dynamic": true}}}})";
inline constexpr const char* kMxfp8 =
    R"({"quant_method": "compressed-tensors", "ignore": ["lm_head"],
  "format": "mxfp8-quantized", "config_groups": {"group_0": {"targets": ["Linear"],
    "weights": {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32},
    "input_activations": {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32,
                          "dynamic": true}}}})";
inline constexpr const char* kInt8 =
    R"({"quant_method": "compressed-tensors", "ignore": ["lm_head"],
  "format": "int-quantized", "config_groups": {"group_0": {"targets": ["Linear"],
    "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": true},
    "input_activations": {"num_bits": 8, "type": "int", "strategy": "tensor", "symmetric": false,
                          "dynamic": false}}}})";
inline constexpr const char* kInt8Tensor =
    R"({"quant_method": "compressed-tensors", "ignore": ["lm_head"],
  "format": "int-quantized", "config_groups": {"group_0": {"targets": ["Linear"],
    "weights": {"num_bits": 8, "type": "int", "strategy": "tensor", "symmetric": true}}}})";
inline constexpr const char* kModelOptBlocks = R"({"quant_method": "modelopt",
  "quant_algo": "FP8_PB_WO", "exclude_modules": ["lm_head"]})";
inline constexpr const char* kFp8Blocks =
    R"({"quant_method": "fp8", "weight_block_size": [128, 128],
  "activation_scheme": "dynamic"})";
inline constexpr const char* kModelOptNvfp4 = R"({"quant_method": "modelopt",
  "quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]})";
inline constexpr const char* kModelOpt = R"({"quant_method": "modelopt", "quant_algo": "FP8",
  "exclude_modules": ["lm_head"]})";

inline bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// Groups by class, by pattern and by name; lists of patterns and names are left whole.
inline constexpr const char* kMixed =
    R"({"quant_method": "compressed-tensors", "format": "mixed-precision",
  "ignore": ["lm_head", "re:.*layers\\.0\\.mlp\\.up_proj$", "model.layers.1.self_attn.q_proj"],
  "config_groups": {
    "group_0": {"targets": ["Linear"], "format": "int-quantized",
      "weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
      "input_activations": {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": true}},
    "group_1": {"targets": ["re:.*self_attn\\.[qkvo]_proj"], "format": "float-quantized",
      "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
      "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true}},
    "group_2": {"targets": ["model.layers.1.mlp.down_proj"], "format": "pack-quantized",
      "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}}}})";
inline Store mixed(const std::string& module) {
  if (holds(module, "layers.0.mlp.up_proj") || holds(module, "layers.1.self_attn.q_proj"))
    return nullptr;
  if (holds(module, "self_attn")) return fbgemm;
  return holds(module, "layers.1.mlp.down_proj") ? packed_4_bits : int8_dynamic;
}

/// Experts by a pattern, those of one layer left whole by another.
inline constexpr const char* kMixedExperts = R"({"quant_method": "compressed-tensors",
  "ignore": ["lm_head", "re:.*mlp\\.gate$", "re:model\\.layers\\.1\\.mlp\\.experts\\..*"],
  "config_groups": {
    "group_0": {"targets": ["re:.*mlp\\.experts\\.\\d+\\.(gate|up|down)_proj$"],
      "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
      "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true}},
    "group_1": {"targets": ["Linear"],
      "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}}}})";
inline Store mixed_experts(const std::string& module) {
  if (holds(module, "layers.1.mlp.experts")) return nullptr;
  return holds(module, "experts") ? fbgemm : packed_4_bits;
}

/// ModelOpt's list of layers.
inline constexpr const char* kMixedLayers =
    R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
  "exclude_modules": ["lm_head"], "quantized_layers": {
    "model.layers.0.self_attn.o_proj": {"quant_algo": "FP8"},
    "model.layers.1.self_attn.o_proj": {"quant_algo": "FP8"},
    "model.layers.0.mlp.down_proj": {"quant_algo": "NVFP4", "group_size": 16},
    "model.layers.1.mlp.down_proj": {"quant_algo": "NVFP4", "group_size": 16}}})";
inline Store mixed_layers(const std::string& module) {
  if (holds(module, "o_proj")) return quark_tensor;
  return holds(module, "down_proj") ? nvfp4 : nullptr;
}

/// How experts are stored: as in the recipe, in one tensor, or in one that is [experts, in, out].
enum class Experts { as_is, stacked, turned };

struct Row {
  const char* name;
  const char* recipe;
  std::string config;
  Store store;
  Experts experts = Experts::as_is;
  Store (*choose)(const std::string& module) = nullptr;  // null: left whole
};
inline const Row kRows[] = {
    {"Quark, fp8 by tensor", "models/llama", kQuark, quark_tensor},
    {"Quark, fp8 by channel", "models/llama", kQuarkChannel, quark_channel},
    {"Quark, experts", "models/qwen3_moe", kQuark, quark_tensor},
    {"Quark, MXFP4", "models/llama", kQuarkMxfp4, quark_mxfp4},
    {"Quark, int8", "models/llama", kQuarkInt8, quark_int8},
    {"Quark, int4, reordered", "models/llama", kQuarkInt4, quark_int4<true>},
    {"Quark, uint4", "models/llama", kQuarkUint4, quark_int4<false>},
    {"Quark, NVFP4", "models/llama", kQuarkNvfp4, quark_nvfp4},
    {"compressed-tensors, 2 bits", "models/llama", packed_settings(2, true),
     packed_bits<2, true, true>},
    {"compressed-tensors, 3 bits", "models/llama", packed_settings(3, true),
     packed_bits<3, true, true>},
    {"compressed-tensors, 3 bits over words", "models/llama", packed_settings(3, false),
     packed_bits<3, false, false>},
    {"fbgemm_fp8", "models/llama", kFbgemm, fbgemm},
    {"compressed-tensors, dense MXFP4", "models/llama", kMxfp4, mxfp4},
    {"Quark, MXFP4 on both sides", "models/llama", kQuarkMx, quark_mxfp4},
    {"compressed-tensors, MXFP4 beside MXFP8", "models/llama", kMxfp4Inputs, mxfp4},
    {"compressed-tensors, MXFP8", "models/llama", kMxfp8, mxfp8},
    {"ModelOpt, MXFP8", "models/llama", kModelOptMxfp8, mxfp8},
    {"int8, inputs by a stored zero point", "models/llama", kInt8, int8_static},
    {"int8, one scale, whole inputs", "models/llama", kInt8Tensor, int8_tensor},
    {"ModelOpt, fp8 in blocks", "models/llama", kModelOptBlocks, grid_of_four_axes},
    {"fp8 in blocks, experts in one tensor", "models/qwen3_moe", kFp8Blocks, stacked_blocks,
     Experts::stacked},
    {"fp8 by expert, experts in one tensor", "models/qwen3_moe", kModelOpt, stacked_tensors,
     Experts::stacked},
    {"NVFP4, experts in one tensor", "models/qwen3_moe", kModelOptNvfp4, nvfp4, Experts::stacked},
    {"fp8 in blocks, stacks", "more_models/qwen3_5_moe", kFp8Blocks, stacked_blocks},
    {"fp8 by channel, stacks that are turned", "more_models/llama4", kFbgemm, turned_channels,
     Experts::turned},
    {"groups by class, pattern and name", "models/llama", kMixed, nullptr, Experts::as_is, mixed},
    {"experts by pattern", "models/qwen3_moe", kMixedExperts, nullptr, Experts::as_is,
     mixed_experts},
    {"a list of layers", "models/llama", kMixedLayers, nullptr, Experts::as_is, mixed_layers},
};

/// "...mlp.experts." in the name of one expert's tensor, and which of its matrices it is.
struct ExpertName {
  std::string experts, matrix;
  explicit ExpertName(const std::string& tensor) {
    const size_t at = tensor.find(".experts.");
    if (at == std::string::npos) return;
    experts = tensor.substr(0, at + 9);
    const size_t dot = tensor.find('.', experts.size());
    matrix = tensor.substr(dot + 1, tensor.rfind('.') - dot - 1);
  }
};

/// Stacks experts that are stored one by one as transformers 5 does: gate over up, and down.
inline void stack_experts(std::map<std::string, Matrix>& matrices) {
  std::map<std::string, Matrix> stacks;
  for (int64_t expert = 0;; ++expert) {
    const size_t before = stacks.size() + matrices.size();
    for (auto at = matrices.begin(); at != matrices.end();) {
      const ExpertName name(at->first);
      const bool up = name.matrix != "down_proj";
      const std::string first = fmt::format("{}{}.", name.experts, expert);
      if (name.experts.empty() || !at->first.starts_with(first) || name.matrix == "up_proj") {
        ++at;
        continue;
      }
      Matrix& stack = stacks[name.experts + (up ? "gate_up_proj" : "down_proj")];
      stack.count = expert + 1;
      stack.columns = at->second.columns;
      stack.rows = at->second.rows * (up ? 2 : 1);
      const auto append = [&](const Matrix& m) {
        stack.values.insert(stack.values.end(), m.values.begin(), m.values.end());
      };
      append(at->second);
      if (up) append(matrices.at(first + "up_proj.weight"));
      at = matrices.erase(at);
    }
    std::erase_if(matrices, [&](const auto& m) {
      return m.first.ends_with(fmt::format(".experts.{}.up_proj.weight", expert));
    });
    if (stacks.size() + matrices.size() == before) break;
  }
  for (auto& [name, stack] : stacks) {
    stack.module = name;
    matrices.emplace(name, std::move(stack));
  }
}

/// Matrices of the layers by tensor: modules with one each, and stacks of experts.
inline std::map<std::string, Matrix> matrices_of(const model::ModelSpec& spec,
                                                 const checkpoint::Checkpoint& checkpoint) {
  std::map<std::string, Matrix> found;
  for (const std::string& name : tensors_of_layers(spec, checkpoint)) {
    const checkpoint::TensorEntry& tensor = *checkpoint.find(name);
    found[name] = {.module = name.substr(0, name.rfind('.')),
                   .rows = tensor.shape[0],
                   .columns = tensor.shape[1]};
  }
  for (const model::StackedTensor& stack : spec.stacked_tensors)
    if (stack.stored_shape.size() == 3)
      found[stack.tensor] = {.module = stack.tensor,
                             .count = stack.count,
                             .rows = stack.stored_shape[1],
                             .columns = stack.stored_shape[2]};
  for (auto& [name, matrix] : found) {
    const checkpoint::TensorEntry& tensor = *checkpoint.find(name);
    matrix.values.resize(static_cast<size_t>(matrix.count * matrix.rows * matrix.columns));
    convert(tensor.data, tensor.dtype, matrix.values.data(), DType::f32, matrix.values.size());
  }
  return found;
}

inline void write_folder(const fs::path& folder, const Json& config,
                         const SafetensorsWriter& tensors) {
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << config.dump();
  std::ofstream(folder / "model.safetensors", std::ios::binary) << tensors.bytes();
}

/// The recipe from our own results or from the larger set; empty: neither has it.
inline fs::path recipe_of(const Row& row) {
  const fs::path own = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden" / row.recipe;
  if (fs::exists(own)) return own;
  return golden_folder() ? *golden_folder() / row.recipe : fs::path();
}

/// Folders "stored" and "plain" of a recipe's model.
inline void write_both(const Row& row, const fs::path& folder) {
  write_checkpoint(recipe_of(row), folder / "as-is");
  const auto checkpoint = checkpoint::Checkpoint::open(folder / "as-is");
  Json config = model::read_config(folder / "as-is");
  std::map<std::string, Matrix> matrices = matrices_of(model::make_model_spec(config), checkpoint);
  REQUIRE(matrices.size() > 6);
  Files files;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (matrices.contains(name)) continue;
    for (SafetensorsWriter* to : {&files.stored, &files.plain})
      to->add(name, tensor.dtype, tensor.shape, tensor.data, tensor.bytes);
  }
  if (row.experts == Experts::stacked) stack_experts(matrices);
  for (auto& [name, m] : matrices) {
    const bool turn = m.count > 1 && row.experts == Experts::turned;
    if (turn) {
      m.values = turned(m.values, m.count, m.rows, m.columns);
      std::swap(m.rows, m.columns);
    }
    const Store store = row.choose != nullptr ? row.choose(m.module) : row.store;
    if (store == nullptr) {  // left whole
      const std::vector<double> numbers(m.values.begin(), m.values.end());
      files.add_plain(name, {m.rows, m.columns}, numbers);
      files.stored.add(name, DType::f32, {m.rows, m.columns}, m.values.data(), 4 * m.values.size());
      continue;
    }
    const Stored stored = store(m, files);
    if (turn) {
      files.add_plain(name, {m.count, m.columns, m.rows},
                      turned(stored.numbers, m.count, m.rows, m.columns));
    } else if (m.count > 1) {
      files.add_plain(name, {m.count, m.rows, m.columns}, stored.numbers);
    } else {
      files.add_plain(name, {m.rows, m.columns}, stored.numbers);
    }
  }
  write_folder(folder / "plain", config, files.plain);
  config["quantization_config"] = Json::parse(row.config);
  write_folder(folder / "stored", config, files.stored);
}

}  // namespace plimsoll::testing
