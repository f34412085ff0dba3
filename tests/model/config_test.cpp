// Refusals of configs and their messages; defaults; generation_config.json.
#include "model/config.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "model/tiny_config.h"

namespace fs = std::filesystem;
using namespace plimsoll;
using plimsoll::testing::tiny_config;

namespace {

std::string refusal(const Json& config) {
  try {
    model::make_model_spec(config);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::checkpoint_unusable);
    return error.what();
  }
  return "accepted";
}

class Folder {
 public:
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
  }
  const fs::path path =
      fs::temp_directory_path() / ("plimsoll_config_test-" + std::to_string(getpid()));
};

}  // namespace

TEST_CASE("absurd values are refused with key, value and what was expected") {
  struct Row {
    const char* changes;
    const char* said;
  };
  const Row row = GENERATE(values<Row>({
      {R"({"vocab_size": 1099511627776})",
       R"("vocab_size" is 1099511627776; expected a whole number from 1 to)"},
      {R"({"vocab_size": 18446744073709551615})", R"("vocab_size" is 18446744073709551615)"},
      {R"({"vocab_size": -5})", R"("vocab_size" is -5)"},
      {R"({"vocab_size": "big"})", R"("vocab_size" is "big")"},
      {R"({"vocab_size": 100.5})", R"("vocab_size" is 100.5)"},
      {R"({"vocab_size": true})", R"("vocab_size" is true)"},
      {R"({"vocab_size": [1, 2]})", R"("vocab_size" is [1,2])"},
      {R"({"num_hidden_layers": 0})", R"("num_hidden_layers" is 0)"},
      {R"({"num_hidden_layers": 1000000000})", R"("num_hidden_layers" is 1000000000)"},
      {R"({"num_key_value_heads": 0})", R"("num_key_value_heads" is 0)"},
      {R"({"num_key_value_heads": 3})",
       R"("num_key_value_heads" is 3; expected a divisor of num_attention_heads (4))"},
      {R"({"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": null})",
       R"("num_attention_heads" is 3; expected a divisor of hidden_size (16))"},
      {R"({"head_dim": 5})", "of an even size"},
      {R"({"hidden_size": 4611686018427387904})", R"("hidden_size" is 4611686018427387904)"},
      {R"({"rms_norm_eps": 0})", R"("rms_norm_eps" is 0; expected a finite number above 0)"},
      {R"({"rope_theta": "NaN"})", R"("rope_theta" is "NaN"; expected a finite number above 0)"},
      {R"({"rope_theta": -1})", R"("rope_theta" is -1)"},
      {R"({"hidden_act": "mish"})", R"("hidden_act" is "mish"; expected one of silu)"},
      {R"({"tie_word_embeddings": "yes"})",
       R"("tie_word_embeddings" is "yes"; expected true or false)"},
      {R"({"torch_dtype": "int8"})", R"("torch_dtype" is "int8"; expected bfloat16)"},
      {R"({"rope_scaling": {"type": "cubic"}})",
       R"("rope_scaling.type" is "cubic"; expected default, linear)"},
      {R"({"rope_scaling": {"type": "linear"}})", R"("rope_scaling.factor" is missing)"},
      {R"({"rope_scaling": {"type": "linear", "factor": 1e300}})",
       R"("rope_scaling.factor" is 1e+300)"},
      {R"({"rope_scaling": "linear"})", R"("rope_scaling" is "linear"; expected an object)"},
      {R"({"partial_rotary_factor": 2})", R"("partial_rotary_factor" is 2)"},
      {R"({"kv_lora_rank": 512})", R"("kv_lora_rank" is 512)"},
      {R"({"architectures": ["RwkvForCausalLM"]})",
       "architecture RwkvForCausalLM is not supported; none of the "},
      {R"({"architectures": ["OlmoNextForCausalLM"]})",
       "OlmoNextForCausalLM is not supported; its kin that are: Olmo2ForCausalLM, "
       "Olmo3ForCausalLM"},
      {R"({"architectures": "LlamaForCausalLM"})",
       R"("architectures" is "LlamaForCausalLM"; expected a list)"},
      {R"({"architectures": [], "model_type": "rwkv"})", "LlamaForCausalLM"},
      {R"({"hidden_size": 1048576, "intermediate_size": 1048576, "num_hidden_layers": 4096, "head_dim": 16384, "num_attention_heads": 65536, "num_key_value_heads": 65536})",
       "parameters; expected at most"},
  }));
  INFO(row.changes);
  CHECK_THAT(refusal(tiny_config("LlamaForCausalLM", Json::parse(row.changes))),
             Catch::Contains(row.said));
}

