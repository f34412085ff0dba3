// Each architecture of the table against what vLLM's own classes said of it
// (tests/data/families): parameters, buffers, kinds of cache and blocks, to the byte.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <sstream>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "model/class_defaults.h"
#include "model/config.h"
#include "model/families/family.h"
#include "plan/configs.h"
#include "plan/report/report.h"
#include "plan/vllm_plan.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

/// Published and default configs, then changed ones.
std::vector<Json> rows() {
  std::vector<Json> result;
  for (const char* name : {"families", "changed"}) {
    std::istringstream lines(read_text_file(std::string(PLIMSOLL_SOURCE_DIR) +
                                            "/tests/data/families/" + name + ".jsonl"));
    for (std::string line; std::getline(lines, line);) result.push_back(parse_json<Json>(line));
  }
  return result;
}

std::vector<std::string> kinds_of(const PlanResult& result) {
  std::vector<std::string> kinds;
  for (const KvKindCount& kind : result.kv_kinds) {
    kinds.push_back(kind_name(kind.spec.kind) + " " + std::to_string(kind.spec.block_size) + " " +
                    std::to_string(kind.spec.page.value()) + " x" + std::to_string(kind.layers));
  }
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

std::vector<std::string> kinds_of(const Json& row) {
  std::vector<std::string> kinds;
  for (const Json& kind : row["kv_kinds"]) {
    kinds.push_back(kind["kind"].get<std::string>() + " " +
                    std::to_string(kind["block_size"].get<int64_t>()) + " " +
                    std::to_string(kind["page_bytes"].get<int64_t>()) + " x" +
                    std::to_string(kind["layers"].get<int64_t>()));
  }
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

}  // namespace

TEST_CASE("architectures as vLLM builds them") {
  std::map<std::string, Json> configs;
  int compared = 0;
  for (const Json& row : rows()) {
    const auto name = row["name"].get<std::string>();
    if (row.contains("config")) {
      Json config = row["config"];
      model::complete_config(config, model::ConfigClasses::vllm);
      configs[name] = std::move(config);
    }
    EngineArgs args = at(model::parse_version(row.value("vllm_version", "0.32.0")));
    args.tensor_parallel = row["tensor_parallel_size"].get<int64_t>();
    args.available_kv = int64_t{40} << 30;
    INFO(name << " on " << args.tensor_parallel);
    ++compared;
    if (row.contains("refused")) {
      INFO("vLLM: " << row["refused"]);
      CHECK_THROWS_AS(plan_vllm({configs.at(name), name}, args, &hardware::find_gpu("h100")),
                      Error);
      continue;
    }
    const PlanResult result =
        plan_vllm({configs.at(name), name}, args, &hardware::find_gpu("h100"));
    CHECK(result.parameter_bytes == row["parameter_bytes"].get<int64_t>());
    CHECK(result.buffer_bytes == row["buffer_bytes"].get<int64_t>());
    if (row.contains("kv_kinds")) CHECK(kinds_of(result) == kinds_of(row));
    if (row.contains("num_blocks") && row["num_blocks"].is_number())
      CHECK(result.num_gpu_blocks == row["num_blocks"].get<int64_t>());
    if (row.contains("max_num_batched_tokens"))
      CHECK(result.max_num_batched_tokens == row["max_num_batched_tokens"].get<int64_t>());
  }
  CHECK(compared > 60);
}

TEST_CASE("a config that leaves out what its class assumes is planned as one that states it") {
  const auto defaults = parse_json<Json>(model::class_defaults_text());
  const auto figures = [](Json config) {
    model::complete_config(config, model::ConfigClasses::vllm);
    const PlanResult result = plan_vllm({config, "config.json"}, {}, &hardware::find_gpu("h100"));
    return std::tuple(result.parameter_bytes, result.buffer_bytes, kinds_of(result),
                      result.max_model_len);
  };
  int left_out = 0;
  for (const Json& row : rows()) {
    if (!row.contains("config") || row.contains("refused")) continue;
    const Json& config = row["config"];
    const auto known = defaults.find(config.value("model_type", ""));
    if (known == defaults.end()) continue;
    Json shorter = config;
    for (const auto& [names, value] : known->items()) {
      const std::string key = names.substr(0, names.find('|'));
      if (shorter.contains(key) && shorter[key] == value) left_out += shorter.erase(key) > 0;
    }
    INFO(row["name"] << " " << shorter.dump());
    CHECK(figures(shorter) == figures(config));
  }
  CHECK(left_out > 200);
}

TEST_CASE("what a config leaves out is counted as vLLM's class has it") {
  const auto changed = [](const char* name, const Json& changes) {
    for (const Json& row : rows()) {
      if (row["name"] != name || !row.contains("config")) continue;
      Json config = row["config"];
      config.merge_patch(changes);
      return plan_vllm({config, "config.json"}, {}, &hardware::find_gpu("h100"));
    }
    throw std::logic_error(name);
  };
  std::string listed = "1";
  for (int layer = 2; layer < 61; ++layer) listed += "," + std::to_string(layer);
  CHECK(changed("Step3", {{"moe_layers_enum", nullptr}}).parameter_bytes ==
        changed("Step3", {{"moe_layers_enum", listed}}).parameter_bytes);
  // One base of RoPE is one table, the one of both kinds of layers.
  const auto tables = [&](double local) {
    const Json ropes = {
        {"rope_parameters", nullptr}, {"global_rope_theta", 160000}, {"local_rope_theta", local}};
    return changed("modernbert", ropes).buffer_bytes;
  };
  CHECK(tables(10000) - tables(160000) == 8192 * 64 * 2);
}

TEST_CASE("configs within a config take the defaults of their classes") {
  auto config = parse_json<Json>(R"({"model_type":"mistral3","text_config":{"hidden_size":5120},
    "vision_config":{"model_type":"pixtral"}})");
  model::complete_config(config, model::ConfigClasses::vllm);
  CHECK(config["text_config"]["num_key_value_heads"] == 8);
  CHECK(config["text_config"]["hidden_size"] == 5120);
  CHECK(config["vision_config"]["patch_size"] == 16);
  CHECK(config["tie_word_embeddings"] == true);
  auto named = parse_json<Json>(R"({"model_type":"gpt2","hidden_size":1024})");
  model::complete_config(named, model::ConfigClasses::vllm);
  CHECK_FALSE(named.contains("n_embd"));
  CHECK(named["n_head"] == 12);
}

