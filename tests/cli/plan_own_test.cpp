// The plan of our own engine: the ranks' sizes, the budget, and what is refused.
#include <catch2/catch.hpp>

#include "base/config_view.h"
#include "base/json.h"
#include "cli/planned.h"
#include "cli/program.h"
#include "launch/context.h"
#include "memory/available.h"
#include "memory/device_overheads.h"
#include "model/config.h"
#include "plan/plimsoll/launch.h"
#include "plan/plimsoll/plimsoll_plan.h"
#include "shard/model_folder.h"

using namespace plimsoll;
using test::kConfigs;
using test::part_bytes;
using test::plan_of;
using test::Scratch;
using test::shell;
using test::sum_of_parts;

TEST_CASE("a rank holds what vLLM's holds: weights, copied KV heads, padded vocabulary") {
  const Scratch scratch;
  const std::string rows[] = {
      "llama-2-70b.json --dtype bfloat16 -tp 1", "llama-2-70b.json --dtype bfloat16 -tp 4",
      "llama-2-70b.json --dtype bfloat16 -tp 8", "llama-3.1-8b.json -tp 2",
      "opt-13b.json --dtype float16 -tp 8",      "llama-3.1-8b.json -tp 2 -pp 2"};
  for (const std::string& row : rows) {
    INFO(row);
    const Json own = plan_of(scratch, kConfigs + row + " --gpu h200");
    const Json vllm = plan_of(scratch, kConfigs + row + " --gpu h200 --engine vllm");
    // Every weight begins at a multiple of 256 bytes.
    CHECK(own["weights_bytes"].get<double>() ==
          Approx(vllm["parameter_bytes"].get<double>()).epsilon(2e-4));
    CHECK(own["kv_bytes_per_token"] == vllm["kv_bytes_per_token"]);
    CHECK(own["gpus"] == vllm["gpus"]);
  }
  Json config = parse_json<Json>(read_text_file(kConfigs + "llama-3.1-8b.json"));
  config["num_key_value_heads"] = 2;
  scratch.write("config.json", config.dump());
  const std::string model = scratch.path("config.json");
  const Json whole = plan_of(scratch, model + " --gpu h200");
  const Json copied = plan_of(scratch, model + " --gpu h200 -tp 8");
  CHECK(copied["kv_bytes_per_token"].get<int64_t>() * 2 ==
        whole["kv_bytes_per_token"].get<int64_t>());
}

TEST_CASE("plan refuses ranks that run refuses, with its words") {
  const Scratch scratch;
  Json config = parse_json<Json>(read_text_file(kConfigs + "llama-3.1-8b.json"));
  config.update({{"num_attention_heads", 6},
                 {"num_key_value_heads", 6},
                 {"head_dim", 128},
                 {"hidden_size", 768},
                 {"intermediate_size", 3072},
                 {"vocab_size", 1920}});
  std::filesystem::create_directory(scratch.path("six"));
  scratch.write("six/config.json", config.dump());
  for (const char* ranks : {"-tp 3", "-tp 4", "-tp 16", "-tp 6 -pp 2", "-pp 33", "-tp 2 -pp 40"}) {
    INFO(ranks);
    const std::string launch = std::string(" six ") + ranks + " --load-format dummy ";
    const auto run =
        shell(scratch, "plimsoll run" + launch + "--skip-tokenizer-init -i /dev/null --device cpu");
    const auto plan = shell(scratch, "plimsoll plan" + launch + "--engine plimsoll --gpu h100");
    CHECK(run.status == 2);
    CHECK(plan.status == 2);
    CHECK(plan.err == run.err);
  }
  const auto solved = shell(scratch, "plimsoll plan six --gpu h100 --gpus auto");
  CHECK_THAT(solved.out, Catch::Contains("Fewest GPUs: 1"));
}

TEST_CASE("a head of the checkpoint's own is planned for, since run loads it") {
  const Scratch scratch;
  for (const Json& model : shard::read_fixture("text_shards.json")) {
    if (model["name"] != "llama, tied in config.json, with a head of its own") continue;
    shard::write_model(scratch, model["config"], model["recipe"]);
  }
  const std::string folder = scratch.path("model");
  const auto weights = [&](const std::string& place) {
    return plan_of(scratch, place + " --gpu h100")["weights_bytes"].get<int64_t>();
  };
  CHECK(weights(folder) == weights(folder + "/config.json") + int64_t{70} * 64 * 2);
}