TEST_CASE("a window that nothing is in is refused by its key") {
  for (const char* architecture :
       {"Exaone4ForCausalLM", "ExaoneMoeForCausalLM", "GraniteMoeSWAForCausalLM",
        "GraniteSWAForCausalLM", "LagunaForCausalLM", "MellumForCausalLM"}) {
    INFO(architecture);
    const Json config = {{"architectures", {architecture}}, {"sliding_window", 0}};
    CHECK_THAT(refusal(config),
               Catch::Contains(R"("sliding_window" is 0; expected a whole number from 1)"));
  }
}

TEST_CASE("experts are refused before a table in proportion to them is made") {
  const auto moe = [](const char* changes) {
    return refusal(tiny_config("Qwen3MoeForCausalLM", Json::parse(changes)));
  };
  CHECK_THAT(moe(R"({"num_experts": 1000000000})"), Catch::Contains("num_experts"));
  CHECK_THAT(moe(R"({"num_experts": 4096, "num_hidden_layers": 4096})"),
             Catch::Contains("experts in all layers"));
  CHECK_THAT(moe(R"({"num_experts": 4, "num_experts_per_tok": 5})"),
             Catch::Contains("from 1 to 4"));
  CHECK_THAT(moe(R"({"mlp_only_layers": [-1]})"), Catch::Contains("mlp_only_layers"));
  CHECK(moe(R"({"num_experts": 4, "num_experts_per_tok": 2, "mlp_only_layers": [7]})") ==
        "accepted");
}

TEST_CASE("a config that is no object, or not a model, is refused") {
  CHECK_THAT(refusal(Json::array()), Catch::Contains("expected an object"));
  CHECK_THAT(refusal(Json::object()), Catch::Contains("\"architectures\" is missing"));
  const Json multimodal = {{"architectures", {"PaliGemmaForConditionalGeneration"}},
                           {"text_config", tiny_config("Gemma2ForCausalLM")}};
  CHECK_THAT(refusal(multimodal),
             Catch::Contains("PaliGemmaForConditionalGeneration is not supported"));
}

TEST_CASE("missing keys take the defaults of the family's config class") {
  const auto spec = [](const char* architecture) {
    return model::make_model_spec({{"architectures", {architecture}}});
  };
  const auto llama = spec("LlamaForCausalLM");
  CHECK(llama.layers.size() == 32);
  CHECK(llama.layers[0].attention.kv_heads == 32);
  CHECK(llama.max_position == 2048);
  CHECK_FALSE(llama.dtype_stated);
  CHECK(spec("MistralForCausalLM").layers[0].attention.window == 4096);
  CHECK(spec("MixtralForCausalLM").layers[0].attention.window == 0);
  CHECK(spec("MixtralForCausalLM").layers[0].mlp.experts == 8);
  CHECK(spec("Qwen3ForCausalLM").layers[0].attention.head_dim == 128);
  CHECK(spec("Qwen3MoeForCausalLM").layers[0].mlp.router.normalize == false);
  const auto gemma2 = spec("Gemma2ForCausalLM");
  CHECK(gemma2.head == gemma2.embedding);
  CHECK(gemma2.final_soft_cap == 30);
  CHECK(gemma2.layers[0].attention.soft_cap == 50);
  CHECK(gemma2.layers[0].attention.window == 4096);
  CHECK(gemma2.layers[1].attention.window == 0);
  const auto gpt2 = spec("GPT2LMHeadModel");
  CHECK(gpt2.layers[0].mlp.intermediate == 3072);
  CHECK(gpt2.head == gpt2.embedding);
  CHECK(spec("OPTForCausalLM").position_offset == 2);
  CHECK(spec("InternLM2ForCausalLM").layers[0].attention.qkv.bias != model::kNoWeight);
}

