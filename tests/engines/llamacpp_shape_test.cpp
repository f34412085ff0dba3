// What llama.cpp's plan reads of a header, key by key, and what it refuses, on models of a few
// layers.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/amount.h"
#include "batch/scratch.h"
#include "engines/engine.h"
#include "engines/llamacpp/shape.h"
#include "reference/gguf_bytes.h"

using namespace plimsoll;
using namespace plimsoll::engines;
using llamacpp::Shape;

namespace {

using Names = std::vector<std::string>;

/// A model of `layers` layers: 4 heads and 2 KV heads of 32, 128 wide, 512 tokens.
class Toy {
 public:
  explicit Toy(std::string architecture = "llama", int layers = 8)
      : architecture_(std::move(architecture)) {
    recipe_ = {{"data", false}, {"kv", Json::array()}, {"tensors", Json::array()}};
    recipe_["kv"].push_back({"general.architecture", "string", architecture_});
    set("block_count", layers).set("context_length", 4096).set("embedding_length", 128);
    set("feed_forward_length", 256).set("attention.head_count", 4);
    set("attention.head_count_kv", 2);
    add("token_embd.weight", {128, 512});
  }

  Toy& set(const std::string& key, const Json& value, const char* type = "u32") {
    recipe_["kv"].push_back({architecture_ + "." + key, type, value});
    return *this;
  }
  Toy& list(const std::string& key, const Json& values) { return set(key, values, "[i32]"); }
  Toy& add(const std::string& name, const std::vector<int64_t>& ne) {
    recipe_["tensors"].push_back({{"name", name}, {"ne", ne}, {"type", "F32"}});
    return *this;
  }
  Toy& add_all(const Names& names) {
    for (const std::string& name : names) add(name, {128, 128});
    return *this;
  }
  Toy& tokens(int64_t count) {
    Json words = Json::array();
    for (int64_t i = 0; i < count; ++i) words.push_back(std::to_string(i));
    recipe_["kv"].push_back({"tokenizer.ggml.tokens", "[string]", words});
    return *this;
  }

  const checkpoint::gguf::Model& model() {
    const std::string file = scratch_.path("toy.gguf");
    testing::write_gguf_header(recipe_, file);
    return models_.emplace_back(checkpoint::gguf::Model::open(file));
  }
  Shape shape() { return llamacpp::shape_of(model()); }

 private:
  std::string architecture_;
  Json recipe_;
  test::Scratch scratch_;
  std::vector<checkpoint::gguf::Model> models_;
};

}  // namespace

TEST_CASE("windows of llama.cpp's architectures lie where their classes have them") {
  struct Row {
    const char* architecture;
    const char* layers;
    int64_t unstated = 0;  // the window of a file that states none
  };
  const Row rows[] = {
      {"gemma2", "wfwfwfwf", 4096}, {"gpt-oss", "wfwfwfwf"},      {"gemma3", "wwwwwfww"},
      {"cohere2", "wwwfwwwf"},      {"llama4", "wwwfwwwf", 8192}, {"olmo2", "wwwfwwwf"},
      {"exaone4", "ffffffff"},      {"afmoe", "wwwfwwwf"},        {"laguna", "fwwwfwww"},
      {"smallthinker", "fwwwfwww"}, {"cohere2moe", "fwwwfwww"},   {"plamo3", "wwwwwwwf"},
      {"phi3", "ffffffff"},         {"llama", "ffffffff"},        {"qwen2", "ffffffff"},
      {"unheard-of", "ffffffff"},
  };
  const auto windows = [](const Shape& shape) {
    std::string text;
    for (const llamacpp::Layer& layer : shape.layers) text += layer.windowed ? "w" : "f";
    return text;
  };
  for (const Row& row : rows) {
    INFO(row.architecture);
    CHECK(windows(Toy(row.architecture).set("attention.sliding_window", 128).shape()) ==
          row.layers);
    const Shape unstated = Toy(row.architecture).shape();
    CHECK(unstated.window == row.unstated);
    CHECK(windows(unstated) == (row.unstated > 0 ? row.layers : "ffffffff"));
  }
  // EXAONE 4 has windows in its model of 64 layers alone.
  CHECK(windows(Toy("exaone4", 64).set("attention.sliding_window", 128).shape()).substr(0, 8) ==
        "wwwfwwwf");
  const auto stated = [&](const char* architecture, int period) {
    return windows(Toy(architecture)
                       .set("attention.sliding_window", 128)
                       .set("attention.sliding_window_pattern", period)
                       .shape());
  };
  CHECK(stated("gemma3", 2) == "wfwfwfwf");
  CHECK(stated("laguna", 2) == "fwfwfwfw");
  CHECK(stated("unheard-of", 3) == "wwfwwfww");
  CHECK(stated("gemma3", 1) == "ffffffff");
  CHECK(windows(Toy("gemma3", 3)
                    .set("attention.sliding_window", 128)
                    .list("attention.sliding_window_pattern", {1, 0, 1})
                    .shape()) == "wfw");
}