TEST_CASE("a config is planned for our engine as run reads it, not as vLLM's classes complete it") {
  const Scratch scratch;
  // vLLM's class has a length of its own beside the one that is stated.
  scratch.write("config.json", R"({"architectures":["KimiLinearForCausalLM"],
    "model_type":"kimi_linear","dtype":"bfloat16","first_k_dense_replace":1,"head_dim":32,
    "hidden_size":256,"intermediate_size":384,"kv_lora_rank":96,"linear_attn_config":
    {"full_attn_layers":[3],"head_dim":32,"kda_layers":[1,2,4],"num_heads":4,
    "short_conv_kernel_size":4},"mla_use_nope":true,"model_max_length":1048576,
    "moe_intermediate_size":96,"num_attention_heads":4,"num_experts":8,"num_experts_per_token":2,
    "num_hidden_layers":4,"num_key_value_heads":4,"num_shared_experts":1,"q_lora_rank":null,
    "qk_nope_head_dim":48,"qk_rope_head_dim":32,"v_head_dim":64,"vocab_size":515})");
  const Json plan = plan_of(scratch, scratch.path("config.json"));
  CHECK(plan["max_model_len"] == 1048576);
}

TEST_CASE("all parts stay within the budget, and one block more does not") {
  const Scratch scratch;
  for (const char* flags :
       {"", " --gpu-memory-utilization 0.7", " --kv-cache-dtype fp8", " --enforce-eager", " -tp 4",
        " --max-num-seqs 16", " --max-model-len 8192 --max-num-batched-tokens 512"}) {
    INFO(flags);
    const Json plan = plan_of(scratch, kConfigs + "llama-3.1-8b.json --gpu h100" + flags);
    const auto budget = plan["budget_bytes"].get<int64_t>();
    const int64_t block =
        plan["kv_cache_bytes"].get<int64_t>() / plan["num_gpu_blocks"].get<int64_t>();
    CHECK(sum_of_parts(plan) <= budget);
    CHECK(sum_of_parts(plan) + block > budget);
  }
}

TEST_CASE("the longest context that fits does fit, a block more does not, and auto launches it") {
  const Scratch scratch;
  const std::string data = PLIMSOLL_SOURCE_DIR "/tests/data/configs/";
  const std::string rows[] = {
      // Embeddings of images take less in shorter contexts, which make room for more KV blocks.
      kConfigs + "qwen2.5-vl-3b.json --gpu a10 --gpu-memory-utilization 0.5",
      kConfigs + "qwen2.5-vl-3b.json --gpu l4 --gpu-memory-utilization 0.3 -pp 2",
      kConfigs + "internvl2-2b.json --gpu t4 --gpu-memory-utilization 0.5",
      kConfigs + "gemma-3-27b-it.json --gpu a100-80gb --gpu-memory-utilization 0.75",
      kConfigs +
          "gemma-3-27b-it.json --gpu l40s -tp 2 --max-num-batched-tokens 1024 "
          "--gpu-memory-utilization 0.7",
      kConfigs + "llama-3.1-8b.json --gpu a10 --kv-cache-dtype fp8",
      kConfigs +
          "llama-3.1-8b.json --gpu l4 --max-num-seqs 4096 -pp 2 --gpu-memory-utilization 0.5",
      data + "microsoft__phi-3-mini-128k-instruct.json --gpu l4 --block-size 32",
      data + "Qwen__Qwen3-235B-A22B.json --gpu a100 -tp 8 --gpu-memory-utilization 0.73",
  };
  for (const std::string& row : rows) {
    INFO(row);
    const Json whole = plan_of(scratch, row);
    REQUIRE(whole["fits"] == false);
    const int64_t longest = whole["estimated_max_model_len"].get<int64_t>();
    REQUIRE(longest > 0);
    REQUIRE(longest < whole["max_model_len"].get<int64_t>());
    const auto with = [&](int64_t length) {
      return plan_of(scratch, row + " --max-model-len " + std::to_string(length));
    };
    const Json fitting = with(longest);
    CHECK(fitting["fits"] == true);
    CHECK(fitting["max_concurrency"] == whole["max_concurrency"]);
    CHECK(with(longest + whole["block_size"].get<int64_t>())["fits"] == false);
    const Json automatic = plan_of(scratch, row + " --max-model-len auto");
    CHECK(automatic["max_model_len"] == longest);
    CHECK(automatic["parts"] == fitting["parts"]);
    CHECK(automatic["num_gpu_blocks"] == fitting["num_gpu_blocks"]);
  }
}

