// What a launch for vLLM answers with, text or vectors, and what that changes in its memory.
#include "vllm/launch/runner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "plan/scene.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

Json of_class(const char* architecture) {
  return with(llama_8b(), {{"architectures", {architecture}}});
}

/// "convert=embed sentences": settings as words.
PoolingArgs asks(const std::string& words) {
  PoolingArgs args;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    const size_t at = std::min(word.find('='), word.size());
    const std::string key = word.substr(0, at), value = word.substr(std::min(at + 1, word.size()));
    if (key == "runner") args.runner = value;
    if (key == "convert") args.convert = value;
    if (key == "task") args.task = value;
    if (key == "type") args.type = value;
    if (key == "sentences") args.sentences = true;
  }
  return args;
}

Runner runner(const Json& config, const PoolingArgs& pooling) {
  EngineArgs args;
  args.pooling = pooling;
  return runner_of(ConfigView(config, "config.json"), args);
}

bool in_parts(const Json& config, VllmVersion version, const PoolingArgs& pooling) {
  EngineArgs args;
  args.version = version;
  args.pooling = pooling;
  return pools_in_parts(ConfigView(config, "config.json"), args);
}

/// Vectors of a model that generates.
void embeds(EngineArgs& args) {
  args.pooling.runner = "pooling";
}

EngineArgs asking(const Ask& ask, VllmVersion version = {}) {
  EngineArgs args;
  args.version = version;
  ask(args);
  return args;
}

}  // namespace

TEST_CASE("flags, files and the class say whether a launch answers with vectors") {
  struct Row {
    const char* architecture;
    PoolingArgs pooling;
    bool pools;
    Converts converts;
  };
  constexpr auto kNothing = Converts::nothing, kVectors = Converts::to_vectors,
                 kClasses = Converts::to_classes;
  for (const Row& row :
       std::vector<Row>{{"LlamaForCausalLM", {}, false, kNothing},
                        {"LlamaForCausalLM", asks("runner=pooling"), true, kVectors},
                        {"LlamaForCausalLM", asks("runner=generate"), false, kNothing},
                        {"LlamaForCausalLM", asks("convert=embed"), true, kVectors},
                        {"LlamaForCausalLM", asks("convert=classify"), true, kClasses},
                        {"LlamaForCausalLM", asks("convert=none"), false, kNothing},
                        {"LlamaForCausalLM", asks("task=embed"), true, kVectors},
                        {"LlamaForCausalLM", asks("task=score"), true, kClasses},
                        {"LlamaForCausalLM", asks("task=classify"), true, kClasses},
                        {"LlamaForCausalLM", asks("task=generate"), false, kNothing},
                        {"LlamaForCausalLM", asks("task=transcription"), false, kNothing},
                        {"LlamaForCausalLM", asks("sentences"), true, kVectors},
                        // Flags come before files.
                        {"LlamaForCausalLM", asks("runner=generate sentences"), false, kNothing},
                        {"LlamaForCausalLM", asks("task=generate sentences"), false, kNothing},
                        {"LlamaForCausalLM", asks("convert=none"), false, kNothing},
                        {"LlamaModel", {}, true, kNothing},
                        {"LlamaForSequenceClassification", {}, true, kNothing},
                        {"Qwen2ForRewardModel", {}, true, kNothing},
                        {"BertForMaskedLM", {}, true, kNothing},
                        {"GPT2LMHeadModel", {}, false, kNothing},
                        {"ChatGLMModel", {}, false, kNothing},
                        {"UltravoxModel", {}, false, kNothing},
                        {"Qwen3Model", {}, true, kNothing},
                        {"InternVLChatModel", {}, false, kNothing}}) {
    INFO(row.architecture << " " << row.pooling.runner << " " << row.pooling.convert << " "
                          << row.pooling.task << " " << row.pooling.sentences);
    const Runner found = runner(of_class(row.architecture), row.pooling);
    CHECK(found.pools == row.pools);
    CHECK(found.converts == row.converts);
  }
  CHECK_THROWS_WITH(runner(of_class("LlamaModel"), asks("runner=generate")),
                    Catch::Contains("does not support `--runner generate`"));
  CHECK_THROWS_WITH(runner(of_class("LlamaModel"), asks("task=generate")),
                    Catch::Contains("does not support the 'generate' task"));
  CHECK_THROWS_WITH(
      runner(of_class("LlamaForCausalLM"), asks("runner=pooling convert=none")),
      Catch::Contains("does not support `--runner pooling`. You can pass `--convert"));
}

