// What is asked of engines beside the rows that their own functions answered: releases, command
// lines, hostile configs.
#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "base/error.h"
#include "engines/engine.h"
#include "engines/release.h"
#include "engines/sglang/fraction.h"
#include "engines/sglang/graphs.h"
#include "engines/sglang/releases.h"
#include "like_cases.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

const std::string kData = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/engines/configs/";

Json config_named(const std::string& name) {
  return read_json_file(kData + name + ".json");
}

Answer ask(const std::string& engine, const Json& config, std::vector<std::string> words,
           const char* card = "h100", const std::string& version = "") {
  Question question;
  question.config = &config;
  question.config_path = "config.json";
  question.words = std::move(words);
  question.version = version;
  question.gpu = &hardware::find_gpu(card);
  question.free = FreeMemory{78.45, 63.11};
  return find_engine(engine)->ask(question);
}

std::string refusal(const Answer& answer) {
  return answer.refused ? answer.refused->stage + ": " + answer.refused->words : "";
}

}  // namespace

TEST_CASE("an engine is found by its name and its aliases") {
  CHECK(find_engine("sglang")->name == "sglang");
  CHECK(find_engine("HF")->name == "transformers");
  CHECK(find_engine("trtllm")->name == "tensorrt-llm");
  CHECK(find_engine("vllm") == nullptr);
}

TEST_CASE("the fraction that SGLang takes follows the release") {
  struct Row {
    Version version;
    int64_t mib;
    double fraction;
  };
  // reserved = 512 + 1.5 chunk + 128 + graphs, MiB, by release (releases.cpp).
  const Row rows[] = {
      {{0, 4, 4}, 81559, 0.88},  {{0, 4, 6}, 81559, 0.88},  {{0, 5, 2}, 81559, 0.874},
      {{0, 5, 3}, 81559, 0.835}, {{0, 5, 9}, 81559, 0.835}, {{0, 5, 12}, 81559, 0.83},
      {{0, 5, 23}, 81559, 0.83},
  };
  for (const Row& row : rows) {
    INFO(model::version_text(row.version));
    const Json config = config_named("meta-llama__Meta-Llama-3.1-8B");
    const Answer answer = ask("sglang", config, {}, "h100", model::version_text(row.version));
    CHECK(answer.resolved["mem_fraction_static"] == row.fraction);
  }
  sglang::FractionInputs unknown;  // a card that nvidia-smi does not print
  unknown.version = {0, 5, 20};
  CHECK(sglang::default_fraction(unknown) == 0.88);
  unknown.version = {0, 5, 21};
  CHECK(sglang::default_fraction(unknown) == 0.95);
}

