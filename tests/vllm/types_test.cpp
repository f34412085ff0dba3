// The types of numbers that a launch computes and caches in, by their names, releases and cards.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/json.h"
#include "vllm/launch/dtype.h"
#include "vllm/launch/quantization.h"

using namespace plimsoll;
using namespace plimsoll::vllm;

namespace {

Json typed_config(const char* architecture, const char* type) {
  return {{"architectures", {architecture}}, {"model_type", type}, {"hidden_size", 1024}};
}

std::string resolved_dtype(const Json& config, const char* asked, const char* card,
                           VllmVersion version = {0, 33, 0}) {
  EngineArgs args;
  args.version = version;
  args.dtype = asked;
  return resolve_dtype({config, "config.json"}, args, &hardware::find_gpu(card));
}

std::string resolved_cache(const Json& config, const char* asked, VllmVersion version,
                           const char* card = "h100") {
  EngineArgs args;
  args.version = version;
  args.kv_cache_dtype = asked;
  return resolve_cache_dtype({config, "config.json"}, args, &hardware::find_gpu(card));
}

/// The method of a checkpoint's config beside --quantization; the refusal in its place.
std::string resolved_method(const Json& settings, const char* asked,
                            VllmVersion version = {0, 33, 0}, bool deprecated = false,
                            const char* architecture = "LlamaForCausalLM") {
  Json config = typed_config(architecture, "llama");
  if (!settings.is_null()) config["quantization_config"] = settings;
  EngineArgs args;
  args.version = version;
  args.quantization = asked;
  args.deprecated_quantization = deprecated;
  try {
    return quantization_of({config, "config.json"}, args).method();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return error.what();
  }
}

}  // namespace

TEST_CASE("a type goes by each of its names, on the command line and in a config") {
  const std::pair<const char*, const char*> names[] = {
      {"float16", "float16"},         {"half", "float16"},          {"fp16", "float16"},
      {"torch.float16", "float16"},   {"bfloat16", "bfloat16"},     {"bf16", "bfloat16"},
      {"torch.bfloat16", "bfloat16"}, {"torch.float32", "float32"}, {"float32", "float32"},
      {"float", "float32"},           {"fp32", "float32"}};
  for (const auto& [name, type] : names) {
    INFO(name);
    Json config = typed_config("LlamaForCausalLM", "llama");
    CHECK(resolved_dtype(config, name, "h100") == type);
    if (std::string_view(type) == "float32") continue;  // of a checkpoint: read in 16 bits
    config["torch_dtype"] = name;
    CHECK(resolved_dtype(config, "auto", "h100") == type);
  }
  for (const char* other : {"int8", "float64", "torch.", "bfloat"}) {
    INFO(other);
    CHECK_THROWS_WITH(resolved_dtype(typed_config("LlamaForCausalLM", "llama"), other, "h100"),
                      Catch::Contains("expected auto, bfloat16, float16 or float32"));
  }
}

TEST_CASE("in place of float16 the type is named that the card computes in") {
  const Json gemma = typed_config("Gemma2ForCausalLM", "gemma2");
  CHECK_THROWS_WITH(resolved_dtype(gemma, "float16", "h100"),
                    Catch::EndsWith("Use --dtype bfloat16."));
  CHECK_THROWS_WITH(resolved_dtype(gemma, "float16", "t4"),
                    Catch::EndsWith("Use --dtype float32."));
  CHECK(resolved_dtype(gemma, "float32", "t4") == "float32");
  CHECK_THROWS_WITH(resolved_dtype(gemma, "bfloat16", "t4"), Catch::Contains("--dtype=half"));
}

TEST_CASE("attention with a pooled index reads a cache of 8 bits from 0.31 on, of one kind") {
  Json config = typed_config("Qwen4ExpForCausalLM", "qwen4_exp");
  CHECK(resolved_cache(config, "fp8", {0, 30, 1}) == "fp8");  // no such index in this model
  config["indexer_n_heads"] = 8;
  for (const VllmVersion version : {VllmVersion{0, 30, 0}, {0, 30, 9}})
    CHECK_THROWS_WITH(resolved_cache(config, "fp8", version),
                      Catch::Contains("requires a BF16 main KV cache"));
  for (const VllmVersion version : {VllmVersion{0, 31, 0}, {0, 33, 0}}) {
    CHECK(resolved_cache(config, "fp8", version) == "fp8");
    CHECK(resolved_cache(config, "fp8_e4m3", version) == "fp8_e4m3");
    CHECK_THROWS_WITH(resolved_cache(config, "fp8_e5m2", version),
                      Catch::Contains("requires a BF16 or FP8-e4m3 main KV cache"));
  }
  CHECK(resolved_cache(config, "auto", {0, 33, 0}) == "auto");
}