TEST_CASE("positions and experts of configs without keys are those of the classes") {
  const auto spec = [](const char* architecture, const char* changes = "{}") {
    return model::make_model_spec(tiny_config(architecture, Json::parse(changes)));
  };
  // The second speed of RoPE with base 10000; Persimmon rotates half of a head.
  const auto second_speed = [&](const char* architecture) {
    return spec(architecture, R"({"head_dim": 8})").ropes[0].table.inverse_frequencies[1];
  };
  CHECK(second_speed("Jais2ForCausalLM") == Approx(0.1));
  CHECK(second_speed("PersimmonForCausalLM") == Approx(0.01));
  const char* mixture = R"({"num_local_experts": 4, "num_experts_per_tok": 2, "rotary_dim": 2})";
  CHECK(spec("MiniMaxM2ForCausalLM", mixture).ropes[0].rotary_dim == 2);
  const auto ministral = spec("Ministral3ForCausalLM");
  CHECK(ministral.layers[0].attention.query_growth.beta == Approx(0.1));
  CHECK(spec("GlmForCausalLM").layers[0].attention.qkv.bias != model::kNoWeight);
  CHECK(spec("HyperCLOVAXForCausalLM").layers[0].placement == model::NormPlacement::sandwich);
}

TEST_CASE("latents of configs without keys are those of the classes") {
  struct Row {
    const char* architecture;
    int64_t q_rank, kv_rank, head_dim, value_dim;
  };
  const Row row = GENERATE(values<Row>({
      {"DeepseekV2ForCausalLM", 1536, 512, 192, 128},
      {"DeepseekV3ForCausalLM", 1536, 512, 192, 128},
      {"DeepseekV32ForCausalLM", 1536, 512, 192, 128},
      {"GlmMoeDsaForCausalLM", 2048, 512, 256, 256},
      {"Glm4MoeLiteForCausalLM", 768, 512, 256, 256},
      {"MiniCPM3ForCausalLM", 768, 256, 96, 4},  // hidden_size over heads
  }));
  INFO(row.architecture);
  const auto spec = model::make_model_spec(tiny_config(row.architecture, {{"head_dim", nullptr}}));
  const model::AttentionSpec& attention = spec.layers[0].attention;
  CHECK(attention.latent.q_rank == row.q_rank);
  CHECK(attention.latent.kv_rank == row.kv_rank);
  CHECK(attention.head_dim == row.head_dim);
  CHECK(attention.value_dim == row.value_dim);
}

TEST_CASE("MiniCPM 3's factors are the class's where the config lacks them, null is none") {
  Json config = tiny_config("MiniCPM3ForCausalLM", {{"num_hidden_layers", 4}});
  const auto missing = model::make_model_spec(config);
  CHECK(missing.embedding_scale == 12);
  CHECK(missing.layers[0].branch_factor == Approx(0.7));
  CHECK(missing.logits_scale == 16);  // 256 over hidden_size
  config["scale_depth"] = config["dim_model_base"] = nullptr;
  const auto none = model::make_model_spec(config);
  CHECK(none.layers[0].branch_factor == 1);
  CHECK(none.logits_scale == 1);
}

TEST_CASE("experts of configs without keys are those of the classes") {
  const auto last = [](const char* architecture, const char* changes) {
    Json config = tiny_config(architecture, {{"num_hidden_layers", 4}});
    config.update(Json::parse(changes));
    return model::make_model_spec(config).layers.back().mlp;
  };
  const auto v3 = last("DeepseekV3ForCausalLM", "{}");
  CHECK(v3.router.groups == 8);
  CHECK(v3.router.groups_chosen == 4);
  CHECK(v3.shared.intermediate == 2048);
  CHECK(last("DeepseekV3ForCausalLM", R"({"n_group": 2, "topk_group": 2})").router.groups_chosen ==
        2);
  CHECK(last("DeepseekV3ForCausalLM", R"({"n_shared_experts": null})").shared.intermediate == 0);
  CHECK(last("DeepseekV2ForCausalLM", "{}").shared.intermediate == 2 * 1407);
  CHECK(last("DeepseekV32ForCausalLM",
             R"({"mlp_layer_types": ["sparse", "sparse", "sparse", "dense"]})")
            .experts == 0);
  CHECK(last("GlmMoeDsaForCausalLM", "{}").router.groups == 1);
  CHECK(last("Glm4MoeForCausalLM", R"({"n_group": 4})").router.groups_chosen == 1);
  CHECK(last("AfmoeForCausalLM", "{}").shared.intermediate == 2 * 1408);
  CHECK(last("FlexOlmoForCausalLM", "{}").experts == 7);
  CHECK(last("LagunaForCausalLM", "{}").shared.intermediate == 512);
}

