// Text in, text out of a multimodal checkpoint: the tower stays unread, the answers are the text
// model's.
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/program.h"

using namespace plimsoll;
using test::Scratch;
using test::shell;

namespace {

namespace fs = std::filesystem;

std::string read_binary(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The sample model's tensors below language_model, and a tower of zeros whose last layer is 0.
void write_tensors(const fs::path& folder) {
  const std::string source = read_binary(test::kModel + "/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, source.data(), sizeof length);
  const Json header = parse_json<Json>(source.substr(sizeof length, length));
  std::string data = source.substr(sizeof length + length);
  Json renamed = Json::object();
  for (const auto& [name, tensor] : header.items()) {
    renamed[name == "__metadata__" ? name : "language_model." + name] = tensor;
  }
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    int64_t bytes = 2;
    for (const int64_t size : shape) bytes *= size;
    renamed[name] = {{"dtype", "BF16"},
                     {"shape", shape},
                     {"data_offsets", {data.size(), data.size() + static_cast<size_t>(bytes)}}};
    data.append(static_cast<size_t>(bytes), '\0');
  };
  const std::string tower = "vision_tower.vision_model.";
  add(tower + "embeddings.class_embedding", {2});
  add(tower + "embeddings.patch_embedding.weight", {2, 3, 1, 1});
  add(tower + "embeddings.position_embedding.weight", {5, 2});
  add(tower + "pre_layrnorm.weight", {2});
  add(tower + "pre_layrnorm.bias", {2});
  add("multi_modal_projector.linear_1.weight", {192, 2});
  add("multi_modal_projector.linear_1.bias", {192});
  add("multi_modal_projector.linear_2.weight", {192, 192});
  add("multi_modal_projector.linear_2.bias", {192});
  const std::string text = renamed.dump();
  length = text.size();
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text << data;
}

void make_llava(const Scratch& scratch) {
  const fs::path folder = scratch.path("llava");
  fs::create_directories(folder);
  for (const char* name : {"generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    fs::copy_file(fs::path(test::kModel) / name, folder / name);
  }
  write_tensors(folder);
  const Json config = {
      {"architectures", {"LlavaForConditionalGeneration"}},
      {"model_type", "llava"},
      {"dtype", "bfloat16"},
      {"tie_word_embeddings", true},
      {"vision_feature_layer", 0},
      {"text_config", parse_json<Json>(read_binary(test::kModel + "/config.json"))},
      {"vision_config",
       {{"hidden_size", 2},
        {"intermediate_size", 2},
        {"num_hidden_layers", 1},
        {"num_attention_heads", 1},
        {"image_size", 2},
        {"patch_size", 1}}}};
  scratch.write("llava/config.json", config.dump());
}

}  // namespace

TEST_CASE("a multimodal checkpoint answers text as its text model does") {
  const Scratch scratch;
  make_llava(scratch);
  scratch.write("in", "\"To be, or not to be\"\n\"Once upon\"\n");
  const auto answers = [&](const std::string& model) {
    return shell(scratch, "plimsoll run " + model + " -i in --temperature 0 --max-tokens 12");
  };
  const auto text = answers("$MODEL");
  const auto multimodal = answers("llava");
  INFO(multimodal.err);
  CHECK(multimodal.status == 0);
  CHECK(text.out.size() > 100);
  CHECK(multimodal.out == text.out);
}