TEST_CASE("models that generate answer with vectors since 0.6.5") {
  const Json llama = llama_8b();
  const auto pools = [&](VllmVersion version, const PoolingArgs& pooling) {
    EngineArgs args = at(version);
    args.pooling = pooling;
    return runner_of(ConfigView(llama, "config.json"), args).pools;
  };
  CHECK_FALSE(pools({0, 6, 4}, asks("sentences")));
  CHECK(pools({0, 6, 5}, asks("sentences")));
  CHECK(pools({0, 6, 5}, asks("task=embedding")));
  CHECK_THROWS_WITH(pools({0, 6, 4}, asks("task=embedding")),
                    "This model does not support the 'embedding' task. vLLM 0.6.5 has it.");
}

TEST_CASE("conversions have their releases") {
  const Json llama = llama_8b();
  const auto converts = [&](VllmVersion version, const std::string& words) {
    EngineArgs args = at(version);
    args.pooling = asks(words);
    return runner_of(ConfigView(llama, "config.json"), args).converts;
  };
  CHECK(converts({0, 22, 0}, "convert=embed") == Converts::to_vectors);
  CHECK_THROWS_WITH(converts({0, 21, 0}, "convert=embed"),
                    Catch::Contains("for --runner pooling alone: add it"));
  CHECK(converts({0, 21, 0}, "runner=pooling convert=embed") == Converts::to_vectors);
  CHECK(converts({0, 21, 0}, "convert=embed sentences") == Converts::to_vectors);
  CHECK(converts({0, 15, 1}, "runner=pooling convert=reward") == Converts::to_vectors);
  CHECK_THROWS_WITH(converts({0, 16, 0}, "runner=pooling convert=reward"),
                    Catch::Contains("vLLM has it from 0.10.1 to 0.15.1"));
}

TEST_CASE("the pooling of sentence-transformers' file is read in its spellings") {
  for (const auto& [text, type] :
       {std::pair{R"({"pooling_mode_lasttoken": true})", "LAST"},
        {R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false})", "MEAN"},
        {R"({"pooling_mode_cls_token": true, "word_embedding_dimension": 8})", "CLS"},
        {R"({"pooling_mode": "mean"})", "MEAN"},
        {R"({"pooling_mode": "lasttoken"})", "LAST"},
        {R"({"include_prompt": true})", ""},
        {R"({"pooling_mode_max_tokens": true})", ""},
        {R"({"pooling_mode_cls_token": 1})", ""},
        {"[]", ""},
        {"{}", ""}}) {
    INFO(text);
    CHECK(stated_pooling(parse_json<Json>(text)) == type);
  }
}

TEST_CASE("prompts are read in parts where a vector is made of tokens that the parts have") {
  const Json llama = llama_8b();
  for (const char* type : {"MEAN", "CLS", "STEP"}) {
    INFO(type);
    CHECK_FALSE(in_parts(llama, {0, 11, 0}, asks(std::string("type=") + type)));
    CHECK_FALSE(in_parts(llama, {0, 33, 0}, asks(std::string("type=") + type)));
  }
  CHECK(in_parts(llama, {0, 8, 0}, asks("type=LAST")));
  CHECK_FALSE(in_parts(llama, {0, 10, 0}, {}));  // a type that nothing states is none
  CHECK(in_parts(llama, {0, 10, 1}, {}));
  CHECK_FALSE(in_parts(llama, {0, 12, 0}, asks("type=ALL")));
  CHECK(in_parts(llama, {0, 13, 0}, asks("type=ALL")));
  const PoolingArgs rewards = asks("runner=pooling convert=reward");
  CHECK_FALSE(in_parts(llama, {0, 12, 0}, rewards));
  CHECK(in_parts(llama, {0, 13, 0}, rewards));
  CHECK_FALSE(in_parts(of_class("Qwen2ForRewardModel"), {0, 12, 0}, {}));
  CHECK(in_parts(of_class("Qwen2ForRewardModel"), {0, 13, 0}, {}));
  CHECK_FALSE(in_parts(of_class("Qwen2ForProcessRewardModel"), {0, 33, 0}, {}));
}