TEST_CASE("llama.cpp's plan sees gates, and what stands beside experts, by tensors") {
  struct Row {
    Names tensors;
    bool gated, beside;
  };
  const Row rows[] = {
      {{"blk.0.ffn_up.weight"}, false, false},
      {{"blk.0.ffn_gate.weight"}, true, false},
      {{"blk.1.ffn_gate_exps.weight"}, true, false},
      {{"blk.0.ffn_gate_up_exps.weight"}, true, false},
      {{"blk.0.ffn_gate_inp.weight"}, false, false},
      {{"blk.0.ffn_gate_inp.weight", "blk.0.ffn_up_shexp.weight"}, false, true},
      {{"blk.0.ffn_gate_inp.weight", "blk.0.ffn_up.weight"}, false, true},
      {{"blk.0.ffn_gate_inp.weight", "blk.0.ffn_up.weight", "blk.0.ffn_up_shexp.weight"},
       false,
       true},
      {{"blk.1.ffn_gate_inp.weight", "blk.0.ffn_up.weight"}, false, false},
      {{"blk.0.ffn_up_shexp.weight"}, false, false},
  };
  for (const Row& row : rows) {
    INFO(Json(row.tensors).dump());
    const Shape shape = Toy().add_all(row.tensors).shape();
    CHECK(shape.gated == row.gated);
    CHECK(shape.has_mlp_beside == row.beside);
  }
  // Twice as many rows as feed_forward_length are a gate in one tensor with what it gates.
  CHECK(Toy().add("blk.0.ffn_up.weight", {128, 512}).shape().gated);
  CHECK(!Toy().add("blk.0.ffn_up.weight", {128, 511}).shape().gated);
  CHECK(!Toy().add("blk.0.ffn_down.weight", {128, 512}).shape().gated);
}

TEST_CASE("each tensor of a llama.cpp model has its place") {
  struct Row {
    const char* name;
    int64_t layer;
    bool matrix, expert;
    llamacpp::MlpPart part;
  };
  using enum llamacpp::MlpPart;
  const Row rows[] = {
      {"blk.7.attn_q.weight", 7, true, false, none},
      {"blk.0.attn_q.bias", 0, false, false, none},
      {"blk.1.ffn_gate_up_exps.weight", 1, true, true, gate_up},
      {"blk.1.ffn_gate_chexps.weight", 1, true, true, gate},
      {"blk.1.ffn_up_exps.weight", 1, true, true, up},
      {"blk.1.ffn_down.weight", 1, true, false, down},
      {"blk.1.ffn_norm.weight", 1, true, false, other},
      {"rope_freqs.weight", llamacpp::Weight::kEverywhere, true, false, none},
      {"rope_factors_long.weight", llamacpp::Weight::kEverywhere, true, false, none},
      {"output_norm.weight", 8, true, false, none},
      {"token_embd_norm.weight", 8, true, false, none},
      {"position_embd.weight", llamacpp::Weight::kInput, false, false, none},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Toy toy;
    const Shape shape = toy.add("output.weight", {128, 512}).add_all({row.name}).shape();
    REQUIRE(shape.weights.size() == 3);
    const llamacpp::Weight& weight = shape.weights[2];
    CHECK(weight.layer == row.layer);
    CHECK(weight.is_matrix == row.matrix);
    CHECK(weight.expert == row.expert);
    CHECK(weight.part == row.part);
  }
  for (const char* name : {"blk.8.attn_q.weight", "blk.x.attn_q.weight", "blk.-1.attn_q.weight",
                           "blk.1attn_q.weight"}) {
    INFO(name);
    Toy toy;
    CHECK(toy.add("output.weight", {128, 512}).add_all({name}).shape().weights.size() == 2);
  }
  Toy shared;
  const Shape shape = shared.shape();  // the embedding is the head too
  REQUIRE(shape.weights.size() == 2);
  CHECK(shape.weights[0].layer == llamacpp::Weight::kInput);
  CHECK(!shape.weights[0].second_use);
  CHECK(shape.weights[1].layer == 8);
  CHECK(shape.weights[1].second_use);
  CHECK(shape.weights[1].is_matrix);
}

TEST_CASE("llama.cpp's vocabulary is the tokenizer's, the key's, or the embedding's") {
  CHECK(Toy().shape().vocabulary == 512);
  CHECK(Toy().set("vocab_size", 500).shape().vocabulary == 500);
  CHECK(Toy().set("vocab_size", 500).tokens(7).shape().vocabulary == 7);
}