TEST_CASE("kinds of layers of configs without keys are those of the classes") {
  const auto spec = [](const char* architecture, const char* changes = "{}") {
    Json config = tiny_config(architecture, {{"num_hidden_layers", 2}});
    config.update(Json::parse(changes));
    return model::make_model_spec(config);
  };
  const auto minimax = spec("MiniMaxForCausalLM");
  CHECK(minimax.layers[0].has_attention());
  CHECK_FALSE(minimax.layers[1].has_attention());
  CHECK(spec("LagunaForCausalLM").layers[0].mlp.experts == 0);
  CHECK(spec("LagunaForCausalLM").layers[1].mlp.experts == 256);
  const auto granite = spec("GraniteSWAForCausalLM");
  CHECK(granite.head == granite.embedding);
  // Gemma 4's last layer sees all, whatever the config says.
  const char* slide = R"({"layer_types": ["sliding_attention", "sliding_attention"],
                          "hidden_size_per_layer_input": 0})";
  CHECK(spec("Gemma4ForCausalLM", slide).layers[0].attention.window == 512);
  CHECK(spec("Gemma4ForCausalLM", slide).layers[1].attention.window == 0);
}

TEST_CASE("latents whose values are wider than their heads are refused, YaRN's share may be 0") {
  const Json latents = {{"qk_rope_head_dim", 4},
                        {"qk_nope_head_dim", 8},
                        {"kv_lora_rank", 8},
                        {"q_lora_rank", nullptr},
                        {"moe_intermediate_size", 8}};
  CHECK_THAT(refusal(tiny_config("DeepseekV3ForCausalLM", latents)), Catch::Contains("v_head_dim"));
  Json scaled = tiny_config("DeepseekV3ForCausalLM", latents);
  scaled["v_head_dim"] = 8;
  scaled["n_routed_experts"] = 4;
  scaled["num_experts_per_tok"] = 2;
  scaled["n_group"] = scaled["topk_group"] = 1;
  scaled["rope_scaling"] = {{"type", "yarn"},
                            {"factor", 4},
                            {"mscale_all_dim", 0},
                            {"original_max_position_embeddings", 32}};
  CHECK(model::make_model_spec(scaled).layers[0].attention.scale == Approx(1 / std::sqrt(12.0)));
}

TEST_CASE("null differs from missing where the config class says so") {
  const auto window = [](const char* changes) {
    const Json config = tiny_config("MistralForCausalLM", Json::parse(changes));
    return model::make_model_spec(config).layers[0].attention.window;
  };
  CHECK(window("{}") == 4096);
  CHECK(window(R"({"sliding_window": 7})") == 7);
  Json null_window = tiny_config("MistralForCausalLM");
  null_window["sliding_window"] = nullptr;
  CHECK(model::make_model_spec(null_window).layers[0].attention.window == 0);
  Json no_caps = tiny_config("Gemma2ForCausalLM");
  no_caps["attn_logit_softcapping"] = nullptr;
  no_caps["final_logit_softcapping"] = nullptr;
  CHECK(model::make_model_spec(no_caps).layers[0].attention.soft_cap == 0);
  CHECK(model::make_model_spec(no_caps).final_soft_cap == 0);
}

TEST_CASE("sizes are found in text_config, dtype and tying around it") {
  Json inner = tiny_config("LlamaForCausalLM", {{"torch_dtype", nullptr}});
  const Json config = {{"architectures", {"LlamaForCausalLM"}},
                       {"dtype", "float16"},
                       {"tie_word_embeddings", true},
                       {"text_config", inner}};
  const auto spec = model::make_model_spec(config);
  CHECK(spec.hidden_size == 16);
  CHECK(spec.dtype == DType::f16);
  CHECK(spec.head == spec.embedding);
}

TEST_CASE("quantization is named, not refused: plan sizes such models too") {
  const auto method = [](const char* quantization) {
    return model::make_model_spec(tiny_config("LlamaForCausalLM",
                                              {{"quantization_config", Json::parse(quantization)}}))
        .quantization;
  };
  CHECK(method(R"({"quant_method": "gptq", "bits": 4})") == "gptq");
  CHECK(method(R"({"group_size": 64})") == "of an unnamed method");
  CHECK(model::make_model_spec(tiny_config("LlamaForCausalLM")).quantization.empty());
}

