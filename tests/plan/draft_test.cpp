// Draft models: weights as vLLM 0.32.0's classes have them on the meta device, caches beside the
// target's.
#include <catch2/catch.hpp>
#include <memory>

#include "base/json.h"
#include "plan/configs.h"
#include "plan/pooled_configs.h"
#include "plan/vllm_plan.h"
#include "vllm/launch/draft.h"

namespace plimsoll::plan {

using namespace vllm;
namespace {

Json llama(int64_t layers, int64_t positions) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"torch_dtype", "bfloat16"},
          {"hidden_size", 4096},
          {"intermediate_size", 14336},
          {"num_hidden_layers", layers},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 8},
          {"vocab_size", 128256},
          {"max_position_embeddings", positions},
          {"tie_word_embeddings", false}};
}

EngineArgs drafted(const char* method, Json draft, int64_t ranks) {
  EngineArgs args;
  args.tensor_parallel = ranks;
  args.draft_method = method;
  args.draft_model = "draft";
  args.draft_tokens = 3;
  args.draft_config = std::make_shared<const Json>(std::move(draft));
  return args;
}

PlanResult plan_target(const EngineArgs& args) {
  const Json target = llama(32, 131072);
  return plan_vllm({target, "config.json"}, args, &hardware::find_gpu("h100"));
}

struct Extra {
  int64_t parameters;
  int64_t buffers;
  int64_t kv_bytes_per_token;
};

/// Memory that the draft adds to a plan without one.
Extra extra_of(const char* method, const Json& draft, int64_t ranks) {
  EngineArgs plain;
  plain.tensor_parallel = ranks;
  const PlanResult without = plan_target(plain);
  const PlanResult with = plan_target(drafted(method, draft, ranks));
  return {with.parameter_bytes - without.parameter_bytes, with.buffer_bytes - without.buffer_bytes,
          with.kv_bytes_per_token - without.kv_bytes_per_token};
}

}  // namespace

TEST_CASE("heads of EAGLE weigh what vLLM's classes do, but for the shared embedding") {
  Json third = llama(1, 2048);
  third["draft_vocab_size"] = 32000;
  constexpr int64_t kTable = int64_t{131072} * 128 * 2 + 16;  // of the target's reach
  const Extra one = extra_of("eagle3", third, 1);
  CHECK(one.parameters == 849'635'328);
  CHECK(one.buffers == kTable);
  CHECK(one.kv_bytes_per_token == 2 * 8 * 128 * 2);
  Json wide = third;  // the states of a wider target
  wide["target_hidden_size"] = 8192;
  CHECK(extra_of("eagle3", wide, 1).parameters - one.parameters == int64_t{3} * 4096 * 4096 * 2);
  const Extra two = extra_of("eagle3", third, 2);
  CHECK(two.parameters == 475'293'696);
  CHECK(two.kv_bytes_per_token == 2 * 4 * 128 * 2);
  CHECK(extra_of("eagle", llama(1, 2048), 1).parameters == 503'324'672);
  CHECK(extra_of("eagle", llama(1, 2048), 2).parameters == 285'220'864);
}

