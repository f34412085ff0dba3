// Values of flags in vLLM's forms: what is taken, at its bounds, and what is not.
#include "launch/values.h"

#include <catch2/catch.hpp>

#include "base/json.h"
#include "launch/overrides.h"

using namespace plimsoll;
using namespace plimsoll::launch;
using Catch::Contains;
using vllm::EngineArgs;

namespace {

template <class Reader>
EngineArgs read(Reader reader, const std::string& text) {
  EngineArgs args;
  reader(text, args);
  return args;
}

}  // namespace

TEST_CASE("a number is all of its text") {
  CHECK(parse_number("0.5") == 0.5);
  CHECK(parse_number("-1e3") == -1000);
  for (const char* wrong : {"", "x", "1x", "1 ", "."})
    CHECK_THROWS_AS(parse_number(wrong), std::invalid_argument);
}

TEST_CASE("--compilation-config by level, sizes and mode") {
  const auto compiled = [](const std::string& text) { return read(read_compilation, text); };
  CHECK(compiled("0").graphs.level == 0);
  CHECK(compiled("3").graphs.level == 3);
  CHECK(!compiled("3").capture_sizes);
  for (const char* key : {"level", "mode"}) {
    const std::string name = std::string("{\"") + key + "\": ";
    CHECK(compiled(name + "0}").graphs.compile == 0);
    CHECK(compiled(name + "3}").graphs.compile == 3);
    CHECK(compiled(name + "\"stock_torch_compile\"}").graphs.compile == 1);
    CHECK(!compiled(name + "null}").graphs.compile);
  }
  CHECK(compiled(R"({"cudagraph_capture_sizes": [1, 4]})").capture_sizes ==
        std::vector<int64_t>{1, 4});
  CHECK(compiled(R"({"cudagraph_capture_sizes": []})").capture_sizes == std::vector<int64_t>{});
  CHECK(compiled(R"({"max_cudagraph_capture_size": 16})").graphs.largest == 16);
  for (const char* mode :
       {"NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE", "full"}) {
    INFO(mode);
    const EngineArgs args = compiled(std::string(R"({"cudagraph_mode": ")") + mode + "\"}");
    CHECK(args.graphs.mode == (std::string(mode) == "full" ? "FULL" : mode));
    CHECK(!args.enforce_eager);
  }
  CHECK(compiled(R"({"cudagraph_mode": null})").graphs.mode.empty());
  CHECK(compiled(R"({"cudagraph_mode": 0})").graphs.mode == "NONE");
  CHECK(compiled(R"({"cudagraph_mode": 2})").graphs.mode == "FULL");
  CHECK(compiled(R"({"full_cuda_graph": true})").graphs.mode == "FULL");
  CHECK(compiled("{}").graphs.by_adapters);
  CHECK(!compiled(R"({"cudagraph_specialize_lora": false})").graphs.by_adapters);
  CHECK(compiled(R"({"use_cudagraph": false})").graphs.mode == "NONE");
  for (const char* wrong :
       {"-1", "4", R"({"level": 4})", R"({"level": -1})", R"("O2")", "[1]", "{",
        R"({"cudagraph_capture_sizes": [0]})", R"({"cudagraph_capture_sizes": ["1"]})",
        R"({"cudagraph_mode": "SOME"})", R"({"cudagraph_mode": true})", R"({"mode": 4})",
        R"({"mode": "foo"})", R"({"level": 1.5})", R"({"cudagraph_mode": 3})",
        R"({"cudagraph_capture_sizes": "x"})", R"({"max_cudagraph_capture_size": 0})",
        R"({"max_cudagraph_capture_size": "1"})"}) {
    INFO(wrong);
    CHECK_THROWS_AS(compiled(wrong), std::invalid_argument);
  }
}

TEST_CASE("--cuda-graph-sizes is one number, or the sizes") {
  CHECK(read(read_graph_sizes, "24").graphs.up_to == 24);
  CHECK(!read(read_graph_sizes, "24").capture_sizes);
  CHECK(read(read_graph_sizes, "1,20").capture_sizes == std::vector<int64_t>{1, 20});
  CHECK_THROWS_AS(read(read_graph_sizes, "2000000"), std::invalid_argument);
}

