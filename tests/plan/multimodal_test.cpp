// Items of each modality against what vLLM 0.32.0's own processing classes and budget say
// (tests/data/families/items.jsonl): tokens, items in a profiled batch, budget, and their inputs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "plan/vllm_plan.h"
#include "vllm/items/encoder_memory.h"
#include "vllm/shapes/mistral_params.h"

namespace plimsoll::plan {

using namespace vllm;
namespace {

EngineArgs args_of(const Json& row) {
  EngineArgs args;
  const auto at = row.find("limits");
  if (at != row.end()) {
    for (const auto& [modality, limit] : at->items()) {
      args.limits[modality] = {limit.value("count", int64_t{999}), limit.value("width", int64_t{0}),
                               limit.value("height", int64_t{0}),
                               limit.value("num_frames", int64_t{0})};
    }
  }
  for (const auto& [key, into] : {std::pair{"processor", &args.processor},
                                  std::pair{"processor_file", &args.processor_file}}) {
    const auto settings = row.find(key);
    if (settings != row.end()) read_processor_settings(ConfigView(*settings, key), "", *into);
  }
  return args;
}

EncoderMemory memory_of(const Json& config, const Json& row) {
  const ConfigView view(config, row["name"].get<std::string>());
  const EngineArgs args = args_of(row);
  const Quantization plain;
  constexpr int64_t kHalf = 2;
  RankWeights weights(1, kHalf, plain);
  ShapeOptions options;
  options.absent = absent_modalities(args);
  const ModelShape shape = build_shape(view, options, weights);
  const EngineLimits limits{1024, 8192, 0.9};
  return encoder_memory(args, limits, shape, kHalf, row["max_model_len"].get<int64_t>());
}

}  // namespace

TEST_CASE("tokens and batches of items as vLLM 0.32.0 budgets them") {
  std::istringstream lines(
      read_text_file(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/families/items.jsonl"));
  std::map<std::string, Json> configs;
  std::string line;
  int rows = 0;
  while (std::getline(lines, line)) {
    const auto row = parse_json<Json>(line);
    const auto name = row["name"].get<std::string>();
    if (row.contains("config")) configs[name] = row["config"];
    INFO(name << " " << row.value("limits", Json()).dump()
              << row.value("processor", Json()).dump());
    const EncoderMemory memory = memory_of(configs.at(name), row);
    std::map<std::string, int64_t> tokens(memory.tokens.begin(), memory.tokens.end());
    CHECK(tokens == row["tokens"].get<std::map<std::string, int64_t>>());
    CHECK(memory.modality == row.value("modality", ""));
    CHECK(memory.items == row.value("items", int64_t{0}));
    CHECK(memory.budget_tokens == row.value("budget", int64_t{0}));
    CHECK(memory.tokens_per_item == row.value("profiled_tokens", int64_t{0}));
    if (row.contains("input_elements")) {
      CHECK(memory.input_elements == row["input_elements"].get<int64_t>());
      CHECK(memory.input_bytes == row["input_bytes"].get<int64_t>());
    }
    ++rows;
  }
  CHECK(rows > 30);
}

TEST_CASE("Gemma 4 reads an item as a whole: a step holds its largest by default") {
  const auto config = parse_json<Json>(R"({"architectures": ["Gemma4ForConditionalGeneration"],
    "text_config": {"use_bidirectional_attention": "vision"}})");
  const ConfigView view(config, "gemma4");
  EngineArgs args;
  CHECK(least_batched_tokens(view, args) == 32 * 78);
  args.limits["video"] = {1, 0, 0, 8};
  CHECK(least_batched_tokens(view, args) == 8 * 78);
  args.limits["video"] = {1, 0, 0, 64};  // more than are read
  CHECK(least_batched_tokens(view, args) == 32 * 78);
  args.limits = {{"image", {}}};
  CHECK(least_batched_tokens(view, args) == 32 * 78);
  args.limits = {{"image", {}}, {"video", {}}};
  CHECK(least_batched_tokens(view, args) == 0);
  const auto causal = parse_json<Json>(R"({"architectures": ["Gemma4ForConditionalGeneration"],
    "text_config": {"use_bidirectional_attention": "all"}})");
  CHECK(least_batched_tokens(ConfigView(causal, "gemma4"), {}) == 0);
}

TEST_CASE("a tower is left out where none of its modalities is wanted") {
  const auto omni = parse_json<Json>(R"({"architectures": ["Qwen2_5OmniForConditionalGeneration"],
    "thinker_config": {"audio_config": {"encoder_layers": 2, "d_model": 64,
        "encoder_attention_heads": 4, "encoder_ffn_dim": 128, "output_dim": 64},
      "vision_config": {"depth": 2, "hidden_size": 64, "num_heads": 4, "intermediate_size": 128,
        "out_hidden_size": 64},
      "text_config": {"model_type": "qwen2_5_omni_text", "hidden_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 64,
        "vocab_size": 64}}})");
  const auto bytes_without = [&](std::vector<std::string> absent) {
    const Quantization plain;
    RankWeights weights(1, 2, plain);
    ShapeOptions options;
    options.absent = std::move(absent);
    static_cast<void>(build_shape(ConfigView(omni, "omni"), options, weights));
    return weights.part_bytes(Part::vision);
  };
  const Amount all = bytes_without({});
  const Amount deaf = bytes_without({"audio"});
  const Amount blind = bytes_without({"image", "video"});
  CHECK(deaf + blind == all);
  CHECK(bytes_without({"image"}) == all);
  CHECK(bytes_without({"image", "video", "audio"}) == Amount{0});
}