TEST_CASE("the fraction of SGLang follows the launch, rule by rule") {
  using Inputs = sglang::FractionInputs;
  struct Row {
    const char* name;
    Version version;
    int64_t mib;
    std::function<void(Inputs&)> change;
    double fraction;
  };
  const auto ranks = [](int64_t tp, int64_t pp = 1) {
    return [=](Inputs& in) { in.tp = tp, in.pp = pp; };
  };
  const auto asks = [](const char* algorithm) {
    return [=](Inputs& in) { in.speculation = algorithm; };
  };
  const auto plain = [](Inputs&) {};
  const auto deepep = [](Inputs& in) { in.deepep = true; };
  const auto prefill = [](Inputs& in) { in.prefill_sizes = 50; };
  const auto latent = [](Inputs& in) { in.prefill_sizes = 50, in.latent = true; };
  const Row rows[] = {
      {"two ranks", {0, 4, 4}, 81559, ranks(2), 0.87},
      {"four ranks", {0, 4, 4}, 81559, ranks(2, 2), 0.85},
      {"eight ranks", {0, 4, 4}, 81559, ranks(8), 0.81},
      {"sixteen ranks", {0, 4, 4}, 81559, ranks(8, 2), 0.79},
      {"80 GiB count their ranks", {0, 4, 6}, 81920, ranks(8), 0.81},
      {"96 GiB do not", {0, 4, 6}, 98304, ranks(8), 0.88},
      {"18 GiB stay free", {0, 4, 6}, 196608, plain, 0.90625},
      {"of 512 GiB more", {0, 4, 6}, 524288, plain, 0.88 + 49152 * 0.12 / 524288},
      {"2.8 GiB and 0.1 of a rank", {0, 4, 7}, 24 * 1024, ranks(4), 0.867},
      {"from 35 GiB on 9.5 and 0.5", {0, 4, 7}, 35 * 1024, plain, 0.714},
      {"of eight ranks 13.5", {0, 4, 7}, 80 * 1024, ranks(4, 2), 0.831},
      {"from 90 GiB on 12 and 0.5", {0, 4, 7}, 90 * 1024, plain, 0.861},
      {"from 160 GiB on 32", {0, 4, 7}, 160 * 1024, plain, 0.8},
      {"drafts take 2 GiB", {0, 4, 7}, 80 * 1024, asks("EAGLE"), 0.85},
      {"attention ranks 4", {0, 4, 7}, 80 * 1024, [](Inputs& in) { in.attention_dp = 2; }, 0.825},
      // Below, of 100000 MiB: 512 + 1.5 x 8192 + 128 + 2 x 256 = 13440.
      {"a reserve", {0, 5, 15}, 100000, plain, 0.866},
      {"a rank takes 128", {0, 5, 15}, 100000, ranks(2, 4), 0.857},
      {"prompts in one piece", {0, 5, 15}, 100000, [](Inputs& in) { in.chunk = 0; }, 0.743},
      {"at least 10240", {0, 5, 15}, 100000, [](Inputs& in) { in.chunk = 1024; }, 0.898},
      {"less of a small card", {0, 5, 15}, 50000, [](Inputs& in) { in.chunk = 1024; }, 0.916},
      {"no graphs", {0, 5, 15}, 100000, [](Inputs& in) { in.decode_graphs = false; }, 0.871},
      {"which cost once", {0, 5, 10}, 100000, [](Inputs& in) { in.decode_graphs = false; }, 0.866},
      {"3 x 256 of 4", {0, 5, 15}, 100000, [](Inputs& in) { in.attention_dp = 4; }, 0.835},
      {"above 300 half as much more",
       {0, 5, 15},
       100000,
       [](Inputs& in) { in.attention_dp = 4, in.largest_decode_graph = 400; },
       0.791},
      {"2048 of DeepEP", {0, 5, 15}, 100000, deepep, 0.845},
      {"not before 0.5.15", {0, 5, 10}, 100000, deepep, 0.866},
      {"8 of a prefill graph", {0, 5, 15}, 100000, prefill, 0.862},
      {"1536 of a latent's", {0, 5, 15}, 100000, latent, 0.85},
      {"not before 0.5.10", {0, 5, 8}, 100000, latent, 0.862},
      {"1024 of those that break",
       {0, 5, 15},
       100000,
       [](Inputs& in) { in.prefill_sizes = 50, in.deepep = in.breakable_prefill = true; },
       0.831},
      {"a fourth of the tokens", {0, 5, 5}, 100000, prefill, 0.845},
      {"an eighth of them", {0, 5, 6}, 100000, prefill, 0.855},
      {"2 GiB of drafts", {0, 5, 3}, 100000, asks("EAGLE"), 0.845},
      {"4 GiB of drafts", {0, 5, 10}, 100000, asks("EAGLE"), 0.825},
      {"6 GiB of a draft model", {0, 5, 10}, 100000, asks("STANDALONE"), 0.804},
      {"none of n-grams", {0, 5, 10}, 100000, asks("NGRAM"), 0.866},
      {"none from 0.5.15 on", {0, 5, 15}, 100000, asks("EAGLE"), 0.866},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Inputs inputs;
    inputs.version = row.version;
    inputs.card_mib = row.mib;
    inputs.chunk = 8192;
    inputs.max_prefill = 16384;
    inputs.largest_decode_graph = 256;
    row.change(inputs);
    CHECK(sglang::default_fraction(inputs) == Approx(row.fraction).epsilon(1e-9));
  }
}