TEST_CASE("every name is once in the table") {
  std::vector<std::string_view> names;
  for (const model::Family& family : model::families()) {
    if (!family.architecture.empty()) names.push_back(family.architecture);
  }
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("BLOOM's first configs call the hidden size n_embed") {
  const auto bytes_of = [](const char* key) {
    const Json config = {{"architectures", {"BloomForCausalLM"}},
                         {key, 1024},
                         {"n_layer", 24},
                         {"num_attention_heads", 16},
                         {"vocab_size", 250880},
                         {"seq_length", 2048}};
    return plan_vllm({config, "config.json"}, {}, &hardware::find_gpu("h100")).parameter_bytes;
  };
  CHECK(bytes_of("n_embed") == bytes_of("hidden_size"));
}

TEST_CASE("weights that MLX has quantized are refused by name") {
  Json config = llama_8b();
  config["quantization"] = {{"group_size", 64}, {"bits", 4}};
  const PlanResult refused = plan_of(config);
  CHECK_FALSE(*refused.fits);
  CHECK(refused.refused);
  CHECK_THAT(refused.reason, Catch::Contains("MLX, 4 bits"));
}

TEST_CASE("Gemma 4 Unified is Gemma 4 with projections in place of encoders") {
  Json config = parse_json<Json>(
      R"({"architectures":["Gemma4UnifiedForConditionalGeneration"],"dtype":"bfloat16",
    "text_config":{"model_type":"gemma4_unified_text","head_dim":256,"global_head_dim":512,
    "hidden_size":3840,"intermediate_size":15360,"layer_types":["sliding_attention","full_attention"],
    "max_position_embeddings":262144,"num_attention_heads":16,"num_key_value_heads":8,
    "num_global_key_value_heads":1,"attention_k_eq_v":true,"num_hidden_layers":2,
    "hidden_size_per_layer_input":0,"sliding_window":1024,"vocab_size":262144},
    "vision_config":{"mm_embed_dim":3840,"mm_posemb_size":1120,"model_patch_size":48,
    "num_soft_tokens":280,"output_proj_dims":3840,"patch_size":16,"pooling_kernel_size":3},
    "audio_config":{"audio_embed_dim":640,"hidden_size":640,"output_proj_dims":640}})");
  const PlanResult whole = plan_of(config);
  CHECK(whole.image_tokens == 280);
  CHECK(whole.kv_kinds.size() == 2);
  const auto seen = std::find_if(whole.parts.begin(), whole.parts.end(), [](const PlanPart& part) {
    return part.name == "weights: vision";
  });
  REQUIRE(seen != whole.parts.end());
  constexpr int64_t kInputs = 48 * 48 * 3, kWidth = 3840;
  CHECK(seen->bytes == 2 * (kInputs * 2 + kInputs * kWidth + kWidth + kWidth * 4 +
                            1120 * 2 * kWidth + kWidth * kWidth + 640 * kWidth));
}