namespace {

/// A tower, and the modules of its layers as published lists name them.
struct ListedTower {
  const char* config;  // but for the language model
  const char* layers;  // "N": a layer's number
  std::vector<std::string> modules;
  std::vector<std::string> others;  // outside the layers
};

Amount tower_bytes(const Json& config, const Quantization& quantization) {
  constexpr int64_t kHalf = 2;
  RankWeights weights(1, kHalf, quantization);
  static_cast<void>(build_shape(ConfigView(config, "tower"), {}, weights));
  return weights.part_bytes(Part::vision);
}

std::vector<std::string> names_of(const ListedTower& tower, int64_t layers) {
  std::vector<std::string> names = tower.others;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::string path = tower.layers;
    path.replace(path.find('N'), 1, std::to_string(layer));
    for (const std::string& module : tower.modules) names.push_back(path + "." + module);
  }
  return names;
}

}  // namespace

TEST_CASE("a tower whose modules a checkpoint lists as unquantized is counted whole") {
  constexpr int64_t kLayers = 2;
  const auto language = parse_json<Json>(
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
      "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
      "intermediate_size": 64, "vocab_size": 64})");
  const std::vector<ListedTower> towers = {
      // Qwen/Qwen3.8-27B-FP8: modules_to_not_convert.
      {R"({"architectures": ["Qwen3VLForConditionalGeneration"], "vision_config": {"depth": 2,
        "hidden_size": 64, "num_heads": 4, "intermediate_size": 152, "out_hidden_size": 64,
        "deepstack_visual_indexes": [0]}})",
       "model.visual.blocks.N",
       {"attn.qkv", "attn.proj", "mlp.linear_fc1", "mlp.linear_fc2"},
       {"model.visual.merger.linear_fc1", "model.visual.merger.linear_fc2",
        "model.visual.deepstack_merger_list.0.linear_fc1",
        "model.visual.deepstack_merger_list.0.linear_fc2"}},
      {R"({"architectures": ["Qwen2_5_VLForConditionalGeneration"], "vision_config": {"depth": 2,
        "hidden_size": 64, "num_heads": 4, "intermediate_size": 152, "out_hidden_size": 64}})",
       "visual.blocks.N",
       {"attn.qkv", "attn.proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"},
       {"visual.merger.mlp.0", "visual.merger.mlp.2"}},
      {R"({"architectures": ["Mistral3ForConditionalGeneration"], "vision_config":
        {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        "intermediate_size": 152, "model_type": "pixtral"}})",
       "model.vision_tower.transformer.layers.N",
       {"attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.o_proj",
        "feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj"},
       {"model.multi_modal_projector.patch_merger.merging_layer",
        "model.multi_modal_projector.linear_1", "model.multi_modal_projector.linear_2"}},
      {R"({"architectures": ["Gemma3ForConditionalGeneration"], "vision_config":
        {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        "intermediate_size": 152}})",
       "vision_tower.vision_model.encoder.layers.N",
       {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "mlp.fc1",
        "mlp.fc2"},
       {}},
      {R"({"architectures": ["InternVLChatModel"], "vision_config": {"num_hidden_layers": 2,
        "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 152}})",
       "vision_model.encoder.layers.N",
       {"attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"},
       {"mlp1.1", "mlp1.3"}}};
  for (const ListedTower& tower : towers) {
    Json config = parse_json<Json>(tower.config);
    config[config["architectures"][0] == "InternVLChatModel" ? "llm_config" : "text_config"] =
        language;
    INFO(config["architectures"]);
    const std::vector<std::string> names = names_of(tower, kLayers);
    const Amount whole = tower_bytes(config, {});
    const Json fp8 = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
    CHECK(tower_bytes(config, Quantization(ConfigView(fp8, "fp8"))) != whole);
    Json listed = fp8;
    listed["modules_to_not_convert"] = names;
    CHECK(tower_bytes(config, Quantization(ConfigView(listed, "listed"))) == whole);
    listed = parse_json<Json>(R"({"quant_method": "compressed-tensors", "config_groups":
        {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float",
        "strategy": "channel"}}}})");
    listed["ignore"] = names;
    CHECK(tower_bytes(config, Quantization(ConfigView(listed, "ignored"))) == whole);
  }
}