TEST_CASE("what a layer keeps follows its heads, windows and kind") {
  const auto layer = [](Toy& toy, size_t number) { return toy.shape().layers.at(number); };
  Toy plain;
  CHECK(layer(plain, 0).key == 2 * 32);
  CHECK(layer(plain, 0).value == 2 * 32);
  CHECK(layer(plain, 0).heads == 4);
  Toy wide;
  wide.set("attention.key_length", 48).set("attention.value_length", 16);
  CHECK(layer(wide, 0).key == 2 * 48);
  CHECK(layer(wide, 0).value == 2 * 16);
  Toy windows("gemma2");
  windows.set("attention.key_length_swa", 8).set("attention.value_length_swa", 4);
  CHECK(layer(windows, 0).key == 2 * 8);
  CHECK(layer(windows, 0).value == 2 * 4);
  CHECK(layer(windows, 1).key == 2 * 32);
  CHECK(layer(windows, 1).value == 2 * 32);
  Toy shared;
  shared.set("attention.shared_kv_layers", 3);  // the last three read others' caches
  CHECK(layer(shared, 4).key == 64);
  CHECK(layer(shared, 5).key == 0);
  Toy latent;
  latent.set("attention.key_length_mla", 32).set("attention.kv_lora_rank", 64);
  CHECK(layer(latent, 0).key == 64);
  CHECK(layer(latent, 0).value == 0);
  Toy no_latent;
  no_latent.set("attention.kv_lora_rank", 64);
  CHECK(layer(no_latent, 0).value == 64);
  Toy indexed;
  indexed.set("attention.indexer.key_length", 24).add_all({"blk.1.indexer.attn_k.weight"});
  CHECK(layer(indexed, 0).indexer == 0);
  CHECK(layer(indexed, 1).indexer == 24);
}

TEST_CASE("recurrent layers of llama.cpp keep states in place of tokens") {
  Toy states;
  states.set("ssm.conv_kernel", 4).set("ssm.inner_size", 96).set("ssm.state_size", 16);
  states.set("ssm.group_count", 2).set("shortconv.l_cache", 3);
  states.add_all({"blk.0.ssm_conv1d.weight", "blk.1.shortconv.conv.weight",
                  "blk.2.ssm_conv1d.weight", "blk.2.attn_q.weight"});
  const Shape shape = states.shape();
  CHECK(shape.recurs());
  CHECK(shape.layers[0].key == 0);
  CHECK(shape.layers[0].shift_state == 3 * (96 + 2 * 2 * 16));
  CHECK(shape.layers[0].memory_state == 16 * 96);
  CHECK(shape.layers[1].key == 0);
  CHECK(shape.layers[1].shift_state == 2 * 128);
  CHECK(shape.layers[1].memory_state == 0);
  CHECK(shape.layers[2].key == 64);  // it attends beside its recurrence
  CHECK(shape.layers[2].memory_state == 16 * 96);
  CHECK(shape.layers[3].shift_state == 0);
  CHECK(shape.layers[3].key == 64);
  CHECK(!Toy().shape().recurs());
}

TEST_CASE("layers of multi-token prediction are left out, one layer stays") {
  Toy two;
  const Shape shape = two.set("nextn_predict_layers", 2).shape();
  CHECK(shape.count() == 6);
  CHECK(shape.left_out_layers == 2);
  CHECK(Toy("llama", 1).set("nextn_predict_layers", 1).shape().count() == 1);
  CHECK(Toy("llama", 2).set("nextn_predict_layers", 5).shape().count() == 1);
}