TEST_CASE("a slice of experts that cuts a block of scales is refused before 0.29") {
  Json config = parse_json<Json>(
      R"({"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","hidden_size":2048,
    "intermediate_size":5472,"num_hidden_layers":2,"num_attention_heads":32,"head_dim":128,
    "num_key_value_heads":4,"num_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":768,
    "vocab_size":151936,"max_position_embeddings":262144,"torch_dtype":"bfloat16",
    "quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}})");
  EngineArgs args = at({0, 28, 0});
  args.tensor_parallel = 8;  // 768 / 8 = 96
  CHECK_THAT(refusal_of(config, args),
             Catch::Contains("The output_size of gate's and up's weight = 96 is not divisible by "
                             "weight quantization block_n = 128"));
  args.expert_parallel = true;
  CHECK(refusal_of(config, args).empty());
  args.expert_parallel = false;
  args.version = {0, 29, 0};
  CHECK(refusal_of(config, args).empty());
}

TEST_CASE("what run does not compute is counted all the same") {
  const auto plan_with = [](const char* changes) {
    Json config = unknown_decoder();
    config["architectures"] = {"LlamaForCausalLM"};
    config.merge_patch(parse_json<Json>(changes));
    return plan_vllm({config, "config.json"}, {}, nullptr);
  };
  const PlanResult plain = plan_with("{}");
  for (const char* changes :
       {R"({"hidden_act": "snake"})", R"({"rope_scaling": {"rope_type": "spiral", "factor": 2}})",
        R"({"rms_norm_eps": "small"})", R"({"head_dim": null})"}) {
    INFO(changes);
    const PlanResult changed = plan_with(changes);
    CHECK(changed.parameter_bytes == plain.parameter_bytes);
    CHECK(changed.buffer_bytes == plain.buffer_bytes);
    CHECK(changed.notes.size() == plain.notes.size());  // nothing is estimated
  }
}

TEST_CASE("ranks that a class refuses are refused") {
  struct Case {
    const char* changes;
    const char* says;
  };
  const Case cases[] = {
      {R"({"architectures": ["GptOssForCausalLM"], "num_local_experts": 8})",
       "the number of key-value heads (4)"},
      {R"({"architectures": ["CohereForCausalLM"], "use_qk_norm": true})", "k_norm (4)"},
      {R"({"architectures": ["Qwen3MoeForCausalLM"], "num_experts": 4, "num_experts_per_tok": 2,
           "moe_intermediate_size": 256})",
       "greater than the number of experts 4"},
  };
  for (const Case& each : cases) {
    INFO(each.changes);
    Json config = unknown_decoder();
    config.merge_patch(parse_json<Json>(each.changes));
    EngineArgs args;
    args.tensor_parallel = 8;
    CHECK_THROWS_WITH(plan_vllm({config, "config.json"}, args, nullptr),
                      Catch::Contains(each.says));
    args.tensor_parallel = 4;
    CHECK_NOTHROW(plan_vllm({config, "config.json"}, args, nullptr));
  }
}

TEST_CASE("of two statements of RoPE `rope_scaling` counts, as transformers has it") {
  Json config = unknown_decoder();
  config["architectures"] = {"LlamaForCausalLM"};
  const int64_t plain = plan_vllm({config, "config.json"}, {}, nullptr).buffer_bytes;
  config["rope_parameters"] = {{"rope_type", "default"}};
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2}};
  const int64_t stretched = plan_vllm({config, "config.json"}, {}, nullptr).buffer_bytes;
  CHECK(stretched - plain == 4096 * 64 * 2);  // as many positions more, of 64 numbers in bf16
}

TEST_CASE("architectures that run serves are counted, not estimated") {
  Json config = unknown_decoder();
  config["moe_intermediate_size"] = 64;
  for (const char* name : {"HeliumForCausalLM", "PersimmonForCausalLM", "Dots1ForCausalLM"}) {
    config["architectures"] = {name};
    INFO(name);
    CHECK(is_known_architecture({config, "config.json"}));
    for (const std::string& note : plan_vllm({config, "config.json"}, {}, nullptr).notes) {
      CHECK_THAT(note, !Catch::Contains("Llama-like"));
    }
  }
}

TEST_CASE("classes that differ in nothing but their processors are counted alike") {
  const auto figures = [](Json config, const char* architecture) {
    if (architecture != nullptr) config["architectures"] = {architecture};
    model::complete_config(config, model::ConfigClasses::vllm);
    CHECK(is_known_architecture({config, "config.json"}));
    const PlanResult result = plan_vllm({config, "config.json"}, {}, &hardware::find_gpu("h100"));
    return std::tuple(result.parameter_bytes, result.buffer_bytes, kinds_of(result));
  };
  const std::map<std::string, std::vector<const char*>> alike = {
      {"DeepSeek-OCR", {"UnlimitedOCRForCausalLM"}},
      {"ovis25", {"Ovis2_6ForCausalLM", "Ovis2_6_MoeForCausalLM"}},
      {"InternVL2.5-8B", {"QianfanOCRForConditionalGeneration"}}};
  size_t compared = 0;
  for (const Json& row : rows()) {
    const auto others = alike.find(row["name"].get<std::string>());
    if (others == alike.end() || !row.contains("config")) continue;
    for (const char* other : others->second) {
      INFO(other);
      CHECK(figures(row["config"], other) == figures(row["config"], nullptr));
      ++compared;
    }
  }
  CHECK(compared == 4);
}