TEST_CASE("run takes with --max-model-len auto the context that plan names") {
  using namespace plimsoll::plan;
  for (const auto& [name, share] :
       {std::pair{"qwen2.5-vl-3b.json", 0.5}, std::pair{"internvl2-2b.json", 0.35},
        std::pair{"llama-3.1-8b.json", 0.8}}) {
    INFO(name);
    const Json config = parse_json<Json>(read_text_file(kConfigs + name));
    const hardware::Gpu& card = hardware::find_gpu("l4");
    launch::Arguments arguments;
    arguments.lone_config = &config;
    arguments.args.max_model_len = -1;
    arguments.args.gpu_memory_utilization = share;
    launch::ModelSource model(model::make_model_spec(config), config, {},
                              launch::Experts::first_alone);
    const PlanResult planned = own::make_plan(model, arguments, &card);
    REQUIRE(planned.auto_max_model_len > 0);

    const auto footprint = own::device_footprint(&card, arguments);
    launch::ResolvedLaunch resolved = launch::resolve(model, arguments, *footprint);
    resolved.engine.memory_budget = static_cast<uint64_t>(
        planned.budget_bytes - planned.non_torch_bytes - planned.cuda_graph_bytes);
    launch::resolve_context(arguments, *footprint, resolved);
    CHECK(resolved.engine.max_model_len == planned.auto_max_model_len);
    const auto launched =
        engine::resolve_stages(resolved.spec, resolved.stage_views(), resolved.engine, *footprint)
            .front();
    CHECK(launched.max_model_len == planned.auto_max_model_len);
    CHECK(launched.num_blocks == planned.num_gpu_blocks);
  }
}

TEST_CASE("a cache that does not fit beside the weights is refused, with what would fit") {
  const Scratch scratch;
  const std::string model = "plimsoll plan " + kConfigs + "llama-3.1-8b.json --gpu h100 ";
  struct Row {
    std::string flags, cure;
  };
  for (const Row& row : {Row{"--num-gpu-blocks-override 10000000", "--num-gpu-blocks-override"},
                         Row{"--kv-cache-memory 100TiB", "--kv-cache-memory"},
                         Row{"--kv-cache-memory 60GiB", "--kv-cache-memory"}}) {
    INFO(row.flags);
    const auto refused = shell(scratch, model + row.flags + " --format json");
    CHECK(refused.status == 6);
    const Json plan = parse_json<Json>(refused.out);
    CHECK(plan["fits"] == false);
    const auto reason = plan["reason"].get<std::string>();
    CHECK(reason.find("GiB") != std::string::npos);
    CHECK(reason.find(" bytes") == std::string::npos);
    const size_t cure = reason.find("; " + row.cure);
    REQUIRE(cure != std::string::npos);
    const std::string flags = reason.substr(cure + 2, reason.find(" would fit") - cure - 2);
    CHECK(shell(scratch, model + flags).status == 0);
    const auto vllm = shell(scratch, model + row.flags + " --engine vllm");
    CHECK(vllm.status == (row.flags.ends_with("60GiB") ? 0 : 6));
  }
}

TEST_CASE("blocks that take exactly what is left of the budget fit") {
  const Json config = parse_json<Json>(read_text_file(kConfigs + "llama-3.1-8b.json"));
  launch::Arguments arguments;
  arguments.lone_config = &config;
  arguments.args.blocks_override = 10000;
  const auto plan_within = [&](int64_t budget) {
    arguments.ceiling = budget;
    launch::ModelSource model(model::make_model_spec(config), config, {},
                              launch::Experts::first_alone);
    return plan::own::make_plan(model, arguments, &hardware::find_gpu("h100"));
  };
  int64_t whole = 0;
  for (const plan::PlanPart& part : plan_within(0).parts) whole += part.bytes;
  CHECK(plan_within(whole).fits == true);
  CHECK(plan_within(whole - 1).fits == false);
}

TEST_CASE("what other processes hold of the card is not ours") {
  const Scratch scratch;
  const std::string model = kConfigs + "llama-3.1-8b.json --gpu h100";
  const Json alone = plan_of(scratch, model);
  const Json beside = plan_of(scratch, model + " --reserved-memory 40GiB");
  CHECK(beside["budget_bytes"].get<int64_t>() ==
        beside["total_bytes"].get<int64_t>() - (int64_t{40} << 30));
  CHECK(beside["num_gpu_blocks"] < alone["num_gpu_blocks"]);
  CHECK(sum_of_parts(beside) <= beside["budget_bytes"].get<int64_t>());
  // A reserve that is left free anyway costs nothing.
  CHECK(plan_of(scratch, model + " --reserved-memory 1GiB")["budget_bytes"] ==
        alone["budget_bytes"]);
  CHECK(shell(scratch, "plimsoll plan " + model + " --gpu-memory 0").status == 2);
}

