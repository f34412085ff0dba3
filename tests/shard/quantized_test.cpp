// Shards of quantized checkpoints, in the layout that vLLM's loader fills.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "batch/scratch.h"
#include "like_cases.h"
#include "shard/model_folder.h"
#include "shard/unshard.h"
#include "shard/verify.h"
#include "shard/writer.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

// Recipes of tiny checkpoints, and what vLLM 0.32.0's classes loaded from them (see its README).
Json quantized_models() {
  return read_fixture("quantized_shards.json");
}

void make_quantized_model(const Scratch& scratch, const Json& model) {
  write_model(scratch, model.at("config"), model.at("recipe"));
}

using Tensors = std::map<std::string, std::string>;  // dtype and bytes by name

std::string as_dtype(const std::string& value, DType from, DType to) {
  const std::string bytes = value.substr(safetensors_name(from).size());
  const size_t count = bytes.size() / dtype_size(from);
  std::vector<std::byte> result(count * dtype_size(to));
  convert(reinterpret_cast<const std::byte*>(bytes.data()), from, result.data(), to, count);
  return std::string(safetensors_name(to)) +
         std::string(reinterpret_cast<const char*>(result.data()), result.size());
}

bool ends_with_any(const std::string& name, const std::vector<std::string>& ends) {
  return std::ranges::any_of(ends, [&](const std::string& end) { return name.ends_with(end); });
}

// Scales that vLLM keeps in float32 come back in float32, most methods' of the KV cache in the
// model's type, and so what it only drops.
void convert_scales(const Json& model, Tensors& tensors) {
  const Json& settings = model.at("config").at("quantization_config");
  const bool own_scales = settings.at("quant_method") == "compressed-tensors";
  const bool drops_inputs = settings.value("quant_algo", "") == "W4A16_NVFP4";
  for (auto& [name, value] : tensors) {
    const auto weight = tensors.find(name.substr(0, name.rfind("_scale")));
    const bool packed = weight != tensors.end() && weight->second.starts_with("I32");
    const bool of_weight = name.ends_with("weight_scale") && weight != tensors.end() && !packed;
    const bool of_cache = ends_with_any(name, {"k_scale", "v_scale", "q_scale", "output_scale"});
    const bool of_layer = name.find(".experts.") == std::string::npos;
    const bool dropped = drops_inputs && of_layer && name.ends_with(".input_scale");
    if ((of_cache && !own_scales) || dropped) {
      value = as_dtype(value, DType::f32, DType::bf16);
    } else if ((of_weight || of_cache) && value.starts_with("BF16")) {
      value = as_dtype(value, DType::bf16, DType::f32);
    }
  }
}

// Gives all matrices of a layer one scale of the inputs, where vLLM keeps one for the layer.
void unite_input_scales(Tensors& tensors) {
  for (auto& [name, value] : tensors) {
    if (!ends_with_any(name, {".input_scale", ".input_zero_point"})) continue;
    const std::string ending = name.substr(name.rfind('.'));
    const std::string module = name.substr(0, name.size() - ending.size());
    const std::string& weight = tensors.at(module + ".weight");
    const bool four_bits = weight.starts_with("U8");
    const bool one_each =
        four_bits || (weight.starts_with("F8") && module.find(".experts.") == std::string::npos);
    if (one_each) continue;
    const std::vector<std::pair<std::string, std::string>> kept = {
        {"q_proj", "v_proj"}, {"k_proj", "v_proj"}, {"gate_proj", "up_proj"}, {"w1", "w3"}};
    for (const auto& [leaf, last] : kept) {
      if (!module.ends_with(leaf)) continue;
      value = tensors.at(module.substr(0, module.size() - leaf.size()) + last + ending);
    }
  }
}

// Tensors of a checkpoint after they were shards.
Tensors as_kept(const Json& model, Tensors tensors) {
  convert_scales(model, tensors);
  unite_input_scales(tensors);
  std::erase_if(tensors, [](const auto& entry) {  // biases that no layer of the model has
    return entry.first.ends_with(".bias") && entry.first.find(".experts.") == std::string::npos;
  });
  return tensors;
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Json& quantization(Json& model) {
  return model["config"]["quantization_config"];
}

}  // namespace

TEST_CASE("quantized shards hold what vLLM's loader fills, byte for byte") {
  for (const Json& model : quantized_models()) {
    const Scratch scratch;
    make_quantized_model(scratch, model);
    const Source source(scratch.path("model"));
    for (const Json& expected : model.at("shards")) {
      const auto ranks = expected.at("tensor_parallel_size").get<int64_t>();
      INFO(model.at("name") << " -tp " << ranks);
      const Job job(source, {.tensor_parallel = ranks, .max_file_size = {}});
      std::vector<std::string> walk;
      for (const ShardTensor& tensor : job.stages().front().tensors) walk.push_back(tensor.name);
      CHECK(walk == expected.at("walk_order").get<std::vector<std::string>>());
      const fs::path out = scratch.path("out" + std::to_string(ranks));
      write_shards(job, out, {.tool_version = "test"});
      std::vector<std::string> digests;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        digests.push_back(file_sha256(out / job.file_name(0, rank, 0)));
      }
      CHECK(digests == expected.at("sha256").get<std::vector<std::string>>());
      CHECK_FALSE(verify_source(job, out));
      CHECK_FALSE(verify_digests(out));
    }
  }
}