TEST_CASE("numbers of a GGUF header beyond what is known are refused by key") {
  const auto said = [](Toy& toy) -> std::string {
    try {
      toy.shape();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  Toy most, more, negative, none;
  CHECK(said(most.set("expert_used_count", 65536)) == "");
  CHECK_THAT(said(more.set("expert_used_count", 65537)),
             Catch::Contains("llama.expert_used_count 65537: at most 65536 is known"));
  CHECK_THAT(said(negative.list("attention.shared_kv_layers", {-1})),
             Catch::Contains("a number from 0 is needed"));
  Toy heads("llama", 2);
  heads.list("attention.head_count", {4, -4});
  CHECK_THAT(said(heads), Catch::Contains("head_count"));
}

TEST_CASE("values of llama.cpp's flags are refused outside their bounds") {
  Toy toy;
  const checkpoint::gguf::Model& model = toy.model();
  const auto ask = [&](Names words, int64_t cards = 2) {
    Question question;
    question.gguf = &model;
    question.words = std::move(words);
    for (int64_t i = 0; i < cards; ++i)
      question.cards.push_back({fmt::format("CUDA{}", i), 24000 * kMiB, 23000 * kMiB});
    return find_engine("llamacpp")->ask(question);
  };
  struct Row {
    Names words;
    const char* says;  // empty: taken
  };
  const Row rows[] = {
      {{"-b", "0"}, "\"-b\": 0 is not from 1 to"},
      {{"-b", "1"}, ""},
      {{"-ub", "0"}, ""},
      {{"-ub", "-1"}, "\"-ub\": -1 is not from 0 to"},
      {{"-np", "-1"}, ""},
      {{"-np", "-2"}, "\"-np\": -2 is not from -1 to"},
      {{"-np", "256"}, ""},
      {{"-np", "257"}, "n_seq_max must be <= 256"},
      {{"-fit", "maybe"}, "\"-fit\": unknown value 'maybe' (on, off or auto)"},
      {{"-fa", "enabled"}, ""},
      {{"-ngl", "x"}, "\"-ngl\": invalid number: x"},
      {{"-ngl", "3x"}, "\"-ngl\": invalid number: 3x"},
      {{"-dev", "CUDA2"}, "\"-dev\": invalid device: CUDA2"},
      {{"-dev", "CUDA1"}, ""},
      {{"-dev", "none"}, ""},
      {{"-ts", "3,x"}, "\"-ts\": invalid number: x"},
      {{"-sm", "diagonal"}, "\"-sm\": invalid value: diagonal"},
      {{"-sm", "row", "-dev", "none"}, ""},
      {{"-sm", "none", "-mg", "1"}, ""},
      {{"-sm", "none", "-mg", "2"}, "invalid value for main_gpu: 2 (available devices: 2)"},
      {{"-sm", "none", "-mg", "-1"}, "invalid value for main_gpu: -1"},
      {{"-sm", "layer", "-mg", "2"}, ""},
      {{"-ot", "ffn"}, "\"-ot\": invalid value"},
      {{"-ot", "ffn=CUDA1"}, ""},
      {{"-fitt", "x"}, "\"-fitt\": invalid number: x"},
      {{"-fitc", "0"}, "\"-fitc\": 0 is not from 1 to"},
      {{"-fa", "off", "-ctk", "q8_0"}, ""},
      {{"-fa", "off", "-ctv", "q8_0"}, "quantized V cache requires flash_attn"},
  };
  for (const Row& row : rows) {
    INFO(Json(row.words).dump());
    const Answer answer = ask(row.words);
    const std::string found = answer.refused ? answer.refused->words : "";
    if (row.says[0] == 0) CHECK(found == "");
    CHECK_THAT(found, Catch::Contains(row.says));
  }
  Toy narrow;
  const checkpoint::gguf::Model& odd =
      narrow.set("attention.key_length", 48).set("attention.value_length", 16).model();
  Question question;
  question.gguf = &odd;
  const auto refused = [&](Names words) {
    question.words = std::move(words);
    const Answer answer = find_engine("llamacpp")->ask(question);
    return answer.refused ? answer.refused->words : "";
  };
  CHECK(refused({"-ctk", "q8_0"}) ==
        "llama_init_from_model: K cache type q8_0 with block size 32 does not divide "
        "n_embd_head_k=48");
  CHECK(refused({"-ctv", "q4_0"}) ==
        "llama_init_from_model: V cache type q4_0 with block size 32 does not divide "
        "n_embd_head_v=16");
  CHECK(refused({"-ctk", "bf16", "-ctv", "f32"}) == "");

  CHECK(ask({"-np", "-1"}).resolved["n_seq_max"] == 4);
  CHECK(ask({"-np", "-1"}).resolved["kv_unified"] == true);
  CHECK(ask({"-np", "0"}).resolved["n_seq_max"] == 4);
  CHECK(ask({"-np", "1"}).resolved["kv_unified"] == false);
  CHECK(ask({"-np", "1", "-kvu"}).resolved["kv_unified"] == true);
  CHECK(ask({"--no-kv-unified"}).resolved["kv_unified"] == false);
  CHECK(ask({"-fitp", "on"}).resolved["n_seq_max"] == 1);
  CHECK(ask({"-b", "64", "-ub", "0"}).resolved["n_ubatch"] == 64);
  CHECK(ask({"-fa"}).notes.size() == 1);
  CHECK(ask({"-fa", "on"}).notes.empty());
  CHECK(ask({"-fa", "off"}).resolved["flash_attn"] == false);
  CHECK(ask({"-fa", "auto"}).resolved["flash_attn"] == true);
  // Placing is told of cards alone, and where it is asked for.
  CHECK(ask({}).sizing.contains("fit"));
  CHECK(!ask({"-fit", "off"}).sizing.contains("fit"));
  CHECK(!ask({}, 0).sizing.contains("fit"));
  CHECK(ask({}).sizing["fit"].contains("tensor_split"));
  CHECK(!ask({}, 1).sizing["fit"].contains("tensor_split"));
}
