// A multimodal checkpoint: text in, text out as its text model has it; lines with images, what
// they cost and what the plan says of them.
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

#include "cli/program.h"

using namespace plimsoll;
using test::Scratch;
using test::shell;

namespace {

namespace fs = std::filesystem;

constexpr int kImageToken = 5;
const std::string kImages = PLIMSOLL_SOURCE_DIR "/tests/data/images";
const std::string kRun = "plimsoll run llava --max-model-len 64 --allowed-local-media-path " +
                         kImages + " --temperature 0 ";

std::string read_binary(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Output of a tower for images: zeros, or equal values of weights of two kinds.
enum class Projector : uint8_t { zeros, plain, fp8 };

std::string repeated(const std::string& bytes, size_t size) {
  std::string all;
  while (all.size() < size) all += bytes;
  return all.substr(0, size);
}

// The sample model's tensors below language_model, and a tower whose last layer is 0.
void write_tensors(const fs::path& folder, Projector projector) {
  const std::string source = read_binary(test::kModel + "/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, source.data(), sizeof length);
  const Json header = parse_json<Json>(source.substr(sizeof length, length));
  std::string data = source.substr(sizeof length + length);
  Json renamed = Json::object();
  for (const auto& [name, tensor] : header.items()) {
    renamed[name == "__metadata__" ? name : "language_model." + name] = tensor;
  }
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape,
                       const std::string& values = std::string(2, '\0'),
                       const char* dtype = "BF16") {
    size_t bytes = dtype == std::string("BF16") ? 2 : 1;
    for (const int64_t size : shape) bytes *= static_cast<size_t>(size);
    renamed[name] = {
        {"dtype", dtype}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes}}};
    data += repeated(values, bytes);
  };
  const bool sees = projector != Projector::zeros;
  const std::string one = sees ? "\x80\x3f" : std::string(2, '\0');
  // 1, 1, -1, 1, -1 in turn, so that neighbouring rows differ.
  const std::string ones = sees ? one + one + "\x80\xbf" + one + "\x80\xbf" : one;
  const std::string tower = "vision_tower.vision_model.";
  add(tower + "embeddings.class_embedding", {2});
  add(tower + "embeddings.patch_embedding.weight", {2, 3, 1, 1});
  add(tower + "embeddings.position_embedding.weight", {5, 2});
  add(tower + "pre_layrnorm.weight", {2});
  add(tower + "pre_layrnorm.bias", {2}, one);
  add("multi_modal_projector.linear_1.weight", {192, 2}, ones);
  add("multi_modal_projector.linear_1.bias", {192});
  if (projector == Projector::fp8) {
    add("multi_modal_projector.linear_2.weight", {192, 192}, "\x38\x38\xb8\x38\xb8", "F8_E4M3");
    add("multi_modal_projector.linear_2.weight_scale", {192, 1}, one);
  } else {
    add("multi_modal_projector.linear_2.weight", {192, 192}, ones);
  }
  add("multi_modal_projector.linear_2.bias", {192});
  const std::string text = renamed.dump();
  length = text.size();
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text << data;
}

