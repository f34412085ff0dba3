// Weights put together from checkpoint tensors.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/crafted.h"
#include "checkpoint/fused_experts.h"
#include "model/config.h"
#include "model/tiny_config.h"
#include "reference/recipe.h"

namespace fs = std::filesystem;
using namespace plimsoll;
using checkpoint::Checkpoint;
using checkpoint::WeightReader;
using model::ModelSpec;
using model::Part;
using model::WeightSpec;
using plimsoll::testing::safetensors_bytes;
using plimsoll::testing::TempFolder;
using plimsoll::testing::tiny_config;

namespace {

struct Tensor {
  std::vector<int64_t> shape;
  DType dtype = DType::f32;
};
using Tensors = std::map<std::string, Tensor>;

int64_t count_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Element i of every tensor is i, which f16 holds up to 2048, bf16 up to 256.
void write_tensors(const TempFolder& folder, const Tensors& tensors) {
  Json header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    std::vector<float> values(static_cast<size_t>(count_of(tensor.shape)));
    std::iota(values.begin(), values.end(), 0.0f);
    std::string bytes(values.size() * dtype_size(tensor.dtype), '\0');
    convert(values.data(), DType::f32, bytes.data(), tensor.dtype, values.size());
    header[name] = {{"dtype", safetensors_name(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
  }
  folder.write("model.safetensors", safetensors_bytes(header.dump(), data));
}

// Tensors that a spec's parts ask for.
Tensors tensors_of(const ModelSpec& spec) {
  Tensors tensors;
  for (const WeightSpec& weight : spec.weights) {
    for (const Part& part : weight.parts) tensors[part.tensor] = {part.stored_shape};
  }
  return tensors;
}

std::string outcome(const ModelSpec& spec, const Tensors& tensors) {
  const TempFolder folder;
  write_tensors(folder, tensors);
  const Checkpoint opened = Checkpoint::open(folder.path);
  try {
    const WeightReader reader(opened, spec);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::checkpoint_unusable);
    return error.what();
  }
  return "accepted";
}

ModelSpec spec_of(WeightSpec weight) {
  ModelSpec spec;
  spec.architecture = "TestModel";
  spec.weights = {std::move(weight)};
  return spec;
}

std::vector<float> read(const ModelSpec& spec, const Tensors& tensors, int64_t first,
                        int64_t count) {
  const TempFolder folder;
  write_tensors(folder, tensors);
  const Checkpoint opened = Checkpoint::open(folder.path);
  const WeightReader reader(opened, spec);
  const WeightSpec& weight = spec.weights.front();
  std::vector<float> rows(static_cast<size_t>(count * weight.columns()));
  reader.read_rows(weight, first, count, DType::f32, rows.data());
  return rows;
}

using Floats = std::vector<float>;

}  // namespace

TEST_CASE("parts are stacked in order, rows of a range alone") {
  const WeightSpec weight{
      .name = "w",
      .shape = {5, 2},
      .parts = {{.tensor = "b", .stored_shape = {3, 2}, .block_rows = 3, .block_stride = 3},
                {.tensor = "a", .stored_shape = {2, 2}, .block_rows = 2, .block_stride = 2}}};
  const Tensors tensors = {{"a", {{2, 2}}}, {"b", {{3, 2}}}};
  CHECK(read(spec_of(weight), tensors, 0, 5) == Floats{0, 1, 2, 3, 4, 5, 0, 1, 2, 3});
  CHECK(read(spec_of(weight), tensors, 2, 2) == Floats{4, 5, 0, 1});
  CHECK(read(spec_of(weight), tensors, 4, 1) == Floats{2, 3});
}

TEST_CASE("blocks are taken out of interleaved rows") {
  // Groups of two query rows, one k row, one v row: as InternLM2 stores them.
  const auto part = [](int64_t first, int64_t rows) {
    return Part{.tensor = "a",
                .stored_shape = {8, 1},
                .first_row = first,
                .block_rows = rows,
                .block_stride = 4,
                .block_count = 2};
  };
  const WeightSpec weight{
      .name = "w", .shape = {8, 1}, .parts = {part(0, 2), part(2, 1), part(3, 1)}};
  const Tensors tensors = {{"a", {{8, 1}}}};
  CHECK(read(spec_of(weight), tensors, 0, 8) == Floats{0, 1, 4, 5, 2, 6, 3, 7});
  CHECK(read(spec_of(weight), tensors, 1, 5) == Floats{1, 4, 5, 2, 6});
}

TEST_CASE("matrices stored [in, out] are transposed") {
  // Larger than a tile in both directions, in every dtype pair.
  constexpr int64_t kIn = 70, kOut = 130;
  const WeightSpec weight{.name = "w",
                          .shape = {kOut - 1, kIn},
                          .parts = {{.tensor = "a",
                                     .stored_shape = {kIn, kOut},
                                     .transposed = true,
                                     .first_row = 1,
                                     .block_rows = kOut - 1,
                                     .block_stride = kOut - 1}}};
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Floats rows = read(spec_of(weight), {{"a", {{kIn, kOut}, dtype}}}, 3, 100);
    for (int64_t row = 0; row < 100; ++row) {
      for (int64_t column = 0; column < kIn; ++column) {
        REQUIRE(rows[static_cast<size_t>(row * kIn + column)] ==
                static_cast<float>(column * kOut + row + 4));
      }
    }
  }
}