TEST_CASE("--speculative-config's keys, each at its bounds") {
  const auto speculated = [](const std::string& text) { return read(read_speculation, text); };
  const EngineArgs args = speculated(R"({"method": "ngram", "num_speculative_tokens": 3,
      "prompt_lookup_min": 1, "prompt_lookup_max": 1048576, "model": "draft"})");
  CHECK(args.draft_method == "ngram");
  CHECK(args.draft_tokens == 3);
  CHECK(args.lookup_min == 1);
  CHECK(args.lookup_max == 1048576);
  CHECK(args.draft_model == "draft");
  CHECK(speculated("{}").draft_method == "draft_model");
  CHECK(speculated("{}").draft_model.empty());
  CHECK(speculated(R"({"method": "[ngram]"})").draft_method == "ngram");
  CHECK(speculated(R"({"method": 3})").draft_method == "draft_model");
  CHECK(speculated(R"({"num_speculative_tokens": 0})").draft_tokens == 0);
  CHECK(speculated(R"({"num_speculative_tokens": "3"})").draft_tokens == 0);
  CHECK(speculated(R"({"quantization": "fp8", "draft_tensor_parallel_size": 1})").lookup_max == 0);
  CHECK_THROWS_WITH(speculated(R"({"prompt_lookup_mx": 4})"),
                    "prompt_lookup_mx is no known key; did you mean prompt_lookup_max?");
  for (const char* wrong : {"3", R"({"num_speculative_tokens": -1})",
                            R"({"num_speculative_tokens": 1048577})", R"({"prompt_lookup_min": 0})",
                            R"({"prompt_lookup_max": 0})", R"({"prompt_lookup_max": 1048577})"}) {
    INFO(wrong);
    CHECK_THROWS_AS(speculated(wrong), std::invalid_argument);
  }
}

TEST_CASE("dtypes by vLLM's names, short ones with the long one that is meant") {
  for (const char* name : {"auto", "bfloat16", "float16", "half", "float32", "float"})
    CHECK(read_dtype_name(name) == name);
  for (const auto& [wrong, meant] :
       {std::pair{"bf16", "bfloat16"}, std::pair{"fp16", "float16"}, std::pair{"f16", "float16"},
        std::pair{"fp32", "float32"}, std::pair{"f32", "float32"},
        std::pair{"bfloat61", "bfloat16"}}) {
    INFO(wrong);
    CHECK_THROWS_WITH(read_dtype_name(wrong), Contains(meant) && Contains("did you mean"));
  }
}

TEST_CASE("--hf-overrides given twice are one") {
  EngineArgs args;
  read_overrides(R"({"a": 1, "b": {"c": 1}})", args);
  read_overrides(R"({"b": 2})", args);
  REQUIRE(args.overrides);
  CHECK(*args.overrides == Json{{"a", 1}, {"b", 2}});
  CHECK_THROWS_AS(read_overrides("[1]", args), std::invalid_argument);
}

TEST_CASE("limits of modalities, in both of vLLM's forms") {
  const auto limits = [](const std::string& text) {
    return read(read_modality_limits, text).limits;
  };
  const auto counted = limits("image=2,video=0,audio=7");
  CHECK(counted.size() == 3);
  CHECK(counted.at("image").count == 2);
  CHECK(counted.at("video").count == 0);
  CHECK(counted.at("audio").count == 7);
  const auto sized = limits(
      R"({"image": {"count": 5, "width": 512, "height": 256}, "video": {"num_frames": 9},
          "vision_chunk": 4, "audio": {"count": 0, "length": 16000}})");
  CHECK(sized.at("image").count == 5);
  CHECK(sized.at("image").width == 512);
  CHECK(sized.at("image").height == 256);
  CHECK(sized.at("image").frames == 0);
  CHECK(sized.at("video").count == 999);
  CHECK(sized.at("video").frames == 9);
  CHECK(sized.at("video").width + sized.at("video").height == 0);
  CHECK(sized.at("vision_chunk").count == 4);
  CHECK(sized.at("audio").count == 0);
  CHECK(sized.at("audio").samples == 16000);
  for (const char* wrong :
       {"image", "image=x", "images=1", "image=1,", R"({"images": 1})", R"({"image": -1})",
        R"({"image": {"count": -1}})", R"({"image": "1"})", R"([{"image": 1}])"}) {
    INFO(wrong);
    CHECK_THROWS_AS(limits(wrong), std::invalid_argument);
  }
}