TEST_CASE("an encoder makes SGLang's fraction smaller, within bounds") {
  const auto factor = [](const Json& changes) {
    Json config = config_named("meta-llama__Meta-Llama-3.1-8B");
    config.merge_patch(changes);
    return sglang::multimodal_factor(ModelConfig(config, "config.json"));
  };
  const auto vision = [](int64_t layers, int64_t hidden) {
    return Json{{"num_hidden_layers", layers}, {"hidden_size", hidden}};
  };
  const auto named = [](const char* name) { return Json{{"architectures", {name}}}; };
  CHECK(factor(Json::object()) == 1);
  CHECK(factor({{"vision_config", vision(24, 1024)}}) == Approx(0.95));
  CHECK(factor({{"vision_config", vision(48, 1024)}}) == Approx(0.95 * 0.9));
  CHECK(factor({{"vision_config", vision(240, 1024)}}) == Approx(0.95 * 0.8));
  CHECK(factor({{"vision_config", vision(1, 64)}}) == Approx(0.95 * 1.05));
  CHECK(factor({{"thinker_config", {{"vision_config", vision(48, 1024)}}}}) == Approx(0.95 * 0.9));
  CHECK(factor(named("Llama4ForConditionalGeneration")) ==
        Approx(0.95 * (1.1 - 0.1 * 34 * 768 * 768 / (24.0 * 1024 * 1024))));
  Json qwen = named("Qwen2VLForConditionalGeneration");
  qwen["vision_config"] = {{"num_hidden_layers", 4}};  // 3584 wide
  CHECK(factor(qwen) == Approx(0.95 * (1.1 - 0.1 * 4 * 3584 * 3584 / (24.0 * 1024 * 1024))));
}

TEST_CASE("defaults by card are those of the release") {
  CHECK(sglang::tier_of({0, 5, 20}, 24564).chunk == 2048);
  CHECK(sglang::tier_of({0, 5, 20}, 24564).graphs == 24);
  CHECK(sglang::tier_of({0, 5, 21}, 24564).chunk == 4096);
  CHECK(sglang::tier_of({0, 5, 21}, 24564).graphs == 48);
  CHECK(sglang::tier_of({0, 5, 23}, std::nullopt).chunk == 4096);
}

TEST_CASE("sizes of graphs end at the largest") {
  CHECK(sglang::decode_sizes(1000, false, true).back() == 1000);
  CHECK(sglang::decode_sizes(512, true, true).size() == 67);
  CHECK(sglang::prefill_sizes(16384).size() == 74);
  CHECK(sglang::prefill_sizes(-1).empty());
  CHECK(sglang::decode_sizes(int64_t{1} << 40, false, false).size() <= 1 << 16);
}

TEST_CASE("a release that is not known is planned as the newest") {
  const Json config = config_named("meta-llama__Meta-Llama-3.1-8B");
  const Answer answer = ask("sglang", config, {}, "h100", "0.6.1");
  CHECK(answer.version == "0.5.23");
  CHECK(answer.asked_for == "0.6.1");
  CHECK_THROWS_WITH(ask("sglang", config, {}, "h100", "new"),
                    Catch::Contains("--engine-version new: expected a version such as 0.5.23"));
}

TEST_CASE("a command line is refused in argparse's words") {
  const Json config = config_named("meta-llama__Meta-Llama-3.1-8B");
  const auto said = [&](std::vector<std::string> words) {
    return refusal(ask("sglang", config, std::move(words)));
  };
  CHECK(said({"--tp", "2"}) == "");
  CHECK(said({"--tp-size=two"}) ==
        "arguments: sglang serve: error: argument --tensor-parallel-size/--tp-size: invalid int "
        "value: 'two'");
  CHECK(said({"--page-size"}) ==
        "arguments: sglang serve: error: argument --page-size: expected one argument");
  CHECK(said({"--no-such-flag", "3"}) ==
        "arguments: sglang serve: error: unrecognized arguments: --no-such-flag 3");
  CHECK(said({"--disable-radix-cache=1"}) ==
        "arguments: sglang serve: error: argument --disable-radix-cache: ignored explicit argument "
        "'1'");
}

TEST_CASE("SGLang takes former names of its flags at the releases that took them") {
  const Json llama = config_named("meta-llama__Meta-Llama-3.1-8B");
  const auto resolved = [&](std::vector<std::string> words, const char* version) {
    return ask("sglang", llama, std::move(words), "h100", version).resolved;
  };
  const OrderedJson few = resolved({"--cuda-graph-max-bs-decode", "8"}, "0.5.19");
  CHECK(resolved({"--cuda-graph-max-bs", "8"}, "0.5.19") == few);
  CHECK(resolved({"--cuda-graph-max-bs=8"}, "0.5.12")["decode_graphs"] == few["decode_graphs"]);
  CHECK(resolved({"--cuda-graph-bs", "1", "2", "4", "8"}, "0.5.19")["decode_graphs"] ==
        few["decode_graphs"]);
  CHECK(resolved({}, "0.5.12")["prefill_graphs"].size() > 1);
  CHECK(resolved({"--disable-piecewise-cuda-graph"}, "0.5.12")["prefill_graphs"].is_null());
  CHECK(resolved({"--piecewise-cuda-graph-max-tokens", "64"}, "0.5.12")["prefill_graphs"].back() ==
        64);
  CHECK(resolved({}, "0.5.9")["prefill_graphs"].is_null());
  CHECK(resolved({"--enable-piecewise-cuda-graph"}, "0.5.9")["prefill_graphs"].size() > 1);
  CHECK_THAT(refusal(ask("sglang", llama, {"--cuda-graph-max-bs", "8"}, "h100", "0.5.20")),
             Catch::Contains("ambiguous option: --cuda-graph-max-bs"));
  CHECK_THAT(refusal(ask("sglang", llama, {"--enable-piecewise-cuda-graph"}, "h100", "0.5.12")),
             Catch::Contains("unrecognized arguments: --enable-piecewise-cuda-graph"));
}