TEST_CASE("sound whose items are not counted is told") {
  const auto told = [](const EngineArgs& args) {
    std::ifstream lines(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/families/changed.jsonl");
    std::string line;
    while (std::getline(lines, line) && line.find("MiniCPM-o-4_5") == std::string::npos) continue;
    const Json config = parse_json<Json>(line)["config"];
    const PlanResult result = plan_vllm(ConfigView(config, "config.json"), args, nullptr);
    return std::ranges::any_of(result.notes, [](const std::string& note) {
      return note.find("not modelled") != std::string::npos;
    });
  };
  CHECK(told({}));
  EngineArgs deaf;
  deaf.limits["audio"] = {0, 0, 0, 0};
  CHECK_FALSE(told(deaf));
}

TEST_CASE("hostile sizes of images stay countable") {
  const auto config = parse_json<Json>(R"({"architectures": ["LlavaNextForConditionalGeneration"],
    "image_grid_pinpoints": [[2147483647, 2147483647], [0, 1]],
    "vision_config": {"model_type": "siglip_vision_model", "image_size": 384, "patch_size": 14},
    "text_config": {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1,
      "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 64}})");
  for (const char* limits : {R"({"image": {"width": 9223372036854775807, "height": 1}})",
                             R"({"image": {"width": 1, "height": 9223372036854775807}})"}) {
    const Json row = {{"name", "hostile"},
                      {"max_model_len", 4096},
                      {"limits", parse_json<Json>(limits)},
                      {"processor", {{"max_pixels", INT64_MAX}, {"max_dynamic_patch", -1}}}};
    const EncoderMemory memory = memory_of(config, row);
    CHECK(memory.items >= 1);
    CHECK(memory.kept > 0);
  }
}

TEST_CASE("the server and each engine keep inputs that were processed") {
  const Json config =
      read_json_file(PLIMSOLL_SOURCE_DIR "/samples/plans/configs/qwen2.5-vl-3b.json");
  struct Row {
    VllmVersion version;
    int64_t copies, processes;
  };
  for (const Row& row : {Row{{0, 9, 2}, 1, 2}, Row{{0, 9, 2}, 3, 2}, Row{{0, 10, 0}, 1, 2},
                         Row{{0, 10, 0}, 3, 4}, Row{{0, 33, 0}, 3, 4}}) {
    INFO(version_text(row.version) << ", " << row.copies << " copies");
    EngineArgs args;
    args.version = row.version;
    args.data_parallel = row.copies;
    args.processor_cache_gib = 2;
    const PlanResult plan = plan_vllm({config, "config.json"}, args, &hardware::find_gpu("h100"));
    const auto part = std::ranges::find(plan.host, "processed inputs", &PlanPart::name);
    REQUIRE(part != plan.host.end());
    CHECK(part->bytes == row.processes * 2 * (int64_t{1} << 30));
    args.processor_cache_gib = 0;
    const PlanResult none = plan_vllm({config, "config.json"}, args, &hardware::find_gpu("h100"));
    CHECK(std::ranges::find(none.host, "processed inputs", &PlanPart::name) == none.host.end());
  }
}

TEST_CASE("Mistral's own params.json counts as the config that vLLM makes of it") {
  auto params =
      parse_json<Json>(R"({"dim": 5120, "n_layers": 40, "head_dim": 128, "hidden_dim": 14336,
    "n_heads": 32, "n_kv_heads": 8, "rope_theta": 1000000000.0, "norm_eps": 1e-05, "vocab_size": 131072,
    "vision_encoder": {"hidden_size": 1024, "num_channels": 3, "image_size": 1024, "patch_size": 16,
    "rope_theta": 10000.0, "intermediate_size": 4096, "num_hidden_layers": 24,
    "num_attention_heads": 16, "adapter_bias": true, "image_token_id": 10}})");
  adapt_mistral_params(params, "params.json");
  const PlanResult result = plan_vllm({params, "params.json"}, {}, &hardware::find_gpu("h100"));
  CHECK(result.architecture == "PixtralForConditionalGeneration");
  CHECK(result.parameter_bytes == 25'365'479'424);  // of vLLM 0.32.0's class
  auto windows = parse_json<Json>(R"({"dim": 64, "n_layers": 4, "norm_eps": 1e-5, "hidden_dim": 96,
    "sliding_window": [null, 32]})");
  adapt_mistral_params(windows, "params.json");
  CHECK(windows["layer_types"][1] == "sliding_attention");
  CHECK(windows["layer_types"][2] == "full_attention");
  CHECK(windows["sliding_window"] == 32);
  auto mixture = parse_json<Json>(R"({"dim": 64, "n_layers": 4, "norm_eps": 1e-5, "hidden_dim": 96,
    "moe": {"num_experts": 8, "num_experts_per_tok": 2}})");
  CHECK_THROWS_AS(adapt_mistral_params(mixture, "params.json"), Error);
  Json plain = {{"hidden_size", 64}};
  adapt_mistral_params(plain, "config.json");
  CHECK(plain == Json{{"hidden_size", 64}});
}

}  // namespace plimsoll::plan
