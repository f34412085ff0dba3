// Tensors that are larger than what is read, compared or joined at a time, folders that lie deep,
// and names of what vLLM leaves out.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <string>

#include "shard/job.h"
#include "shard/llama_shards.h"
#include "shard/output_folder.h"
#include "shard/unshard.h"
#include "shard/verify.h"

namespace plimsoll::shard {
namespace {

/// A llama of one layer whose table and head of 3000 x 2048 have 12 MB each: more than any buffer.
void make_wide_llama(const Scratch& scratch) {
  Json config = kConfig;
  config.update({{"hidden_size", 2048},
                 {"num_hidden_layers", 1},
                 {"num_attention_heads", 2},
                 {"num_key_value_heads", 2},
                 {"head_dim", 8},
                 {"vocab_size", 3000}});
  Json tensors = {tensor("model.embed_tokens.weight", {3000, 2048}),
                  tensor("lm_head.weight", {3000, 2048}), tensor("model.norm.weight", {2048})};
  const std::string layer = "model.layers.0.";
  for (const char* name : {"q_proj", "k_proj", "v_proj"})
    tensors.push_back(tensor(layer + "self_attn." + name + ".weight", {16, 2048}));
  tensors.push_back(tensor(layer + "self_attn.o_proj.weight", {2048, 16}));
  for (const char* name : {"gate_proj", "up_proj"})
    tensors.push_back(tensor(layer + "mlp." + name + ".weight", {64, 2048}));
  tensors.push_back(tensor(layer + "mlp.down_proj.weight", {2048, 64}));
  for (const char* name : {"input_layernorm", "post_attention_layernorm"})
    tensors.push_back(tensor(layer + name + ".weight", {2048}));
  write_model(scratch, config, {{"seed", 3}, {"tensors", tensors}});
}

/// A GPT-2 of one layer whose matrices, stored inputs by outputs, have up to 13 MB.
void make_wide_gpt2(const Scratch& scratch) {
  constexpr int64_t kWidth = 1280;
  const Json config = {{"architectures", {"GPT2LMHeadModel"}},
                       {"model_type", "gpt2"},
                       {"n_embd", kWidth},
                       {"n_head", 4},
                       {"n_layer", 1},
                       {"n_positions", 32},
                       {"activation_function", "gelu_new"},
                       {"layer_norm_epsilon", 1e-5},
                       {"tie_word_embeddings", true},
                       {"vocab_size", 64},
                       {"dtype", "bfloat16"}};
  Json tensors = {tensor("transformer.wte.weight", {64, kWidth}),
                  tensor("transformer.wpe.weight", {32, kWidth}),
                  tensor("transformer.ln_f.weight", {kWidth}),
                  tensor("transformer.ln_f.bias", {kWidth})};
  const std::string layer = "transformer.h.0.";
  for (const auto& [name, in, out] : {std::tuple{"attn.c_attn", kWidth, 3 * kWidth},
                                      {"attn.c_proj", kWidth, kWidth},
                                      {"mlp.c_fc", kWidth, 4 * kWidth},
                                      {"mlp.c_proj", 4 * kWidth, kWidth}}) {
    tensors.push_back(tensor(layer + name + ".weight", {in, out}));
    tensors.push_back(tensor(layer + name + ".bias", {out}));
  }
  for (const char* norm : {"ln_1", "ln_2"}) {
    tensors.push_back(tensor(layer + norm + ".weight", {kWidth}));
    tensors.push_back(tensor(layer + norm + ".bias", {kWidth}));
  }
  write_model(scratch, config, {{"seed", 4}, {"tensors", tensors}});
}

}  // namespace

TEST_CASE("large tensors are cut, verified to each byte, and joined again") {
  const Scratch scratch;
  make_wide_llama(scratch);
  const JobOptions options{.tensor_parallel = 2};
  write(scratch, options);
  const Source source(scratch.path("model"));
  const Job job(source, options);
  CHECK(verify_digests(scratch.path("out")).value_or("") == "");
  CHECK(verify_source(job, scratch.path("out")).value_or("") == "");
  unshard(scratch.path("out"), scratch.path("joined"), {});
  CHECK(tensors_of(scratch.path("joined")) == tensors_of(scratch.path("model")));

  const std::string name = "out/model-rank-0-part-0.safetensors";
  const std::string whole = scratch.read(name);
  for (const size_t at : {size_t{0}, (size_t{4} << 20) - 1, size_t{4} << 20, size_t{5'000'001}}) {
    INFO(at);
    std::string bytes = whole;
    char& byte = bytes[begin_of(whole, "lm_head.weight") + at];
    byte = static_cast<char>(byte ^ 1);
    scratch.write(name, bytes);
    CHECK_THAT(verify_digests(scratch.path("out")).value_or("nothing"),
               Catch::Contains("tensor lm_head.weight is not what was written"));
    CHECK_THAT(verify_source(job, scratch.path("out")).value_or("nothing"),
               Catch::Contains(
                   fmt::format("tensor lm_head.weight differs at its byte {} (byte {} of the file)",
                               at, begin_of(whole, "lm_head.weight") + at)));
  }
}

TEST_CASE("large matrices that are stored the other way round come back as they were") {
  const Scratch scratch;
  make_wide_gpt2(scratch);
  const JobOptions options{.tensor_parallel = 2};
  write(scratch, options);
  const Source source(scratch.path("model"));
  CHECK(verify_source(Job(source, options), scratch.path("out")).value_or("") == "");
  unshard(scratch.path("out"), scratch.path("joined"), {});
  CHECK(tensors_of(scratch.path("joined")) == tensors_of(scratch.path("model")));
}

TEST_CASE("folders beside the weights are copied 64 deep, and not deeper") {
  const auto folders = [](const std::string& from, int deep) {
    fs::path path = from;
    for (int i = 0; i < deep; ++i) path /= "d";
    return path;
  };
  const Scratch scratch;
  make_model(scratch);
  const fs::path last = folders(scratch.path("model"), 64);
  fs::create_directories(last);
  scratch.write(fs::relative(last / "file", scratch.path("")), "deep");
  write(scratch, {});
  CHECK(scratch.read(fs::relative(folders(scratch.path("out"), 64) / "file", scratch.path(""))) ==
        "deep");
  fs::create_directories(folders(scratch.path("model"), 66));
  CHECK(failure([&] { write(scratch, {}, "deeper"); }, "nested too deep") ==
        ExitCode::checkpoint_unusable);
  CHECK(!scratch.has("deeper"));
}

TEST_CASE("what vLLM leaves out is named by its ending, with how many there are") {
  const Scratch scratch;
  make_model(scratch);
  Json recipe = read_json_file(scratch.path("recipe/recipe.json"));
  for (const char* layer : {"model.layers.0.", "model.layers.1."})
    recipe["tensors"].push_back(tensor(layer + std::string("self_attn.rotary_emb.inv_freq"), {2}));
  recipe["tensors"].push_back(tensor("model.layers.0.self_attn.rotary_emb.cos_cached", {2}));
  recipe["tensors"].push_back(tensor("rotary_emb.sin_cached", {2}));
  fs::remove_all(scratch.path("model"));
  write_model(scratch, kConfig, recipe);
  write(scratch, {.tensor_parallel = 2});
  CHECK(read_record(scratch.path(std::string("out/") + kSidecar)).left_out ==
        std::vector<std::string>{"*rotary_emb.cos_cached", "*rotary_emb.inv_freq (2 tensors)",
                                 "rotary_emb.sin_cached"});
}

TEST_CASE("bytes that are written again and those that are kept add up") {
  const Scratch scratch;
  make_model(scratch);
  const JobOptions options{.tensor_parallel = 2};
  const WriteResult first = write(scratch, options);
  CHECK(first.kept_bytes == 0);
  uint64_t sizes = 0;
  for (const char* name : {"model-rank-0-part-0.safetensors", "model-rank-1-part-0.safetensors"})
    sizes += fs::file_size(scratch.path(std::string("out/") + name));
  CHECK(static_cast<uint64_t>(first.written_bytes) == sizes);
  fs::remove(scratch.path("out/model-rank-1-part-0.safetensors"));
  const WriteResult again = write(scratch, options);
  CHECK(again.kept_bytes == first.written_bytes / 2);
  CHECK(again.written_bytes == first.written_bytes / 2);
}

}  // namespace plimsoll::shard