TEST_CASE("TensorRT-LLM stores keys and values as a ModelOpt checkpoint says") {
  Json config = config_named("meta-llama__Meta-Llama-3.1-8B");
  const auto token_bytes = [&](std::vector<std::string> words) {
    return ask("tensorrt-llm", config, std::move(words)).sizing["kv_bytes_per_token"];
  };
  const int64_t whole = token_bytes({});
  config["quantization_config"] = {
      {"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"kv_cache_quant_algo", "FP8"}};
  CHECK(token_bytes({}) == whole / 2);
  config["quantization_config"].erase("kv_cache_quant_algo");
  CHECK(token_bytes({}) == whole);
  CHECK(token_bytes({"--kv-cache-dtype", "fp8"}) == whole / 2);
}

TEST_CASE("TensorRT-LLM's file of further options is said not to be read") {
  const Json config = config_named("meta-llama__Meta-Llama-3.1-8B");
  const Answer plain = ask("tensorrt-llm", config, {});
  for (const char* flag : {"--extra_llm_api_options", "--extra-llm-api-options", "--config"}) {
    const Answer answer = ask("tensorrt-llm", config, {flag, "extra.yaml"});
    REQUIRE(answer.notes.size() == plain.notes.size() + 1);
    CHECK_THAT(answer.notes.back(), Catch::Contains("--extra_llm_api_options is not read") &&
                                        Catch::Contains("states it as JSON"));
    CHECK(answer.sizing == plain.sizing);
  }
}

TEST_CASE("fields of a Python config are checked by name and type") {
  const Json config = config_named("meta-llama__Meta-Llama-3.1-8B");
  Question question;
  question.config = &config;
  question.config_path = "config.json";
  question.gpu = &hardware::find_gpu("h100");
  question.fields = Json{{"max_batch", 4}};
  CHECK(refusal(find_engine("lmdeploy")->ask(question)) ==
        "arguments: TypeError: PytorchEngineConfig.__init__() got an unexpected keyword argument "
        "'max_batch'");
  question.fields = Json{{"max_batch_size", "many"}};
  CHECK_THROWS_WITH(find_engine("lmdeploy")->ask(question),
                    "--engine-args: \"max_batch_size\" is \"many\", expected an integer");
}

TEST_CASE("no number of a config brings an engine down") {
  size_t number = 0;
  for (const char* name :
       {"deepseek-ai__DeepSeek-V3.2", "deepseek-ai__DeepSeek-V4-Flash", "Qwen__Qwen3.5-27B",
        "openai__gpt-oss-20b", "XiaomiMiMo__MiMo-V2-Flash", "google__gemma-3-27b-it"}) {
    const Json config = config_named(name);
    const Json flat = config.flatten();
    for (const auto& [pointer, value] : flat.items()) {
      for (const Json& strange : {Json(0), Json(-1), Json(int64_t{1} << 31), Json(1e300), Json("x"),
                                  Json(nullptr), Json::array({1}), Json::object()}) {
        if (!testing::is_taken(number++, 3)) continue;
        Json changed = config;
        changed[Json::json_pointer(pointer)] = strange;
        INFO(name << " " << pointer << " " << strange.dump());
        for (const Engine& engine : engines::engines()) {
          try {
            const Answer answer = ask(std::string(engine.name), changed, {});
            CHECK((answer.refused || answer.figures.kv_tokens >= 0));
          } catch (const Error& error) {
            CHECK(error.what() != std::string());
          }
        }
      }
    }
  }
}