TEST_CASE("--quantization may name the checkpoint's own method in another way") {
  const Json awq = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}};
  const Json gptq = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}};
  const Json fp8 = {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}};
  const Json rounded = {{"quant_method", "auto-round"}, {"bits", 4}, {"group_size", 128}};
  CHECK(resolved_method(awq, "humming") == "awq");
  CHECK(resolved_method(awq, "awq_marlin") == "awq");
  CHECK(resolved_method(gptq, "auto_gptq") == "gptq");
  CHECK(resolved_method(fp8, "deepseek_v4_fp8") == "fp8");
  CHECK(resolved_method(rounded, "inc") == "auto-round");
  CHECK(resolved_method({{"quant_method", "mxfp4"}}, "gpt_oss_mxfp4") == "mxfp4");
  for (const auto& [own, asked] : {std::pair{awq, "gptq"},
                                   {awq, "inc"},
                                   {awq, "fp8"},
                                   {fp8, "awq"},
                                   {gptq, "deepseek_v4_fp8"},
                                   {gptq, "gpt_oss_mxfp4"}}) {
    INFO(own << " " << asked);
    CHECK_THAT(resolved_method(own, asked),
               Catch::Contains("does not match the quantization method") &&
                   Catch::Contains(std::string("(") + asked + ")"));
  }
  // These go before what the argument says.
  CHECK(resolved_method(rounded, "gptq") == "auto-round");
  CHECK(resolved_method({{"quant_method", "intel/auto-round"}, {"bits", 4}, {"group_size", 128}},
                        "awq") == "intel/auto-round");
  CHECK(resolved_method({{"quant_method", "gpt_oss_mxfp4"}}, "fp8") == "gpt_oss_mxfp4");
}

TEST_CASE("a deprecated method is refused from 0.32 on, where no flag allows it") {
  const Json fbgemm = {{"quant_method", "fbgemm_fp8"}, {"activation_scale_ub", 1200.0}};
  CHECK(resolved_method(fbgemm, "", {0, 31, 0}) == "fbgemm_fp8");
  CHECK(resolved_method(fbgemm, "", {0, 31, 9}) == "fbgemm_fp8");
  CHECK_THAT(resolved_method(fbgemm, "", {0, 32, 0}),
             Catch::Contains("fbgemm_fp8 is deprecated") &&
                 Catch::Contains("--allow-deprecated-quantization"));
  CHECK(resolved_method(fbgemm, "", {0, 32, 0}, true) == "fbgemm_fp8");
  CHECK(resolved_method({{"quant_method", "fp8"}}, "", {0, 33, 0}) == "fp8");
  CHECK(resolved_method({{"quant_method", "fp8"}}, "", {0, 33, 0}, false, "Wombat") == "fp8");
}

TEST_CASE("a model whose name says how it is quantized is planned whole, with the flag for it") {
  struct Row {
    const char* word;
    const char* flag;
  };
  for (const Row& row :
       {Row{"NVFP4", "modelopt_fp4"}, Row{"FP8", "modelopt, or fp8 for weights"}, Row{"AWQ", "awq"},
        Row{"W4A16", "awq"}, Row{"GPTQ", "gptq"}, Row{"MXFP4", "METHOD"}, Row{"W8A8", "METHOD"}}) {
    INFO(row.word);
    const Json config = typed_config("LlamaForCausalLM", "llama");
    const std::string path = std::string("models/llama-") + row.word + "-it/config.json";
    EngineArgs args;
    const std::string note = quantization_note({config, path}, args, {});
    CHECK_THAT(note, Catch::StartsWith(std::string(row.word) + " is said of this model"));
    CHECK_THAT(note, Catch::Contains(std::string("say --quantization ") + row.flag));
    args.as_awq = true;
    CHECK(quantization_note({config, path}, args, {}).empty());
  }
  Json config = typed_config("LlamaForCausalLM", "llama");
  CHECK(quantization_note({config, "config.json"}, {}, {}).empty());
  config["quantization"] = {{"quant_algo", "W4A8"}};
  CHECK_THAT(quantization_note({config, "config.json"}, {}, {}), Catch::StartsWith("W4A8 is said"));
  config["producer"] = {{"name", "modelopt"}};
  CHECK_THAT(quantization_note({config, "config.json"}, {}, {}),
             Catch::StartsWith("ModelOpt is said"));
  config["_name_or_path"] = "some/Model-gptq-Int4";
  CHECK_THAT(quantization_note({config, "config.json"}, {}, {}), Catch::StartsWith("GPTQ is said"));
}