TEST_CASE("without a card the ranks of a launch share this machine's memory") {
  const Scratch scratch;
  const std::string launch = test::kModel + " -tp 2 --num-gpu-blocks-override ";
  const Json small = plan_of(scratch, launch + "1000");
  const int64_t blocks = memory::available_memory().bytes /
                         (small["kv_cache_bytes"].get<int64_t>() / 1000);  // for one rank alone
  const auto refusal = [&](int64_t tenths) {
    const Json plan = plan_of(scratch, launch + std::to_string(blocks / 10 * tenths));
    return plan.value("notes", Json()).dump();
  };
  const std::string needed = "of this machine's memory are needed";
  CHECK_THAT(refusal(4), !Catch::Contains(needed));
  CHECK_THAT(refusal(6), Catch::Contains(needed));
}

TEST_CASE("copies of a model share its weights in this machine's memory") {
  using namespace plimsoll::plan;
  const Json config = parse_json<Json>(read_text_file(kConfigs + "llama-3.1-8b.json"));
  const auto needed = [&](int64_t copies, int64_t stages, int64_t* weights) {
    launch::Arguments arguments;
    arguments.lone_config = &config;
    arguments.threads = 1;
    arguments.args.blocks_override = 100;
    arguments.args.data_parallel = copies;
    arguments.args.pipeline_parallel = stages;
    launch::ModelSource model(model::make_model_spec(config), config, {},
                              launch::Experts::first_alone);
    const PlanResult result = own::make_plan(model, arguments, nullptr);
    if (weights != nullptr) {
      const auto part = std::ranges::find(result.parts, "weights", &PlanPart::name);
      REQUIRE(part != result.parts.end());
      *weights = part->bytes;
    }
    return result.host_needed;
  };
  int64_t weights = 0;
  const int64_t one = needed(1, 1, &weights);
  CHECK(weights > int64_t{1} << 30);
  CHECK(needed(2, 1, nullptr) == 2 * one - weights);
  CHECK(needed(3, 1, nullptr) == 3 * one - 2 * weights);
  const int64_t stages = needed(1, 2, nullptr);
  CHECK(needed(2, 2, nullptr) == 2 * stages - weights);
}

TEST_CASE("a plan of GPUs in several processes has NCCL's buffers") {
  const Scratch scratch;
  const auto plan = [&](int processes, const std::string& ranks, const std::string& gpu = "h100") {
    const auto outcome =
        shell(scratch, "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=" + std::to_string(processes) +
                           " plimsoll plan " + kConfigs + "llama-3.1-8b.json --gpu " + gpu +
                           " --engine plimsoll --format json " + ranks);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    const Json whole = parse_json<Json>(outcome.out);
    return whole.contains("stages") ? whole["stages"][0] : whole;
  };
  const auto expected = [](const memory::NcclShape& shape) {
    const size_t none = memory::overhead_bytes({});
    return static_cast<int64_t>(memory::overhead_bytes({.nccl = shape}) - none);
  };
  CHECK(part_bytes(plan(1, "-tp 2"), "NCCL") == 0);
  CHECK(part_bytes(plan(2, "-tp 2"), "NCCL") == expected({.team = 2}));
  CHECK(part_bytes(plan(2, "-pp 2"), "NCCL") == expected({.neighbours = 1}));
  CHECK(part_bytes(plan(2, "-tp 2"), "messages") == 0);  // these are the host's
  CHECK(plan(2, "-tp 2")["num_gpu_blocks"] < plan(1, "-tp 2")["num_gpu_blocks"]);
  // Ranks run in one process where cards cannot read each other's memory, as a launch finds them.
  CHECK(part_bytes(plan(1, "-tp 2", "4090"), "NCCL") == expected({.team = 2}));
  CHECK(part_bytes(plan(1, "-tp 2", "4090"), "peer mappings") == 0);
  CHECK(part_bytes(plan(1, "-tp 2", "3090"), "NCCL") == 0);  // with its bridge
  CHECK(part_bytes(plan(1, "-tp 2", "l40s"), "peer mappings") > 0);
}