TEST_CASE("--speculative-config's method is vLLM's, named or by the model") {
  const auto speculated = [](const std::string& text) { return read(read_speculation, text); };
  for (const char* model : {"ngram", "[ngram]"}) {
    INFO(model);
    CHECK(speculated(Json{{"model", model}}.dump()).draft_method == "ngram");
  }
  CHECK(speculated(R"({"method": "eagle", "model": "ngram"})").draft_method == "eagle");
  for (const char* method : {"mtp", "qwen3_next_mtp", "ernie_mtp", "extract_hidden_states"})
    CHECK(speculated(Json{{"method", method}}.dump()).draft_method == method);
  CHECK_THROWS_WITH(speculated(R"({"method": "eagel"})"), Contains("did you mean eagle"));
  CHECK(speculated(R"({"draft_sample_method": "probabilistic"})").draft_logits);
  CHECK(!speculated(R"({"draft_sample_method": "greedy"})").draft_logits);
  CHECK(!speculated("{}").draft_logits);
}

TEST_CASE("each key of --engram-config sets its own field") {
  const auto tables = [](const std::string& text) { return read(read_tables, text).tables; };
  const vllm::TableArgs none = tables("{}");
  CHECK(none.given);
  CHECK(!none.offload);
  CHECK(!none.shared);
  CHECK(!none.over_replicas);
  CHECK(!none.huge_pages);
  const auto shown = [&](const std::string& text) {
    const vllm::TableArgs args = tables(text);
    const auto one = [](std::optional<bool> value) { return value ? (*value ? 'y' : 'n') : '-'; };
    return std::string{one(args.offload), one(args.over_replicas), one(args.shared),
                       one(args.huge_pages)};
  };
  CHECK(shown(R"({"cpu_offload": true})") == "yn-n");
  CHECK(shown(R"({"cpu_offload": false})") == "nn-n");
  CHECK(shown(R"({"embedding_across_dp": true})") == "-y-n");
  CHECK(shown(R"({"dp_shared_memory": true})") == "-nyn");
  CHECK(shown(R"({"dp_shared_memory": false})") == "-nnn");
  CHECK(shown(R"({"dp_shared_memory": null})") == "-n-n");
  CHECK(shown(R"({"use_thp": true})") == "-n-y");
  CHECK_THROWS_WITH(tables(R"({"use_thp": null})"), Contains("true or false for \"use_thp\""));
  CHECK_THROWS_WITH(tables(R"({"cpu_offload": 1})"), Contains("\"cpu_offload\""));
  CHECK_THROWS_WITH(tables(R"({"cpu_ofload": true})"), Contains("has no \"cpu_ofload\""));
}

TEST_CASE("--pooler-config takes the type under each of vLLM's names") {
  for (const char* key : {"pooling_type", "seq_pooling_type", "tok_pooling_type"}) {
    INFO(key);
    CHECK(read(read_pooler, Json{{key, "MEAN"}}.dump()).pooling.type == "MEAN");
    CHECK(read(read_pooler, Json{{key, nullptr}}.dump()).pooling.type.empty());
    CHECK_THROWS_AS(read(read_pooler, Json{{key, "MEDIAN"}}.dump()), std::invalid_argument);
    CHECK_THROWS_AS(read(read_pooler, Json{{key, 3}}.dump()), std::invalid_argument);
  }
}

TEST_CASE("overrides are merged into inner configs, and stand for all else whole") {
  const Json stated = {{"a", {{"x", 1}, {"y", 2}}},
                       {"text_config", {{"x", 1}, {"y", 2}}},
                       {"quantization_config", {{"x", 1}, {"y", 2}}},
                       {"rope_scaling", {{"factor", 2}}},
                       {"rope_parameters", {{"factor", 2}}}};
  const auto overridden = [&](const Json& overrides) {
    Json config = stated;
    override_config(config, overrides);
    return config;
  };
  const Json three = {{"x", 3}}, merged = {{"x", 3}, {"y", 2}};
  CHECK(overridden({{"a", three}})["a"] == three);
  CHECK(overridden({{"text_config", three}})["text_config"] == merged);
  CHECK(overridden({{"quantization_config", three}})["quantization_config"] == three);
  CHECK(overridden({{"vision_config", three}})["vision_config"] == three);
  CHECK(overridden({{"text_config", nullptr}})["text_config"].is_null());
  // Both keys state the same, so the one that is not overridden goes.
  for (const auto& [key, other] :
       {std::pair{"rope_scaling", "rope_parameters"}, {"rope_parameters", "rope_scaling"}}) {
    INFO(key);
    const Json config = overridden({{key, three}});
    CHECK(config[key] == three);
    CHECK(!config.contains(other));
  }
}

TEST_CASE("a value that is no JSON is told the column") {
  CHECK_THROWS_WITH(read(read_overrides, R"({"a": x})"), Contains("column 7"));
}
