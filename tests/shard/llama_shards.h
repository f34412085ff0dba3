// A small llama, its shards, and the contents of a folder.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "base/error.h"
#include "shard/model_folder.h"
#include "shard/writer.h"

namespace plimsoll::shard {

namespace fs = std::filesystem;
using test::Scratch;

inline const Json kConfig = {{"architectures", {"LlamaForCausalLM"}},
                             {"model_type", "llama"},
                             {"hidden_size", 32},
                             {"intermediate_size", 64},
                             {"num_hidden_layers", 2},
                             {"num_attention_heads", 8},
                             {"num_key_value_heads", 2},
                             {"vocab_size", 70},
                             {"max_position_embeddings", 64},
                             {"torch_dtype", "bfloat16"},
                             {"tie_word_embeddings", false}};

inline Json tensor(const std::string& name, const Json& shape) {
  return {{"name", name}, {"shape", shape}, {"dtype", "BF16"}, {"mean", 0}, {"amplitude", 1}};
}

/// A llama of two layers, with files beside it, in "model".
inline void make_model(const Scratch& scratch) {
  Json tensors = {tensor("model.embed_tokens.weight", {70, 32}), tensor("lm_head.weight", {70, 32}),
                  tensor("model.norm.weight", {32})};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    for (const auto& [name, shape] :
         std::map<std::string, Json>{{"self_attn.q_proj", {32, 32}},
                                     {"self_attn.k_proj", {8, 32}},
                                     {"self_attn.v_proj", {8, 32}},
                                     {"self_attn.o_proj", {32, 32}},
                                     {"mlp.gate_proj", {64, 32}},
                                     {"mlp.up_proj", {64, 32}},
                                     {"mlp.down_proj", {32, 64}},
                                     {"input_layernorm", {32}},
                                     {"post_attention_layernorm", {32}}}) {
      tensors.push_back(tensor(layer + name + ".weight", shape));
    }
  }
  write_model(scratch, kConfig, {{"seed", 7}, {"tensors", tensors}});
  scratch.write("model/tokenizer.json", "{}");
  scratch.write("model/x.bin", "left out");
  fs::create_directories(scratch.path("model/original"));
  scratch.write("model/original/x.pt", "copied");
}

/// Names and digests of everything in a folder, temporary files too; the sidecar by name alone.
inline std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[fs::relative(entry.path(), folder).string()] = file_sha256(entry.path());
  }
  return files;
}

/// Shards of "model" in `out`.
inline WriteResult write(const Scratch& scratch, const JobOptions& options,
                         const std::string& out = "out") {
  const Source source(scratch.path("model"));
  return write_shards(Job(source, options), scratch.path(out),
                      {.tool_version = "test", .threads = 2});
}

/// The code that `action` fails with, its message holding `word`; done: it did not fail.
inline ExitCode failure(const std::function<void()>& action, const std::string& word) {
  try {
    action();
  } catch (const Error& error) {
    CAPTURE(std::string(error.what()));
    CHECK(std::string(error.what()).find(word) != std::string::npos);
    return error.code();
  }
  return ExitCode::done;
}

}  // namespace plimsoll::shard