TEST_CASE("keys of an EAGLE-3 head's config add states, norms and projections") {
  Json third = llama(1, 2048);
  third["draft_vocab_size"] = 32000;
  const int64_t usual = extra_of("eagle3", third, 1).parameters;
  constexpr int64_t kWidth = 4096, kBytes = 2;
  constexpr int64_t kState = kWidth * kWidth * kBytes;  // of three
  constexpr int64_t kNorm = 3 * kWidth * kBytes;
  struct Row {
    Json changes;
    int64_t bytes;
  };
  const Row rows[] = {
      {{{"num_aux_hidden_states", 2}}, -kState},
      {{{"eagle_config", {{"eagle_aux_hidden_state_layer_ids", {1, 9, 17, 25}}}}}, kState},
      {{{"eagle_config", {{"eagle_aux_hidden_state_layer_ids", {1, 9}}}},
        {"num_aux_hidden_states", 5}},
       2 * kState},
      {{{"eagle_config", {{"use_aux_hidden_state", false}}}}, -3 * kState},
      {{{"eagle_config", {{"use_aux_hidden_state", true}}}}, 0},
      {{{"norm_before_fc", true}}, kNorm},
      {{{"eagle_config", {{"norm_before_fc", true}}}}, kNorm},
      {{{"eagle_config", {{"norm_before_fc", false}}}, {"norm_before_fc", true}}, 0},
      {{{"fc_norm", true}}, kNorm},
      {{{"fc_norm", true}, {"norm_before_fc", true}}, 2 * kNorm},
      {{{"fc_norm", true}, {"num_aux_hidden_states", 2}}, -kState + kNorm / 3 * 2},
      {{{"draft_vocab_size", 16000}}, -16000 * (kWidth * kBytes + 8)},  // and numbers of words
      {{{"draft_vocab_size", 128256}}, (128256 - 32000) * kWidth * kBytes - 32000 * 8},
  };
  for (const Row& row : rows) {
    INFO(row.changes.dump());
    Json changed = third;
    changed.update(row.changes);
    CHECK(extra_of("eagle3", changed, 1).parameters - usual == row.bytes);
  }
}

TEST_CASE("a stated partition is the target's: the draft is whole, on the last stage") {
  for (const char* method : {"eagle3", "draft_model"}) {
    INFO(method);
    EngineArgs args = drafted(method, llama(1, 131072), 1);
    args.pipeline_parallel = 2;
    const PlanResult half = plan_target(args);
    args.pipeline_partition = {16, 16};  // vLLM's choice, stated
    const PlanResult stated = plan_target(args);
    CHECK(stated.parameter_bytes == half.parameter_bytes);
    CHECK(stated.kv_bytes_per_token == half.kv_bytes_per_token);
    args.draft_method.clear();
    CHECK(plan_target(args).parameter_bytes < stated.parameter_bytes);
  }
}

TEST_CASE("a head that is no model is refused by its own file") {
  Json broken = llama(1, 2048);
  broken["num_attention_heads"] = 0;
  const EngineArgs args = drafted("eagle", broken, 1);
  const Json target = llama(2, 2048);
  CHECK_THROWS_WITH(plan_vllm({target, "config.json"}, args, &hardware::find_gpu("h100")),
                    Catch::StartsWith(args.draft_model + ": ") &&
                        Catch::Contains("\"num_attention_heads\" is 0"));
}

TEST_CASE("a draft model is a whole model beside the target") {
  const Json small = llama(2, 131072);
  const PlanResult alone = plan_vllm({small, "config.json"}, {}, &hardware::find_gpu("h100"));
  const Extra extra = extra_of("draft_model", small, 1);
  CHECK(extra.parameters == alone.parameter_bytes);
  CHECK(extra.kv_bytes_per_token == alone.kv_bytes_per_token);
}

TEST_CASE("--quantization is the target's alone, not its draft model's") {
  const Json small = llama(2, 131072);
  const PlanResult alone = plan_vllm({small, "config.json"}, {}, &hardware::find_gpu("h100"));
  EngineArgs target;
  target.quantization = "fp8";
  EngineArgs both = drafted("draft_model", small, 1);
  both.quantization = "fp8";
  CHECK(plan_target(both).parameter_bytes - plan_target(target).parameter_bytes ==
        alone.parameter_bytes);
}

namespace {

/// The last of every two layers attends, as in Qwen3.5, and the model predicts by a layer more.
Json predicting(const Json& settings) {
  auto config = parse_json<Json>(R"({"architectures": ["Qwen3_5ForCausalLM"],
      "model_type": "qwen3_5_text", "dtype": "bfloat16", "hidden_size": 1024, "head_dim": 128,
      "intermediate_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 8,
      "num_key_value_heads": 2, "vocab_size": 1024, "max_position_embeddings": 4096,
      "full_attention_interval": 2, "linear_num_key_heads": 4, "linear_num_value_heads": 8,
      "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
      "layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"],
      "attn_output_gate": true, "tie_word_embeddings": false, "mtp_num_hidden_layers": 1})");
  config.update(settings);
  return config;
}

}  // namespace