TEST_CASE("weights are converted between the floating types") {
  const WeightSpec weight{
      .name = "w",
      .shape = {100},
      .use = model::WeightUse::vector,
      .parts = {{.tensor = "a", .stored_shape = {100}, .block_rows = 100, .block_stride = 100}}};
  const ModelSpec spec = spec_of(weight);
  for (const DType stored : {DType::bf16, DType::f16, DType::f32, DType::f64}) {
    for (const DType wanted : {DType::bf16, DType::f16, DType::f32}) {
      const TempFolder folder;
      write_tensors(folder, {{"a", {{100}, stored}}});
      const Checkpoint opened = Checkpoint::open(folder.path);
      std::vector<std::byte> raw(100 * dtype_size(wanted));
      WeightReader(opened, spec).read_rows(spec.weights[0], 0, 100, wanted, raw.data());
      Floats values(100);
      convert(raw.data(), wanted, values.data(), DType::f32, 100);
      for (size_t i = 0; i < 100; ++i) REQUIRE(values[i] == static_cast<float>(i));
    }
  }
}

TEST_CASE("what does not fit the weight table is refused by name") {
  const ModelSpec spec = model::make_model_spec(tiny_config("LlamaForCausalLM"));
  const Tensors good = tensors_of(spec);
  CHECK(outcome(spec, good) == "accepted");

  Tensors tensors = good;
  tensors.erase("model.norm.weight");
  tensors.erase("lm_head.weight");
  CHECK_THAT(outcome(spec, tensors),
             Catch::Contains("lacks tensor \"model.norm.weight\" (and 1 more)") &&
                 Catch::Contains("shape [16]"));
  tensors = good;
  tensors.erase("lm_head.weight");
  CHECK_THAT(outcome(spec, tensors), Catch::Contains("\"tie_word_embeddings\": true"));
  for (const std::string beginning : {"_orig_mod.", "module.", "base_model.model."}) {
    tensors.clear();
    for (const auto& [name, tensor] : good) tensors[beginning + name] = tensor;
    CHECK_THAT(outcome(spec, tensors),
               Catch::Contains("take \"" + beginning + "\" off the names of its tensors"));
  }
  tensors = good;
  for (const auto& [name, tensor] : good) {
    if (!name.starts_with("model.")) continue;
    tensors.erase(name);
    tensors[name.substr(6)] = tensor;
  }
  CHECK_THAT(outcome(spec, tensors),
             Catch::Contains("rename its tensors to begin with \"model.\""));
  tensors = good;
  tensors["model.embed_tokens.weight"].shape = {104, 16};
  CHECK_THAT(outcome(spec, tensors),
             Catch::Contains("\"model.embed_tokens.weight\"") &&
                 Catch::Contains("has shape [104, 16]; expected [100, 16]"));
  tensors = good;
  tensors["model.layers.0.mlp.gate.weight"] = {{4, 16}};
  tensors["model.layers.1.input_layernorm.weight"] = {{16}};
  CHECK_THAT(outcome(spec, tensors),
             Catch::Contains("tensor \"model.layers.0.mlp.gate.weight\" (and 1 more)") &&
                 Catch::Contains("LlamaForCausalLM"));
  ModelSpec quantized = spec;
  quantized.quantization = "gptq";
  CHECK_THAT(outcome(quantized, good), Catch::Contains("quantized (gptq)"));
}