TEST_CASE("config.json is read from a folder or as a file, Python's NaN included") {
  const Folder folder;
  CHECK_THROWS_WITH(model::read_config(folder.path), Catch::Contains("has no config.json"));
  std::filesystem::create_directory(folder.path / "snapshots");
  CHECK_THROWS_WITH(model::read_config(folder.path), Catch::Contains("give its id"));
  folder.write("config.json", R"({"a": [NaN, -Infinity, "NaN \" Infinity"]})");
  const Json expected = {{"a", {"NaN", "-Infinity", "NaN \" Infinity"}}};
  CHECK(model::read_config(folder.path) == expected);
  CHECK(model::read_config(folder.path / "config.json") == expected);
  folder.write("config.json", "{\n \"a\": oops}");
  CHECK_THROWS_WITH(model::read_config(folder.path), Catch::Contains("line 2, column"));
  folder.write("config.json", std::string(100000, '['));
  CHECK_THROWS_WITH(model::read_config(folder.path), Catch::Contains("nested deeper"));
}

TEST_CASE("generation_config gives sampling defaults and end tokens") {
  const Folder folder;
  const Json config = {{"eos_token_id", 7}};
  CHECK(model::read_generation_config(folder.path, config).eos_token_ids ==
        std::vector<int32_t>{7});
  CHECK(model::read_generation_config(folder.path, {{"text_config", config}}).eos_token_ids ==
        std::vector<int32_t>{7});
  folder.write("generation_config.json",
               R"({"eos_token_id": [1, 2], "temperature": 0.6, "top_k": 20, "top_p": null})");
  const auto read = model::read_generation_config(folder.path, config);
  CHECK(read.eos_token_ids == std::vector<int32_t>{1, 2});
  CHECK(read.temperature == 0.6);
  CHECK(read.top_k == 20);
  CHECK_FALSE(read.top_p.has_value());
  CHECK_FALSE(read.max_new_tokens.has_value());
  folder.write(
      "generation_config.json",
      R"({"temperature":0.5,"top_p":0.25,"min_p":0.125,"repetition_penalty":1.5,"top_k":3,)"
      R"("max_new_tokens":9})");
  const auto all = model::read_generation_config(folder.path, config);
  CHECK(all.temperature == 0.5);
  CHECK(all.top_p == 0.25);
  CHECK(all.min_p == 0.125);
  CHECK(all.repetition_penalty == 1.5);
  CHECK(all.top_k == 3);
  CHECK(all.max_new_tokens == 9);
  // A generation config that names none leaves config.json's in force.
  for (const char* silent : {R"({"temperature": 0.6})", R"({"eos_token_id": null})", "{}"}) {
    folder.write("generation_config.json", silent);
    CHECK(model::read_generation_config(folder.path, config).eos_token_ids ==
          std::vector<int32_t>{7});
  }
  for (const char* bad : {R"({"eos_token_id": "x"})", R"({"eos_token_id": [1.5]})",
                          R"({"temperature": "hot"})", R"({"top_k": 1.5})", "[]"}) {
    INFO(bad);
    folder.write("generation_config.json", bad);
    CHECK_THROWS_AS(model::read_generation_config(folder.path, config), Error);
  }
}

TEST_CASE("a file beside the config states the quantization where the config does not") {
  const auto [name, text, method] = GENERATE(table<const char*, const char*, const char*>(
      {{"quantize_config.json", R"({"bits": 4, "group_size": 128, "desc_act": false})", "gptq"},
       {"quantize_config.json", R"({"quant_method": "awq", "bits": 4})", "awq"},
       {"quant_config.json", R"({"w_bit": 4, "q_group_size": 128, "zero_point": true})", "awq"},
       {"hf_quant_config.json", R"({"quantization": {"quant_algo": "FP8"}})", "modelopt"}}));
  INFO(name);
  const Folder folder;
  folder.write("config.json", R"({"model_type": "llama"})");
  folder.write(name, text);
  CHECK(model::read_config(folder.path)["quantization_config"]["quant_method"] == method);
  folder.write("config.json", R"({"quantization_config": {"quant_method": "fp8"}})");
  CHECK(model::read_config(folder.path)["quantization_config"]["quant_method"] == "fp8");
}