TEST_CASE("a draft's tensors leave rests of torch's segments, as the target's do") {
  Json draft = llama(2, 131072);
  draft["intermediate_size"] = 14400;  // gate and up of a layer: 225 MiB, in segments of 2 MiB
  EngineArgs plain;
  const PlanResult without = plan_target(plain);
  const PlanResult with = plan_target(drafted("draft_model", draft, 1));
  CHECK(with.segment_bytes - without.segment_bytes == 2 * kMiB);
  CHECK(with.weights_bytes - without.weights_bytes ==
        with.parameter_bytes - without.parameter_bytes + with.buffer_bytes - without.buffer_bytes +
            2 * kMiB);
}

TEST_CASE("of a launch with a draft only the target's layers are kept on the host") {
  EngineArgs plain;
  plain.cpu_offload = int64_t{1} << 40;
  const int64_t layers = plan_target(plain).offloaded_bytes;
  CHECK(layers > 0);
  EngineArgs with = drafted("draft_model", llama(2, 131072), 1);
  with.cpu_offload = plain.cpu_offload;
  CHECK(plan_target(with).offloaded_bytes == layers);
}

TEST_CASE("a model's own layer that predicts is one of its layers behind a projection") {
  const auto plan = [](const Json& config, const char* method, int64_t ranks) {
    EngineArgs args;
    args.tensor_parallel = ranks;
    args.draft_method = method;
    args.draft_tokens = *method == '\0' ? 0 : 1;
    return plan_vllm({config, "config.json"}, args, &hardware::find_gpu("h100"));
  };
  // Queries, their gates, keys, values, the output; gate, up and down; norms of heads and layers.
  constexpr int64_t kLayer =
      1024 * (2 * 1024 + 2 * 256) + 1024 * 1024 + 3 * 1024 * 4096 + 2 * 128 + 2 * 1024;
  constexpr int64_t kEnds = 2 * 1024 * 1024 + 3 * 1024;
  const Json config = predicting(Json::object());
  for (const char* method : {"mtp", "qwen3_5_mtp"}) {
    const PlanResult with = plan(config, method, 1);
    const PlanResult without = plan(config, "", 1);
    CHECK(with.parameter_bytes - without.parameter_bytes == (kLayer + kEnds) * 2);
    CHECK(with.kv_bytes_per_token - without.kv_bytes_per_token == 2 * 2 * 128 * 2);
  }
  // Each further layer costs as much.
  for (const int64_t layers : {2, 3}) {
    const Json longer = predicting({{"mtp_num_hidden_layers", layers}});
    CHECK(plan(longer, "mtp", 1).parameter_bytes - plan(longer, "", 1).parameter_bytes ==
          layers * (kLayer + kEnds) * 2);
  }
  const int64_t halves =
      plan(config, "mtp", 2).parameter_bytes - plan(config, "", 2).parameter_bytes;
  constexpr int64_t kNorms = 2 * 128 + 2 * 1024 + 3 * 1024;
  CHECK(halves == (kLayer + kEnds - kNorms) + kNorms * 2);
  // A checkpoint may leave these layers whole.
  Json fp8 = {{"quantization_config",
               {{"quant_method", "compressed-tensors"},
                {"config_groups",
                 {{"group_0",
                   {{"targets", {"Linear"}},
                    {"weights", {{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}}}}}}},
                {"ignore", {"re:^mtp.*"}}}}};
  CHECK(plan(predicting(fp8), "mtp", 1).parameter_bytes -
            plan(predicting(fp8), "", 1).parameter_bytes ==
        (kLayer + kEnds) * 2);
  // One matrix that stays whole leaves the others quantized.
  fp8["quantization_config"]["ignore"] = {"re:^mtp.*down_proj$"};
  const int64_t down = plan(predicting(fp8), "mtp", 1).parameter_bytes -
                       plan(predicting(fp8), "", 1).parameter_bytes;
  CHECK(down < (kLayer + kEnds) * 2 - 1024 * (2 * 1024 + 2 * 256) - 1024 * 1024);
  CHECK(plan(predicting({{"mtp_num_hidden_layers", 0}}), "mtp", 1).parameter_bytes ==
        plan(config, "", 1).parameter_bytes);
}

