// A config.json as engines in Python read it, key by key, and layers of transformers' classes.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engines/engine.h"
#include "engines/fields.h"
#include "engines/model_config.h"
#include "engines/transformers/launch.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

ModelConfig config_with(const Json& changes, const char* architecture = "LlamaForCausalLM") {
  Json config = {{"architectures", {architecture}},
                 {"num_hidden_layers", 4},
                 {"hidden_size", 512},
                 {"num_attention_heads", 8},
                 {"vocab_size", 1000},
                 {"max_position_embeddings", 4096}};
  config.merge_patch(changes);
  return {config, "config.json"};
}

}  // namespace

TEST_CASE("heads and widths of a config are stated, or made of others") {
  const ModelConfig plain = config_with(Json::object());
  CHECK(plain.layers() == 4);
  CHECK(plain.head_dim() == 64);
  CHECK(plain.kv_heads() == 8);
  CHECK(plain.index_width() == 128);
  CHECK(!plain.indexing_layers());
  CHECK(plain.dtype() == "");
  CHECK(plain.layer_types().empty());
  CHECK(config_with({{"head_dim", 96}}).head_dim() == 96);
  CHECK(config_with({{"head_dim", 0}}).head_dim() == 64);
  CHECK(config_with({{"num_key_value_heads", 2}}).kv_heads() == 2);
  CHECK(config_with({{"n_head_kv", 4}, {"num_key_value_heads", 2}}).kv_heads() == 4);
  CHECK(config_with({{"kv_lora_rank", 512}, {"qk_rope_head_dim", 64}}).latent_width() == 576);
  CHECK(config_with({{"kv_lora_rank", 512}}).latent_width() == 512);
  for (const char* type : {"falcon", "RefinedWebModel"}) {
    INFO(type);
    const Json falcon = {{"model_type", type}, {"num_kv_heads", 4}};
    const auto heads = [&](bool several, bool newer) {
      Json config = falcon;
      config["multi_query"] = several;
      config["new_decoder_architecture"] = newer;
      return config_with(config).kv_heads();
    };
    CHECK(heads(true, false) == 1);
    CHECK(heads(true, true) == 4);
    CHECK(heads(false, false) == 4);
  }
  CHECK(config_with({{"multi_query", true}, {"num_kv_heads", 4}}).kv_heads() == 4);
  const Json types = {"full", "shared", "full", "full", "full", "full"};
  CHECK(config_with({{"indexer_types", types}}).indexing_layers() == 4);  // of four layers
  CHECK(config_with({{"indexer_types", {"full", "shared", "shared", "full"}}}).indexing_layers() ==
        2);
  const Json ratios = {4, 128, 4, 0, 4, 4};
  CHECK(config_with({{"compress_ratios", ratios}}).compressed_layers(4) == 2);
  CHECK(config_with({{"compress_ratios", ratios}}).compressed_layers(128) == 1);
}

TEST_CASE("the type of a config's weights has one name") {
  const auto dtype = [](const Json& changes) { return config_with(changes).dtype(); };
  CHECK(dtype({{"torch_dtype", "bfloat16"}}) == "bfloat16");
  CHECK(dtype({{"dtype", "torch.float16"}}) == "float16");
  CHECK(dtype({{"dtype", "half"}}) == "float16");
  CHECK(dtype({{"dtype", "float"}}) == "float32");
  CHECK(dtype({{"dtype", "float16"}, {"torch_dtype", "bfloat16"}}) == "float16");
  CHECK(element_bytes("float32") == 4);
  CHECK(element_bytes("float8_e5m2") == 1);
  CHECK(element_bytes("fp8") == 1);
  CHECK(element_bytes("bfloat16") == 2);
}

TEST_CASE("a cache in FP8 is what ModelOpt or a scheme of eight bits says") {
  const auto fp8 = [](const Json& quantization) {
    return config_with({{"quantization_config", quantization}}).stores_fp8_cache();
  };
  CHECK(fp8({{"kv_cache_quant_algo", "FP8"}}));
  CHECK(fp8({{"quantization", {{"kv_cache_quant_algo", "FP8"}}}}));
  CHECK(!fp8({{"kv_cache_quant_algo", "INT8"}}));
  CHECK(!fp8({{"quant_method", "fp8"}}));
  CHECK(fp8({{"kv_cache_scheme", {{"type", "float"}, {"num_bits", 8}}}}));
  CHECK(!fp8({{"kv_cache_scheme", {{"type", "float"}, {"num_bits", 4}}}}));
  CHECK(!fp8({{"kv_cache_scheme", {{"type", "int"}, {"num_bits", 8}}}}));
}

