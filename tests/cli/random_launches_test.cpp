// Launches drawn at random, asked of `plan`, of `run --dry-run` and of `run`: the same refusal, or
// the same bytes.
#include <catch2/catch.hpp>
#include <random>

#include "cli/planned.h"
#include "like_cases.h"

using namespace plimsoll;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

using Words = std::vector<std::string>;

/// Models of a few kilobytes, with random weights, by their folders.
std::map<std::string, Json> models() {
  const Json llama = {{"architectures", {"LlamaForCausalLM"}},
                      {"model_type", "llama"},
                      {"dtype", "bfloat16"},
                      {"hidden_size", 96},
                      {"intermediate_size", 128},
                      {"num_hidden_layers", 4},
                      {"num_attention_heads", 6},
                      {"num_key_value_heads", 2},
                      {"head_dim", 16},
                      {"vocab_size", 512},
                      {"max_position_embeddings", 1024}};
  Json wide = llama;  // 3 ranks divide it, which run does not have
  wide.update({{"num_key_value_heads", 6}, {"vocab_size", 1920}, {"intermediate_size", 192}});
  Json windows = llama;
  windows.update({{"architectures", {"MistralForCausalLM"}},
                  {"model_type", "mistral"},
                  {"num_attention_heads", 8},
                  {"num_key_value_heads", 4},
                  {"sliding_window", 64}});
  Json mixture = llama;
  mixture.update({{"architectures", {"Qwen3MoeForCausalLM"}},
                  {"model_type", "qwen3_moe"},
                  {"num_attention_heads", 8},
                  {"num_key_value_heads", 4},
                  {"num_experts", 8},
                  {"num_experts_per_tok", 2},
                  {"moe_intermediate_size", 64},
                  {"decoder_sparse_step", 1},
                  {"norm_topk_prob", true}});
  const Json mamba = {{"architectures", {"MambaForCausalLM"}},
                      {"model_type", "mamba"},
                      {"dtype", "float32"},
                      {"hidden_size", 64},
                      {"intermediate_size", 128},
                      {"state_size", 8},
                      {"conv_kernel", 4},
                      {"time_step_rank", 4},
                      {"num_hidden_layers", 4},
                      {"vocab_size", 512}};
  return {{"llama", llama},     {"wide", wide},   {"windows", windows},
          {"mixture", mixture}, {"mamba", mamba}, {"published", Json()}};
}

/// Flags with their values, some of which no launch has.
const std::vector<Words> kFlags = {
    {"--max-model-len", "auto", "1", "2", "17", "64", "500", "1024", "5000"},
    {"--max-num-seqs", "1", "3", "64", "auto"},
    {"--max-num-batched-tokens", "1", "7", "64", "2048", "auto"},
    {"--block-size", "8", "16", "32", "100"},
    {"--kv-cache-memory", "4KiB", "64KiB", "4MiB"},
    {"--num-gpu-blocks-override", "1", "5", "70"},
    {"--cpu-kvcache-space", "0.0001", "0.01", "1"},
    {"--dtype", "auto", "float32", "float16", "bfloat16"},
    {"--kv-cache-dtype", "auto", "fp8", "fp8_e5m2", "float32", "bfloat16"},
    {"--quantization", "fp8", "bitsandbytes"},
    {"-tp", "1", "2", "3", "4", "16"},
    {"-pp", "1", "2", "3", "4", "5"},
    {"-dp", "1", "2"},
    {"--threads", "1", "2"},
    {"--quantized-activations", "on", "off"},
    {"--limit-mm-per-prompt", "image=0", "image=2"},
    {"--cpu-offload-gb", "0", "1"},
    {"--gpu-memory-utilization", "0.5"},
    {"--enable-expert-parallel"},
    {"--no-enable-prefix-caching"},
    {"--no-enable-chunked-prefill"},
    {"--enforce-eager"},
    {"--deterministic"},
    {"--language-model-only"},
    {"--enable-lora"}};

std::string draw_flags(std::mt19937& random) {
  const auto below = [&](size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random);
  };
  std::vector<Words> flags = kFlags;
  std::ranges::shuffle(flags, random);
  flags.resize(below(6));
  std::string line;
  for (const Words& flag : flags) {
    line += " " + flag.front();
    if (flag.size() > 1) line += " " + flag[1 + below(flag.size() - 1)];
  }
  return line;
}

/// The planned bytes of a rank are the bytes of a run's.
void compare(const Json& plan, const Json& report) {
  CHECK(plan["num_gpu_blocks"] == report["plan"]["kv_blocks"]);
  CHECK(plan["max_num_seqs"] == report["plan"]["max_num_seqs"]);
  CHECK(plan["max_num_batched_tokens"] == report["plan"]["max_num_batched_tokens"]);
  CHECK(plan["max_model_len"] == report["plan"]["max_model_len"]);
  if (!report.contains("ranks") || report["ranks"].empty()) {
    CHECK(test::sum_of_parts(plan) == report["memory"]["planned_bytes"].get<int64_t>());
    return;
  }
  const bool staged = plan.contains("stages");
  for (const Json& rank : report["ranks"]) {
    const auto is_of_rank = [&](const Json& stage) {
      return stage["first_layer"] == rank["first_layer"];
    };
    const Json& stage = staged ? *std::ranges::find_if(plan["stages"], is_of_rank) : plan;
    // Copies have the weights of the first.
    const int64_t borrowed = rank["copy"] == 0 ? 0 : stage["weights_bytes"].get<int64_t>();
    CHECK(test::sum_of_parts(stage) - borrowed == rank["planned_bytes"].get<int64_t>());
  }
}

}  // namespace

TEST_CASE("launches drawn at random are refused by plan and run alike, or take the same bytes") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt_token_ids\":[1],\"max_tokens\":1}\n");
  Words names;
  for (const auto& [name, config] : models()) {
    names.push_back(name);
    std::filesystem::create_directory(scratch.path(name));
    scratch.write(name + "/config.json",
                  config.is_null() ? read_text_file(test::kModel + "/config.json") : config.dump());
  }
  int launched = 0;
  for (unsigned seed = 0; seed < static_cast<unsigned>(testing::times(2000, 50)); ++seed) {
    std::mt19937 random(seed);
    const std::string model = names[random() % names.size()];
    const std::string line = model + draw_flags(random) + " --load-format dummy";
    INFO("seed " << seed << ": " << line);
    const std::string prompts = " --skip-tokenizer-init -i in ";
    // The lines have a say in limits that are open.
    const bool is_open = line.find("seqs auto") != std::string::npos ||
                         line.find("tokens auto") != std::string::npos;
    const Outcome plan =
        shell(scratch, "plimsoll plan " + line + (is_open ? prompts : "") + " --format json");
    const Outcome dry = shell(scratch, "plimsoll run " + line + prompts +
                                           "--dry-run --format json 2>&1 >dry; "
                                           "status=$?; exit $status");
    const Outcome run = shell(scratch, "rm -f report; plimsoll run -q " + line + prompts +
                                           "-o /dev/null --report report");
    INFO("plan: " << plan.err << "dry run: " << dry.out << "run: " << run.err);
    CHECK(dry.status == run.status);
    CHECK(plan.status == (run.status == 6 ? 0 : run.status));
    if (run.status != 0 && run.status != 6) CHECK(plan.err == run.err);
    if (run.status != 0) continue;
    ++launched;
    const Json report = parse_json<Json>(scratch.read("report"));
    compare(parse_json<Json>(plan.out), report);
    compare(parse_json<Json>(scratch.read("dry")), report);
  }
  CHECK(launched * 3 > testing::times(2000, 50));
}