TEST_CASE("DeepSeek V4 predicts by one layer more, with a projection each and mixed streams") {
  const auto plan = [](const Json& config, VllmVersion version, bool predicts) {
    EngineArgs args = at(version);
    args.tensor_parallel = 8;
    args.max_num_batched_tokens = 8192;
    args.kv_cache_dtype = "fp8";
    if (predicts) args.draft_method = "mtp";
    args.draft_tokens = predicts ? 1 : 0;
    return plan_vllm({config, "config.json"}, args, &hardware::find_gpu("h200"));
  };
  constexpr VllmVersion kNewest{0, 33, 0};
  constexpr int64_t kHidden = 4096, kStreams = 4 * kHidden;
  Json config = deepseek_v4();
  config["num_nextn_predict_layers"] = 1;
  Json longer = config;
  longer["num_hidden_layers"] = 5;  // the fifth layer has a window alone
  const PlanResult with = plan(config, kNewest, true);
  const PlanResult without = plan(config, kNewest, false);
  const PlanResult more = plan(longer, kNewest, false);
  // vllm/models/deepseek_v4/nvidia/mtp.py: e_proj, h_proj; three norms; hc_head_fn, _base, _scale.
  constexpr int64_t kOwn = 2 * kHidden * kHidden * 2 + 3 * kHidden * 2 + (4 * kStreams + 4 + 1) * 4;
  CHECK(with.parameter_bytes - more.parameter_bytes == kOwn);
  CHECK(with.group_sizes == more.group_sizes);
  CHECK(with.kv_bytes_per_token == more.kv_bytes_per_token);
  CHECK(draft_note({config, "config.json"}, drafted("mtp", Json::object(), 8)) !=
        "not counted: weights and KV cache of the draft model (mtp)");
  // Its buffer of chosen keys is the model's.
  CHECK(part_bytes(with, "top-k indices") == part_bytes(without, "top-k indices"));
  CHECK(part_bytes(with, "hidden states for drafts") == 8192 * kStreams * 2);
  CHECK(part_bytes(without, "hidden states for drafts") == 0);
  // Releases before 0.27 made the buffer of streams whether a layer predicts or not.
  CHECK(part_bytes(plan(config, {0, 26, 0}, false), "hidden states for drafts") ==
        8192 * kStreams * 2);
  CHECK(part_bytes(plan(config, {0, 27, 0}, false), "hidden states for drafts") == 0);
}

TEST_CASE("drafts that are not counted are named, and those that need nothing are not") {
  const Json target = llama(32, 131072);
  const ConfigView config(target, "config.json");
  CHECK(draft_note(config, drafted("mtp", llama(1, 2048), 1)) ==
        "not counted: weights and KV cache of the draft model (mtp)");
  EngineArgs absent = drafted("eagle3", llama(1, 2048), 1);
  absent.draft_config = nullptr;
  CHECK_FALSE(counts_draft(config, absent));
  CHECK(draft_note(config, drafted("ngram", Json::object(), 1)).empty());
  EngineArgs named = drafted("draft_model", llama(1, 2048), 1);
  named.draft_model = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B";
  CHECK_THAT(draft_note(config, named), Catch::Contains("(eagle3)"));
}

TEST_CASE("a config of a type that transformers does not know has to name its class") {
  Json config = llama(2, 2048);
  config.erase("architectures");
  config["model_type"] = "internlm2";
  CHECK_THROWS_WITH(plan_vllm({config, "config.json"}, {}, &hardware::find_gpu("h100")),
                    Catch::StartsWith("No model architectures are specified"));
}

}  // namespace plimsoll::plan