TEST_CASE("to leave a tower out is advised where tensors of towers alone are missing") {
  const auto weight = [](const char* name) {
    return WeightSpec{
        .name = name,
        .shape = {2},
        .use = model::WeightUse::vector,
        .parts = {{.tensor = name, .stored_shape = {2}, .block_rows = 2, .block_stride = 2}}};
  };
  ModelSpec spec;
  spec.architecture = "TestModel";
  spec.weights = {weight("text.a"), weight("text.b")};
  spec.towers = {weight("tower.a"), weight("tower.b")};
  const auto outcome_with = [&](const std::vector<std::string>& names) {
    Tensors tensors;
    for (const std::string& name : names) tensors[name] = {{2}};
    return outcome(spec, tensors);
  };
  const std::string advice = "without its tower the model answers text: --language-model-only";
  CHECK(outcome_with({"text.a", "text.b", "tower.a", "tower.b"}) == "accepted");
  CHECK_THAT(outcome_with({"text.a", "text.b", "tower.b"}),
             Catch::Contains("lacks tensor \"tower.a\", ") && Catch::Contains(advice));
  CHECK_THAT(outcome_with({"text.a", "text.b"}),
             Catch::Contains("lacks tensor \"tower.a\" (and 1 more)") && Catch::Contains(advice));
  CHECK_THAT(outcome_with({"text.a", "tower.a", "tower.b"}),
             Catch::Contains("lacks tensor \"text.b\", ") && !Catch::Contains(advice));
  CHECK_THAT(outcome_with({"tower.a", "tower.b"}),
             Catch::Contains("lacks tensor \"text.a\" (and 1 more)") && !Catch::Contains(advice));
  CHECK_THAT(outcome_with({"text.a", "tower.b"}),
             Catch::Contains("lacks tensor \"tower.a\" (and 1 more)") && !Catch::Contains(advice));
}

TEST_CASE("integers and 8-bit floats are no weights") {
  const WeightSpec weight{
      .name = "w",
      .shape = {0},
      .use = model::WeightUse::vector,
      .parts = {{.tensor = "a", .stored_shape = {0}, .block_rows = 0, .block_stride = 0}}};
  CHECK_THAT(outcome(spec_of(weight), {{"a", {{0}, DType::f8_e4m3}}}),
             Catch::Contains("has dtype F8_E4M3; expected BF16, F16, F32 or F64"));
}

TEST_CASE("tensors that vLLM leaves out are left out") {
  const ModelSpec spec =
      model::make_model_spec(tiny_config("LlamaForCausalLM", {{"tie_word_embeddings", true}}));
  Tensors tensors = tensors_of(spec);
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{2}};
  tensors["model.layers.0.self_attn.q_proj.bias"] = {{16}};
  tensors["lm_head.weight"] = {{100, 16}};
  CHECK(outcome(spec, tensors) == "accepted");
  tensors.erase("model.embed_tokens.weight");  // the one table under the head's name
  CHECK(outcome(spec, tensors) == "accepted");
}

TEST_CASE("a bias without a place may be left out, and run refuses it unless it is zero") {
  const ModelSpec spec = model::make_model_spec(tiny_config("LlamaForCausalLM"));
  Tensors tensors = tensors_of(spec);
  tensors["model.layers.0.attn.bias"] = {{1, 1, 8, 8}};  // a mask
  const auto refusal = [&](int64_t elements) -> std::string {
    tensors["model.layers.0.mlp.up_proj.bias"] = {{elements}, DType::bf16};
    const TempFolder folder;
    write_tensors(folder, tensors);
    const Checkpoint opened = Checkpoint::open(folder.path);
    const WeightReader reader(opened, spec);
    try {
      reader.require_zero_biases();
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::checkpoint_unusable);
      return error.what();
    }
    return "";
  };
  CHECK(refusal(1).empty());  // element i is i
  CHECK_THAT(refusal(2), Catch::Contains("\"model.layers.0.mlp.up_proj.bias\"") &&
                             Catch::Contains("is not zero"));
}