TEST_CASE("quantized shards join to their source again") {
  size_t number = 0;
  for (const Json& model : quantized_models()) {
    if (!testing::is_taken(number++, 3)) continue;
    const Scratch scratch;
    make_quantized_model(scratch, model);
    const Tensors before = as_kept(model, tensors_of(scratch.path("model")));
    for (const Json& expected : model.at("shards")) {
      const auto ranks = expected.at("tensor_parallel_size").get<int64_t>();
      INFO(model.at("name") << " -tp " << ranks);
      const std::string out = "out" + std::to_string(ranks);
      const Source source(scratch.path("model"));
      write_shards(Job(source, {.tensor_parallel = ranks, .max_file_size = 50'000}),
                   scratch.path(out), {.tool_version = "test"});
      const std::string said =
          refusal([&] { unshard(scratch.path(out), scratch.path(out + "joined"), {}); });
      if (model.at("name").get<std::string>().ends_with("two_kernels") && ranks == 2) {
        CHECK(said.find("such shards do not join again") != std::string::npos);
        continue;
      }
      REQUIRE(said == "");
      CHECK(tensors_of(scratch.path(out + "joined")) == before);
    }
  }
}

namespace {

// The error for a model of the fixture that is changed so.
std::string said_of(
    const std::string& name, int64_t ranks,
    const std::function<void(Json&)>& change = [](Json&) {}) {
  for (Json model : quantized_models()) {
    if (model.at("name") != name) continue;
    change(model);
    const Scratch scratch;
    make_quantized_model(scratch, model);
    return refusal([&] {
      const Source source(scratch.path("model"));
      const Job job(source, {.tensor_parallel = ranks});
    });
  }
  return "no such model";
}

void says(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

Json& tensor_of(Json& model, const std::string& name) {
  for (Json& tensor : model["recipe"]["tensors"]) {
    if (tensor.at("name") == name) return tensor;
  }
  throw std::logic_error("no tensor " + name);
}

}  // namespace

TEST_CASE("groups and blocks that ranks would cut are refused with tensor and number") {
  // 512 inputs in groups of 32 are 16 groups; 8 query heads.
  says(said_of("awq", 3), "qkv_proj.qweight has 8 query heads");
  CHECK(said_of("fp8_block", 8) == "");  // 32 rows of k on a rank are one block
  says(
      said_of("fp8_block", 4,
              [](Json& model) {
                model["config"]["num_attention_heads"] = 16;
                model["config"]["num_key_value_heads"] = 4;
              }),
      "qkv_proj.weight would have 16 outputs of a part on a rank, no multiple of its blocks of 32");
}

TEST_CASE("KV heads that share a word of packed outputs are not divided over ranks") {
  // 2 KV heads of 12 outputs are 3 words of 8.
  const auto narrow = [](Json& model) {
    model["config"].update({{"num_attention_heads", 16}, {"head_dim", 12}});
    for (Json& tensor : model["recipe"]["tensors"]) {
      const auto name = tensor.at("name").get<std::string>();
      Json& shape = tensor["shape"];
      const bool scales = name.ends_with("scales");
      if (name.find("q_proj") != std::string::npos) shape[1] = scales ? 192 : 24;
      if (name.find("k_proj") != std::string::npos || name.find("v_proj") != std::string::npos)
        shape[1] = scales ? 24 : 3;
      if (name.find("o_proj") != std::string::npos) shape[0] = name.ends_with("qweight") ? 192 : 6;
    }
  };
  CHECK(said_of("awq", 1, narrow) == "");
  says(said_of("awq", 2, narrow), "3 columns of KV heads, which 2 does not divide");
}

TEST_CASE("experts whose blocks or groups ranks would cut say what vLLM does then") {
  // 128 intermediate features in blocks of 64 x 128 are refined down to 32 x 32, no further.
  CHECK(said_of("moe_fp8_block_refined", 4) == "");
  const auto halve = [](Json& model) {
    model["config"]["moe_intermediate_size"] = 64;
    for (Json& tensor : model["recipe"]["tensors"]) {
      const auto name = tensor.at("name").get<std::string>();
      if (name.find(".experts.") == std::string::npos) continue;
      const size_t axis = name.find("down_proj") == std::string::npos ? 0 : 1;
      const bool one_block = axis == 1 && name.ends_with("weight_scale_inv");
      if (!one_block) tensor["shape"][axis] = tensor["shape"][axis].get<int64_t>() / 2;
    }
  };
  says(said_of("moe_fp8_block_refined", 4, halve),
       "16 intermediate features on a rank, no multiple of its blocks of 64 x 128, of which");
  says(said_of("moe_gptq", 1, [](Json& model) { quantization(model)["group_size"] = 16; }),
       "groups of 16 and a hidden size of 128; vLLM packs such experts anew");
}

TEST_CASE("what vLLM 0.32 refuses of quantized checkpoints is refused with its reason") {
  const auto option = [](const char* name, const Json& value) {
    return [name, value](Json& model) { quantization(model)[name] = value; };
  };
  says(said_of("gptq", 1, option("desc_act", true)), "known of no earlier release");
  says(said_of("gptq", 1, option("sym", false)), "sym false");
  says(said_of("gptq", 1, option("quant_method", "bitsandbytes")), "bitsandbytes");
  says(said_of("gptq", 1,
               [](Json& model) {
                 for (Json& tensor : model["recipe"]["tensors"]) {
                   if (tensor.contains("formula")) tensor["formula"] = "i div 16";
                 }
               }),
       "does not give the groups of inputs in order");
  says(said_of("ct_w4a16", 1,
               [](Json& model) {
                 quantization(model)["config_groups"]["group_0"]["weights"]["actorder"] = "group";
               }),
       "actorder \"group\"");
  says(said_of(
           "kv_ct", 1,
           [](Json& model) { quantization(model)["kv_cache_scheme"]["strategy"] = "attn_head"; }),
       "scales per attn_head");
  says(said_of("head_gptq", 1,
               [](Json& model) {
                 model["config"]["vocab_size"] = 72;
                 tensor_of(model, "model.embed_tokens.weight")["shape"][0] = 72;
                 for (const char* name : {"lm_head.qweight", "lm_head.scales"}) {
                   tensor_of(model, name)["shape"][1] = 72;
                 }
                 tensor_of(model, "lm_head.qzeros")["shape"][1] = 9;
               }),
       "lm_head.qweight has 72 outputs, no multiple of 64");
  says(said_of("moe_ct_fp8_tensor", 1,
               [](Json& model) {
                 tensor_of(model,
                           "model.layers.0.block_sparse_moe.experts.1.w3.input_scale")["mean"] = 2;
               }),
       "vLLM takes experts only where they are alike");
  says(said_of("moe_fp8_tensor", 1,
               [](Json& model) {
                 const std::string experts = "model.layers.0.block_sparse_moe.experts.";
                 Json fused = tensor_of(model, experts + "0.w1.weight");
                 fused["name"] = experts + "w13";
                 fused["shape"] = {2, 128, 128};
                 model["recipe"]["tensors"] = Json::array({fused});
               }),
       "holds all experts of a layer in one tensor");
  says(said_of("ct_mxfp4", 1, option("quant_method", "mxfp4")), "for the card");
  says(said_of("gptq", 1, option("quant_method", "bitsandbytes")), "a plug-in");
  says(said_of("gptq", 1, option("quant_method", "aqlm")), "\"aqlm\" is not supported");
  says(said_of("fbgemm", 1, [](Json& model) { quantization(model).erase("activation_scale_ub"); }),
       "without \"activation_scale_ub\"");
  says(said_of("moe_modelopt_fp8", 1, option("quant_algo", "FP8_PER_CHANNEL_PER_TOKEN")),
       "which vLLM takes in linear layers alone");
  says(said_of("moe_modelopt_w4a16", 1,
               [](Json& model) {
                 tensor_of(model, "model.layers.0.mlp.experts.1.up_proj.input_scale")["name"] =
                     "model.layers.0.mlp.experts.1.up_proj.other.input_scale";
               }),
       "lacks scales of inputs (input_scale)");
  says(said_of("modelopt_nvfp4", 1, option("ignore", Json::array())),
       "lm_head.weight is quantized, which vLLM does not load of modelopt");
  says(said_of("moe_quark_mxfp4", 4), "how vLLM pads such experts depends on the kernel");
  says(said_of("moe_ct_nvfp4", 1,
               [](Json& model) {
                 quantization(model)["config_groups"]["group_0"]["input_activations"] = nullptr;
               }),
       "NVFP4 without scales of inputs");
  says(said_of("ct_nvfp4", 1,
               [](Json& model) {
                 quantization(model)["config_groups"]["group_0"]["weights"]["group_size"] = 8;
               }),
       "NVFP4 in groups of 8; vLLM takes 16");
  says(said_of("moe_gptq_bias", 1,
               [](Json& model) {
                 tensor_of(model, "model.layers.0.mlp.experts.2.up_proj.bias")["name"] =
                     "model.layers.0.mlp.experts.2.up_proj.other.bias";
               }),
       "is a bias that not all experts have");
}

TEST_CASE("other releases' layouts of quantized layers are not guessed") {
  const Json model = quantized_models().front();
  const Scratch scratch;
  make_quantized_model(scratch, model);
  const Source source(scratch.path("model"));
  CHECK(refusal([&] {
          Job(source, {.release = parse_release("0.28.0")});
        }).find("--vllm-version 0.28.0") != std::string::npos);
}

}  // namespace plimsoll::shard