TEST_CASE("layers of transformers' classes alternate as their classes have it") {
  const auto layers = [](Json changes, const char* architecture = "LlamaForCausalLM") {
    std::string text;
    for (const std::string& type : transformers::layer_types_of(config_with(changes, architecture)))
      text += type[0];
    return text;
  };
  const auto typed = [&](const char* type, Json changes = Json::object()) {
    changes["model_type"] = type;
    changes["num_hidden_layers"] = 7;
    return layers(changes);
  };
  CHECK(typed("gemma2") == "sfsfsfs");
  CHECK(typed("gemma3_text") == "sssssfs");
  CHECK(typed("gpt_oss") == "sfsfsfs");
  CHECK(typed("cohere2") == "sssfsss");
  CHECK(typed("gemma2", {{"sliding_window_pattern", 3}}) == "ssfssfs");
  CHECK(layers(Json::object()) == "ffff");
  CHECK(layers({{"sliding_window", 64}}) == "ssss");
  CHECK(layers({{"sliding_window", 64}, {"use_sliding_window", false}}) == "ffff");
  CHECK(layers({{"sliding_window", 0}}) == "ffff");
  for (const char* type : {"qwen2", "qwen3"}) {
    INFO(type);
    const Json qwen = {{"sliding_window", 64}, {"use_sliding_window", true}};
    Json some = qwen;
    some["max_window_layers"] = 5;
    CHECK(typed(type, some) == "fffffss");
    CHECK(typed(type, qwen) == "fffffff");  // from layer 28 on
  }
  CHECK(layers(Json::object(), "Llama4ForCausalLM") == "cccc");
  CHECK(layers(Json::object(), "Qwen3NextForCausalLM") == "llll");
  CHECK(layers(Json::object(), "Qwen3_5ForCausalLM") == "llll");
  CHECK(layers({{"layer_types", {"full_attention", "sliding_attention"}}}) == "fs");
}

TEST_CASE("fields of a paged cache have transformers' defaults, which depend on each other") {
  struct Row {
    Json fields, changes;
    const char* key;
    Json value;
  };
  const Json none = Json::object(), windows = {{"sliding_window", 64}};
  const auto both = [](bool on) { return Json::array({on, on}); };
  const Row rows[] = {
      {none, none, "page_size", 256},
      {none, none, "max_memory_percent", 0.9},
      {{{"processors", true}}, none, "max_memory_percent", 0.8},
      {{{"processors", true}, {"max_memory_percent", 0.5}}, none, "max_memory_percent", 0.5},
      {none, none, "max_requests_per_batch", 1024},
      {none, none, "max_blocks_per_request", 32},
      {none, windows, "max_blocks_per_request", 0},
      {{{"attn", "sdpa"}}, none, "max_blocks_per_request", 0},
      {{{"attn", "sdpa"}, {"max_blocks_per_request", 4}}, none, "max_blocks_per_request", 4},
      {{{"attn", "flash_attention_3"}}, none, "max_blocks_per_request", 32},
      {none, none, "use_cuda_graph", both(true)},
      {{{"attn", "sdpa"}}, none, "use_cuda_graph", both(false)},
      {none, none, "use_async_batching", true},
      {{{"use_cuda_graph", false}}, none, "use_async_batching", false},
      {{{"attn", "sdpa"}, {"use_cuda_graph", true}}, none, "use_async_batching", false},
      {none, none, "return_logprobs", false},
      {none, none, "num_blocks", nullptr},
      {{{"num_blocks", 0}}, none, "num_blocks", 0},
      {none, none, "max_batch_tokens", nullptr},
      {{{"hints", {{"max_prompt_length", 256}}}}, windows, "max_blocks_per_request", 0},
      {{{"hints", {{"num_requests", 5000}}}}, none, "max_requests_per_batch", 1024},
  };
  for (const Row& row : rows) {
    INFO(row.fields.dump() << " " << row.changes.dump() << " " << row.key);
    const OrderedJson resolved = transformers::resolved_json(
        transformers::resolve(config_with(row.changes), Fields(row.fields)));
    CHECK(Json(resolved[row.key]) == row.value);
  }
  const auto launch = [](const Json& fields, const Json& changes = Json::object()) {
    return transformers::resolve(config_with(changes), Fields(fields));
  };
  CHECK(launch(Json::object()).dtype == "bfloat16");
  CHECK(launch({{"dtype", "auto"}}, {{"torch_dtype", "float32"}}).element == 4);
  CHECK(launch({{"dtype", "float16"}}, {{"torch_dtype", "float32"}}).element == 2);
  CHECK(launch({{"tp", 2}}).heads == 4);
  CHECK(launch({{"tp", 16}}).heads == 1);
  CHECK(launch({{"tp", 2}}, {{"num_key_value_heads", 4}}).kv_heads == 2);
  CHECK(launch({{"tp", 8}}, {{"num_key_value_heads", 4}}).kv_heads == 1);
  CHECK(launch(Json::object()).length == 4096);
  CHECK(launch({{"max_length", 5}}).length == 5);
  CHECK(launch(Json::object(), {{"max_position_embeddings", nullptr}}).length == 2048);
}