TEST_CASE("stacked experts may come one by one, as transformers 5 saves them") {
  ModelSpec spec =
      spec_of({.name = "up",
               .shape = {2, 4, 1},
               .use = model::WeightUse::experts,
               .split = model::Split::merged_column,
               .parts = {{.tensor = "m.experts.gate_up_proj[0]", .stored_shape = {4, 1}}}});
  Tensors tensors;
  for (const char* name : {"0.gate_proj", "0.up_proj", "1.gate_proj", "1.up_proj"}) {
    tensors[std::string("m.experts.") + name + ".weight"] = {{2, 1}};
  }
  const TempFolder folder;
  write_tensors(folder, tensors);
  Checkpoint opened = Checkpoint::open(folder.path);
  checkpoint::resolve_fused_experts(opened, spec);
  CHECK(spec.weights.front().parts[1].tensor == "m.experts.0.up_proj.weight");
  CHECK(read(spec, tensors, 1, 6) == Floats{1, 0, 1, 0, 1, 0});
}

TEST_CASE("other spellings of names are found") {
  const auto renamed = [](const ModelSpec& spec, const std::string& from, const std::string& to) {
    Tensors tensors;
    for (const auto& [name, tensor] : tensors_of(spec)) {
      REQUIRE(name.starts_with(from));
      tensors[to + name.substr(from.size())] = tensor;
    }
    return tensors;
  };
  const ModelSpec gpt2 = model::make_model_spec(tiny_config("GPT2LMHeadModel"));
  Tensors bare = renamed(gpt2, "transformer.", "");
  bare["h.0.attn.bias"] = {{1, 1, 8, 8}};
  bare["h.0.attn.masked_bias"] = {{}};
  CHECK(outcome(gpt2, bare) == "accepted");
  const ModelSpec opt = model::make_model_spec(tiny_config("OPTForCausalLM"));
  CHECK(outcome(opt, renamed(opt, "model.decoder.", "decoder.")) == "accepted");
}

TEST_CASE("a config without a dtype takes that of the tensors") {
  ModelSpec spec = model::make_model_spec(tiny_config("LlamaForCausalLM"));
  spec.dtype_stated = false;
  Tensors tensors = tensors_of(spec);
  const auto dtype = [&] {
    const TempFolder folder;
    write_tensors(folder, tensors);
    return checkpoint::model_dtype(Checkpoint::open(folder.path), spec);
  };
  CHECK(dtype() == DType::f32);
  for (auto& [name, tensor] : tensors) tensor.dtype = DType::f16;
  CHECK(dtype() == DType::f16);
  tensors["model.norm.weight"].dtype = DType::bf16;
  CHECK(dtype() == DType::f32);
}

TEST_CASE("a checkpoint that shrinks under the reader ends in an error in every thread") {
  const ModelSpec spec = model::make_model_spec(
      tiny_config("LlamaForCausalLM", {{"vocab_size", 20000}, {"tie_word_embeddings", true}}));
  const TempFolder folder;
  write_tensors(folder, tensors_of(spec));
  const Checkpoint opened = Checkpoint::open(folder.path);
  const WeightReader reader(opened, spec);
  fs::resize_file(folder.path / "model.safetensors", 4096);
  std::vector<std::thread> threads;
  std::atomic<int> errors = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      std::vector<float> rows(20000 * 16);
      try {
        reader.read_rows(spec.weights.front(), 0, 20000, DType::f32, rows.data());
      } catch (const Error&) {
        ++errors;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(errors == 4);
}

TEST_CASE("every recipe's checkpoint gives all its weights") {
  const fs::path models = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden/models";
  int count = 0;
  for (const auto& entry : fs::directory_iterator(models)) {
    if (!fs::exists(entry.path() / "recipe.json")) continue;
    INFO(entry.path().filename().string());
    const TempFolder folder;
    testing::write_checkpoint(entry.path(), folder.path);
    const ModelSpec spec = model::make_model_spec(model::read_config(folder.path));
    const Checkpoint opened = Checkpoint::open(folder.path);
    const WeightReader reader(opened, spec);
    for (const WeightSpec& weight : spec.weights) {
      Floats values(static_cast<size_t>(weight.elements()), NAN);
      reader.read_rows(weight, 0, weight.matrices() * weight.rows(), DType::f32, values.data());
      REQUIRE(std::ranges::none_of(values, [](float value) { return std::isnan(value); }));
    }
    ++count;
  }
  CHECK(count > 0);
}