TEST_CASE("what classifies stands on every stage of a pipeline, beside a table that is tied") {
  struct Case {
    const char* name;
    std::vector<int64_t> stages;  // bytes of parameters, as vLLM's classes have them
  };
  for (const Case& each :
       {Case{"llama-seqcls", {1486913536, 436248576}}, Case{"qwen3-seqcls", {342630912, 342632960}},
        Case{"qwen2-rm", {4515287044, 2023886852}}}) {
    INFO(each.name);
    EngineArgs args;
    args.pipeline_parallel = static_cast<int64_t>(each.stages.size());
    const auto all = rows();
    const auto row = std::ranges::find_if(
        all, [&](const Json& r) { return r["name"] == each.name && r.contains("config"); });
    REQUIRE(row != all.end());
    Json config = (*row)["config"];
    model::complete_config(config, model::ConfigClasses::vllm);
    const PlanResult plan = plan_vllm({config, each.name}, args, &hardware::find_gpu("h100"));
    REQUIRE(plan.stages.size() == each.stages.size());
    for (size_t i = 0; i < each.stages.size(); ++i) {
      CHECK(plan.stages[i].parameter_bytes == each.stages[i]);
    }
  }
}

TEST_CASE("fused attention is whole on every rank while vLLM runs transformers' class so") {
  const auto config = parse_json<Json>(R"({"architectures": ["GPTBigCodeForCausalLM"],
      "model_type": "gpt_bigcode", "multi_query": true, "n_embd": 6144, "n_head": 48,
      "n_inner": 24576, "n_layer": 40, "n_positions": 8192, "vocab_size": 49152,
      "torch_dtype": "bfloat16"})");
  const auto bytes = [&](VllmVersion version, int64_t ranks) {
    EngineArgs args = at(version);
    args.tensor_parallel = ranks;
    return plan_of(config, args).parameter_bytes;
  };
  constexpr int64_t kHalfTable = int64_t{49152} * 6144;                // bytes
  constexpr int64_t kHalves = int64_t{40} * (6144 * 6144 * 2 + 6144);  // of queries and outputs
  for (const VllmVersion version : {VllmVersion{0, 25, 0}, {0, 26, 0}, {0, 27, 0}})
    CHECK(bytes(version, 2) == bytes(version, 1) - kHalfTable);
  CHECK(bytes({0, 28, 0}, 2) == bytes({0, 28, 0}, 1) - kHalfTable - kHalves);
  CHECK(bytes({0, 24, 0}, 2) < bytes({0, 28, 0}, 2));
}

TEST_CASE("the largest matrix of a rank may be that of its queries, keys and values") {
  const auto config = parse_json<Json>(R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 64,
    "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "head_dim": 64,
    "num_attention_heads": 4, "num_key_value_heads": 1})");
  const Quantization plain;
  RankWeights weights(2, 2, plain);
  ShapeOptions options;
  options.tensor_parallel = 2;
  static_cast<void>(build_shape(ConfigView(config, "llama"), options, weights));
  CHECK(weights.largest_matrix_bytes() == (2 + 1 + 1) * 64 * 64 * 2);
}

TEST_CASE("configs as transformers 5 saves them count as the published ones") {
  CHECK(model::is_language_model("PhimoeForCausalLM"));
  const auto bytes = [](const char* full_layers) {
    auto config = parse_json<Json>(R"({"architectures": ["Gemma4ForCausalLM"], "vocab_size": 64,
      "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 16,
      "num_attention_heads": 4, "num_key_value_heads": 2, "attention_k_eq_v": true,
      "layer_types": ["sliding_attention", "full_attention"]})");
    config.merge_patch(parse_json<Json>(full_layers));
    const Quantization plain;
    RankWeights weights(1, 2, plain);
    static_cast<void>(build_shape(ConfigView(config, "gemma4"), {}, weights));
    return weights.part_bytes(Part::attention);
  };
  CHECK(bytes(R"({"global_head_dim": 32, "num_global_key_value_heads": 1})") ==
        bytes(R"({"per_layer_config": {"1": {"head_dim": 32, "num_key_value_heads": 1}}})"));
}