TEST_CASE("a cache in fp8 is half as large, and graphs cost by their number") {
  const Scratch scratch;
  const std::string model = kConfigs + "llama-3.1-8b.json --gpu h100";
  const Json plain = plan_of(scratch, model);
  const Json fp8 = plan_of(scratch, model + " --kv-cache-dtype fp8");
  CHECK(fp8["kv_bytes_per_token"].get<int64_t>() * 2 == plain["kv_bytes_per_token"].get<int64_t>());
  CHECK(plan_of(scratch, model + " --enforce-eager")["cuda_graph_bytes"] == 0);
  const Json one = plan_of(scratch, model + " --cudagraph-capture-sizes 8");
  const Json three = plan_of(scratch, model + " --cuda-graph-sizes 1,2,8");
  CHECK(one["cuda_graphs"] == 1);
  CHECK(three["cuda_graphs"] == 3);
  CHECK(three["cuda_graph_bytes"].get<int64_t>() == 3 * one["cuda_graph_bytes"].get<int64_t>());
  CHECK(one["cuda_graph_bytes"].get<int64_t>() % 1536 == 0);
}

TEST_CASE("what our own engine does not have is refused by name") {
  const Scratch scratch;
  const std::string model = kConfigs + "llama-3.1-8b.json --gpu h100 ";
  for (const char* flags :
       {"--quantization bitsandbytes", "--cpu-offload-gb 10", "--enable-expert-parallel",
        "--kv-cache-dtype fp8_e5m2", "-tp 3", "-pp 33"}) {
    INFO(flags);
    const auto outcome = shell(scratch, "plimsoll plan " + model + flags);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  }
  // vLLM has no such class either, so `--engine vllm` is not offered.
  scratch.write("t5.json", R"({"architectures":["T5ForConditionalGeneration"],"model_type":"t5"})");
  const auto unknown = shell(scratch, "plimsoll plan t5.json --engine plimsoll --gpu h100");
  CHECK_THAT(unknown.err, Catch::Contains("T5ForConditionalGeneration is not supported"));
  CHECK_THAT(unknown.err, !Catch::Contains("--engine vllm"));
}

TEST_CASE("states of recurrent layers are a part of their own, a slot for each sequence") {
  const Scratch scratch;
  const std::string config = PLIMSOLL_SOURCE_DIR "/tests/data/golden/models/mamba/config.json ";
  const auto states = [&](const std::string& flags) {
    return part_bytes(plan_of(scratch, config + flags), "recurrent states");
  };
  for (const char* device : {"--gpu h200 ", "--device cpu "}) {
    const std::string flags = device + std::string("--engine plimsoll --max-num-seqs ");
    CHECK(states(flags + "4") > 0);
    CHECK(states(flags + "8") == 2 * states(flags + "4"));
  }
}

TEST_CASE("quantized weights are counted as a card keeps them") {
  const Scratch scratch;
  Json config = parse_json<Json>(shell(scratch, "cat '" + kConfigs + "llama-3.1-8b.json'").out);
  const auto weights = [&](const Json& of, const char* flags) {
    scratch.write("m.json", of.dump());
    const Json plan = plan_of(scratch, std::string("m.json --gpu h100 ") + flags);
    return static_cast<double>(part_bytes(plan, "weights"));
  };
  // Token table and head stay in 16 bits: 2 x 128256 x 4096 numbers of 8.03e9.
  constexpr double kWhole = 2.0 * 128256 * 4096, kPacked = 8.03e9 - kWhole;
  CHECK(weights(config, "") == Approx(2 * 8.03e9).epsilon(0.01));
  CHECK(weights(config, "--quantization fp8") == Approx(2 * kWhole + kPacked).epsilon(0.01));
  config["quantization_config"] = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}};
  CHECK(weights(config, "") == Approx(2 * kWhole + (0.5 + 3.0 / 128) * kPacked).epsilon(0.01));
}

TEST_CASE("a context of one token is refused by plan as by run, and left to vLLM") {
  const Scratch scratch;
  const auto outcome = shell(scratch, "plimsoll plan $MODEL --max-model-len 1");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.err, Catch::Contains("expected at least 2"));
  CHECK(shell(scratch, "plimsoll plan $MODEL --engine vllm --max-model-len 1").status == 0);
}

TEST_CASE("VLLM_PP_LAYER_PARTITION divides the layers of a plan") {
  const Scratch scratch;
  const std::string model = kConfigs + "llama-3.1-8b.json --gpu h200 -pp 2 --format json";
  const auto plan = [&](const std::string& engine, const std::string& partition) {
    const auto outcome = shell(scratch, "VLLM_PP_LAYER_PARTITION=" + partition + " plimsoll plan " +
                                            model + " --engine " + engine);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return parse_json<Json>(outcome.out);
  };
  CHECK(plan("vllm", "20,12")["stages"][0]["layers"] == 20);
  CHECK(plan("plimsoll", "20,12")["weights_bytes"] > plan("plimsoll", "16,16")["weights_bytes"]);
}