TEST_CASE("a model that is made to answer with vectors has no head and samples nothing") {
  constexpr int64_t kHead = int64_t{128256} * 4096 * 2;
  const Json llama = llama_8b();
  const PlanResult text = plan_of(llama), vectors = plan_of(llama, asking(embeds));
  CHECK(text.weights_bytes - vectors.weights_bytes == kHead);
  CHECK(part_bytes(text, "sampler state") > 0);
  CHECK(part_bytes(vectors, "sampler state") == 0);
  CHECK(vectors.kv_cache_bytes > text.kv_cache_bytes + kHead);
  // Decoding is not all that its steps do: whole graphs are of no use.
  CHECK(vectors.cuda_graphs < text.cuda_graphs);
  CHECK_THAT(notes(vectors), Catch::Contains("answers with vectors, as its command line asks"));
  CHECK_THAT(notes(text), !Catch::Contains("answers with"));

  // Two classes, in float32 on each rank.
  EngineArgs classes = asking(embeds);
  classes.pooling.convert = "classify";
  const PlanResult classified = plan_of(llama, classes);
  CHECK(classified.weights_bytes - vectors.weights_bytes == 4096 * 2 * 4);
  CHECK_THAT(notes(classified), Catch::Contains("answers with classes"));

  EngineArgs by_file;
  by_file.pooling.sentences = true;
  const PlanResult sentences = plan_of(llama, by_file);
  CHECK(sentences.kv_cache_bytes == vectors.kv_cache_bytes);
  CHECK_THAT(notes(sentences), Catch::Contains("as modules.json beside the model asks"));
  CHECK(part_bytes(plan_of(of_class("LlamaModel")), "sampler state") == 0);
}

TEST_CASE("a step of whole prompts holds the longest one") {
  const Json llama = llama_8b();
  const auto tokens = [&](const Ask& ask, VllmVersion version) {
    return plan_of(llama, asking(ask, version), "h200").max_num_batched_tokens;
  };
  const Ask mean = [](EngineArgs& args) {
    embeds(args);
    args.pooling.type = "MEAN";
    args.max_model_len = 4000;
  };
  CHECK(tokens(embeds, {0, 33, 0}) == 8192);
  CHECK(tokens(mean, {0, 33, 0}) == 8192);
  CHECK(tokens(mean, {0, 11, 0}) == 4000);
  CHECK(tokens(mean, {0, 11, 1}) == 8192);
  const Ask given = [&](EngineArgs& args) {
    mean(args);
    args.max_num_batched_tokens = 6000;
  };
  CHECK(tokens(given, {0, 10, 0}) == 4000);  // the flag is overridden
  CHECK(tokens(given, {0, 10, 1}) == 6000);
  const Ask longest = [&](EngineArgs& args) {
    mean(args);
    args.max_model_len = 20000;
  };
  CHECK(tokens(longest, {0, 33, 0}) == 20000);
  const Ask whole = [](EngineArgs& args) {
    args.chunked_prefill = false;
    args.max_model_len = 20000;
  };
  CHECK(tokens(whole, {0, 11, 2}) == 8192);  // generating models read in parts all the same
  CHECK(tokens(whole, {0, 12, 0}) == 20000);
  const Ask whole_vectors = [&](EngineArgs& args) {
    whole(args);
    embeds(args);
  };
  CHECK(tokens(whole_vectors, {0, 11, 0}) == 20000);
  const Ask parts = [&](EngineArgs& args) {
    longest(args);
    args.chunked_prefill = true;
  };
  CHECK(tokens(parts, {0, 11, 0}) == 20000);  // the mean is not made of parts
  CHECK(tokens(parts, {0, 12, 0}) == 8192);
}