void make_llava(const Scratch& scratch, Projector projector = Projector::zeros) {
  const fs::path folder = scratch.path("llava");
  fs::create_directories(folder);
  for (const char* name : {"generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    fs::copy_file(fs::path(test::kModel) / name, folder / name);
  }
  write_tensors(folder, projector);
  Json config = {{"architectures", {"LlavaForConditionalGeneration"}},
                 {"model_type", "llava"},
                 {"dtype", "bfloat16"},
                 {"tie_word_embeddings", true},
                 {"vision_feature_layer", 0},
                 {"image_token_index", kImageToken},
                 {"text_config", parse_json<Json>(read_binary(test::kModel + "/config.json"))},
                 {"vision_config",
                  {{"hidden_size", 2},
                   {"intermediate_size", 2},
                   {"num_hidden_layers", 1},
                   {"num_attention_heads", 1},
                   {"image_size", 2},
                   {"patch_size", 1}}}};
  if (projector == Projector::fp8) {
    const Json weights = {{"num_bits", 8},
                          {"type", "float"},
                          {"strategy", "channel"},
                          {"symmetric", true},
                          {"dynamic", false}};
    config["quantization_config"] = {
        {"quant_method", "compressed-tensors"},
        {"format", "float-quantized"},
        {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
  }
  scratch.write("llava/config.json", config.dump());
}

// Images of 2 x 2 pixels become four tokens.
void make_llava_that_sees(const Scratch& scratch, Projector projector = Projector::zeros) {
  make_llava(scratch, projector);
  scratch.write("llava/preprocessor_config.json",
                R"({"size": {"shortest_edge": 2}, "crop_size": {"height": 2, "width": 2}})");
}

std::string line(const std::string& id, const std::string& images) {
  return R"({"id": ")" + id + R"(", "prompt_token_ids": [9, 5, 10], "max_tokens": 4, )" +
         R"("multi_modal_data": {"image": )" + images + "}}\n";
}

std::string image(const std::string& name) {
  return '"' + kImages + "/" + name + '"';
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

TEST_CASE("where no tower is known the text part answers, images and shards are refused") {
  const Scratch scratch;
  make_llava(scratch);
  Json config = parse_json<Json>(scratch.read("llava/config.json"));
  config["architectures"] = {"Mistral3ForConditionalGeneration"};
  config["vision_config"] = {{"model_type", "pixtral"}};
  scratch.write("llava/config.json", config.dump());
  scratch.write("in", "\"To be, or not to be\"\n" + line("seen", image("odd_37x53.png")));
  const std::string rest = " --limit 1 -i in --temperature 0 --max-tokens 12";
  const auto multimodal = shell(scratch, "plimsoll run llava" + rest);
  INFO(multimodal.err);
  CHECK(multimodal.status == 0);
  CHECK(multimodal.out == shell(scratch, "plimsoll run $MODEL" + rest).out);
  const auto both = test::json_lines(shell(scratch, kRun + "-i in").out);
  REQUIRE(both.size() == 2);
  CHECK(both[1]["error"]["code"] == "no_images");
  const auto shard = shell(scratch, "plimsoll shard llava -o out -tp 2");
  CHECK(shard.status == 5);
  CHECK_THAT(shard.err, Catch::Contains("tower"));
}

TEST_CASE("a line with an image is answered, a bad one costs its line alone") {
  const Scratch scratch;
  make_llava_that_sees(scratch);
  scratch.write(
      "in", line("good", image("odd_37x53.png")) + line("again", image("odd_37x53.png")) +
                line("http", "\"http://example.org/a.png\"") + line("outside", "\"/etc/passwd\"") +
                line("two", "[" + image("odd_37x53.png") + "," + image("odd_37x53.png") + "]") +
                line("cut", "\"data:image/png;base64,iVBORw0KGgo=\"") +
                R"({"id": "film", "prompt_token_ids": [9, 5], "multi_modal_data": {"video": )" +
                image("odd_37x53.png") + "}}\n" +
                "{\"id\": \"text\", \"prompt\": \"To be\", \"max_tokens\": 4}\n");
  const auto outcome = shell(scratch, kRun + "-i in --report report.json");
  INFO(outcome.err);
  CHECK(outcome.status == 3);
  const auto lines = test::json_lines(outcome.out);
  REQUIRE(lines.size() == 8);
  CHECK(lines[0]["usage"]["prompt_tokens"] == 2 + 4);
  CHECK(lines[0]["choices"] == lines[1]["choices"]);
  const std::string codes[] = {"image_not_allowed", "image_not_allowed", "bad_field",
                               "image_truncated", "no_images"};
  for (size_t i = 0; i < 5; ++i) CHECK(lines[2 + i]["error"]["code"] == codes[i]);
  CHECK_THAT(lines[6]["error"]["message"].get<std::string>(), Catch::Contains("no videos"));
  CHECK(lines[7]["error"] == nullptr);
  const Json report = parse_json<Json>(scratch.read("report.json"));
  CHECK(report["images"]["prepared"] == 1);
  CHECK(report["images"]["encoded"] == 1);
}

TEST_CASE("of images there are as many as the launch takes, and without one no tower") {
  const Scratch scratch;
  make_llava_that_sees(scratch);
  scratch.write("in", line("a", image("odd_37x53.png")));
  const auto code = [&](const std::string& flags) {
    const auto outcome = shell(scratch, kRun + flags + " -i in");
    INFO(outcome.err);
    return test::json_lines(outcome.out).at(0)["error"].value("code", "");
  };
  CHECK(code("--limit-mm-per-prompt image=0") == "no_images");
  CHECK(code("--limit-mm-per-prompt '{\"image\": 0, \"video\": 1}'") == "too_many_images");
  CHECK(code("--language-model-only") == "no_images");
  fs::remove(scratch.path("llava/preprocessor_config.json"));
  CHECK(code("") == "no_images");
}

TEST_CASE("images and videos are counted each against its own limit") {
  const Scratch scratch;
  make_llava_that_sees(scratch);
  const std::string one = image("odd_37x53.png");
  scratch.write("in", R"({"prompt_token_ids": [9, 5, 5], "multi_modal_data": {"video": [[)" + one +
                          "], [" + one + "]]}}\n" +
                          R"({"prompt_token_ids": [9, 5, 5], "max_tokens": 4, )" +
                          R"("multi_modal_data": {"image": [)" + one + ", " + one + "]}}\n");
  const auto codes = [&](const std::string& limits) {
    const auto outcome = shell(scratch, kRun + "-i in --limit-mm-per-prompt " + limits);
    INFO(outcome.err);
    const auto lines = test::json_lines(outcome.out);
    REQUIRE(lines.size() == 2);
    const auto code = [](const Json& answer) {
      return answer["error"].is_null() ? "" : answer["error"]["code"].get<std::string>();
    };
    return std::vector{code(lines[0]), code(lines[1])};
  };
  // This model has no videos: a line whose videos are few enough fails for that.
  CHECK(codes("image=1") == std::vector<std::string>{"no_images", "too_many_images"});
  CHECK(codes("video=1") == std::vector<std::string>{"too_many_images", ""});
  CHECK(codes("image=2,video=2") == std::vector<std::string>{"no_images", ""});
}

TEST_CASE("run takes for images what plan says, and plan counts their tokens") {
  const Scratch scratch;
  make_llava_that_sees(scratch);
  scratch.write("in", line("a", image("odd_37x53.png")) + line("b", image("turned_320x240.jpg")));
  for (const std::string flags : {"", " --limit-mm-per-prompt image=0"}) {
    INFO(flags);
    const auto planned = shell(scratch,
                               "plimsoll plan llava --max-model-len 64 -i in "
                               "--allowed-local-media-path " +
                                   kImages + flags + " --format json");
    INFO(planned.err);
    REQUIRE(planned.status == 0);
    const Json plan = parse_json<Json>(planned.out);
    CHECK(shell(scratch, kRun + flags + " -i in -o out --report report.json --overwrite").status ==
          (flags.empty() ? 0 : 3));
    const Json report = parse_json<Json>(scratch.read("report.json"));
    std::map<std::string, int64_t> regions;
    for (const Json& region : report["memory"]["parts"]) {
      regions[region["part"].get<std::string>()] = region.value("measured_bytes", int64_t{0});
    }
    size_t met = 0;
    for (const Json& part : plan["parts"]) {
      const auto region = regions.find(part["name"].get<std::string>());
      if (region == regions.end()) continue;
      CHECK(part["bytes"] == region->second);
      met += region->first == "vision weights" || region->first == "image embeddings";
    }
    CHECK(met == (flags.empty() ? 2 : 0));
    if (flags.empty()) CHECK(plan["prompts"]["prompt_tokens"] == 12);
  }
}

TEST_CASE("a quantized projector makes of an image what the same values do") {
  const auto answer = [](Projector projector) {
    const Scratch scratch;
    make_llava_that_sees(scratch, projector);
    scratch.write("in", line("a", image("odd_37x53.png")));
    const auto outcome = shell(scratch, kRun + "--quantized-activations off -i in");
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return test::json_lines(outcome.out).at(0)["choices"];
  };
  const Json plain = answer(Projector::plain);
  CHECK(plain != answer(Projector::zeros));
  CHECK(plain == answer(Projector::fp8));
}

TEST_CASE("a plan for a card counts the image encoder, unless no images are wanted") {
  const Scratch scratch;
  make_llava_that_sees(scratch);
  const auto plan = [&](const std::string& flags, const std::string& variable = "") {
    const auto planned =
        shell(scratch, variable +
                           "plimsoll plan llava --engine plimsoll --gpu h100 --max-model-len "
                           "64 --format json" +
                           flags);
    INFO(planned.err);
    REQUIRE(planned.status == 0);
    return parse_json<Json>(planned.out);
  };
  const auto bytes = [](const Json& planned, std::string_view name) {
    for (const Json& part : planned["parts"]) {
      if (part["name"] == name) return part["bytes"].get<int64_t>();
    }
    return int64_t{0};
  };
  const Json seeing = plan(""), blind = plan(" --limit-mm-per-prompt image=0");
  CHECK(bytes(seeing, "vision weights") > 0);
  CHECK(bytes(seeing, "image embeddings") > 0);
  CHECK(bytes(blind, "vision weights") == 0);
  CHECK(bytes(blind, "image embeddings") == 0);
  CHECK(bytes(seeing, "weights") == bytes(blind, "weights"));
  CHECK(seeing.value("notes", Json::array()).dump().find("image encoder") == std::string::npos);
  const auto keeps = [&](const std::string& flags, const std::string& gib) {
    const Json planned = plan(flags, "export VLLM_MM_INPUT_CACHE_GIB=7; ");
    return planned["notes"].dump().find("kept in up to " + gib + " GiB") != std::string::npos;
  };
  CHECK(keeps("", "7"));
  CHECK(keeps(" --mm-processor-cache-gb 2.5", "2.5"));
}
