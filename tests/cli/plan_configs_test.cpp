// Published configs, planned for our own engine: every one ends with a verdict, or is refused for
// one of the reasons below, at every number of ranks.
#include <fmt/format.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cli/planned.h"
#include "like_cases.h"
#include "skipped.h"

using namespace plimsoll;
using test::Scratch;
using test::shell;
namespace fs = std::filesystem;

namespace {

/// Words of refusals, for models that `run` does not serve.
const std::vector<std::string> kReasons = {
    "is not supported",                   // no such family
    "images are not supported yet",       // Qwen-VL of 2023
    "a text model that runs by itself",   // wrappers of other families
    "the checkpoint is quantized (",      // MLX, ModelOpt without a method
    "bitsandbytes of 8 bits is not run",  //
    "expected a list of one name",        // no architectures
};

struct Verdict {
  int status = 0;
  std::string said;
};

/// Status and message of `plan FILE flags`, by file.
std::map<std::string, Verdict> plan_all(const Scratch& scratch, const fs::path& folder,
                                        const std::string& flags) {
  const auto outcome =
      shell(scratch, "cd '" + folder.string() + "'; for f in *.json; do said=$(plimsoll plan $f " +
                         flags + " 2>&1 >/dev/null); echo $? $f ${said//$'\\n'/ }; done");
  std::map<std::string, Verdict> verdicts;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Verdict verdict;
    std::string name;
    words >> verdict.status >> name;
    std::getline(words, verdict.said);
    verdicts[name] = verdict;
  }
  return verdicts;
}

void check_folder(const fs::path& folder) {
  const Scratch scratch;
  std::map<std::string, int> refused;
  for (const auto& [name, verdict] : plan_all(scratch, folder, "--gpu h200")) {
    if (verdict.status == 0 || verdict.status == 6) continue;
    INFO(name << ": " << verdict.status << verdict.said);
    CHECK(verdict.status == 5);
    const auto reason = std::ranges::find_if(kReasons, [&](const std::string& words) {
      return verdict.said.find(words) != std::string::npos;
    });
    CHECK(reason != kReasons.end());
    if (reason != kReasons.end()) ++refused[*reason];
  }
  for (const auto& [reason, count] : refused) WARN(count << " configs: " << reason);
  const std::vector<int> widths = {32, 3, 8, 64};
  for (size_t i = 0; i < widths.size(); ++i) {
    if (!testing::is_taken(i, widths.size())) continue;
    const std::string flags = fmt::format("--gpu b300 -tp {}", widths[i]);
    for (const auto& [name, verdict] : plan_all(scratch, folder, flags)) {
      INFO(name << " " << flags << ": " << verdict.status << verdict.said);
      CHECK((verdict.status == 0 || verdict.status == 2 || verdict.status == 5 ||
             verdict.status == 6));
    }
  }
}

}  // namespace

TEST_CASE("published configs have a plan of our own engine, or a reason, at any number of ranks") {
  for (const char* folder : {"tests/data/configs", "samples/plans/configs"})
    check_folder(fs::path(PLIMSOLL_SOURCE_DIR) / folder);
}

TEST_CASE("all published configs have a plan of our own engine, or a reason", "[published]") {
  const char* golden = std::getenv("PLIMSOLL_GOLDEN");
  const fs::path data = golden != nullptr ? fs::path(golden) / "../data"
                                          : fs::path(PLIMSOLL_SOURCE_DIR) / "../shared/data";
  if (!fs::is_directory(data / "configs")) return testing::skip("no published configs");
  check_folder(data / "configs");
}

TEST_CASE("stacked biases of experts are no quantized matrices of a config alone") {
  const Scratch scratch;
  // openai/gpt-oss-20b with fewer and smaller layers.
  scratch.write("config.json", R"({"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss",
    "head_dim":64,"hidden_size":288,"intermediate_size":288,"layer_types":["sliding_attention",
    "full_attention"],"num_attention_heads":8,"num_experts_per_tok":4,"num_hidden_layers":2,
    "num_key_value_heads":8,"num_local_experts":32,"quantization_config":{"modules_to_not_convert":
    ["model.layers.*.self_attn","model.layers.*.mlp.router","model.embed_tokens","lm_head"],
    "quant_method":"mxfp4"},"sliding_window":128,"tie_word_embeddings":false,"vocab_size":1024})");
  const Json plan = test::plan_of(scratch, scratch.path("config.json") + " --gpu h100");
  CHECK(plan["fits"] == true);
}

TEST_CASE("experts are counted once where they are alike, layer by layer") {
  const Scratch scratch;
  // Qwen3-235B-A22B-FP8 with fewer and smaller layers; whole modules by their names.
  const auto config = [&](const std::string& whole) {
    scratch.write("config.json", R"({"architectures":["Qwen3MoeForCausalLM"],
      "model_type":"qwen3_moe","head_dim":64,"hidden_size":512,"intermediate_size":1024,
      "moe_intermediate_size":512,"num_attention_heads":8,"num_experts":16,
      "num_experts_per_tok":2,"num_hidden_layers":3,"num_key_value_heads":8,"vocab_size":1024,
      "mlp_only_layers":[2],"torch_dtype":"bfloat16","quantization_config":{"quant_method":"fp8",
      "activation_scheme":"dynamic","weight_block_size":[128,128],"modules_to_not_convert":[)" +
                                     whole + "]}}");
    return scratch.path("config.json");
  };
  const auto experts = [](int layer) {
    std::string names;
    for (int expert = 0; expert < 16; ++expert)
      for (const char* matrix : {"gate_proj", "up_proj", "down_proj"})
        names += fmt::format("{}\"model.layers.{}.mlp.experts.{}.{}\"", names.empty() ? "" : ",",
                             layer, expert, matrix);
    return names;
  };
  for (const char* ranks : {"", " -tp 2", " -tp 4 --enable-expert-parallel"}) {
    INFO(ranks);
    const auto weights = [&](const std::string& whole) {
      return test::plan_of(scratch, config(whole) + " --gpu h100" + ranks)["weights_bytes"]
          .get<int64_t>();
    };
    const int64_t none = weights(""), first = weights(experts(0)), second = weights(experts(1));
    CHECK(first - none == second - none);
    CHECK(weights(experts(0) + "," + experts(1)) - second == first - none);
    // Codes take half as much as bf16; on a card 128 of a row have a scale of 4 bytes.
    const int64_t count = ranks[0] == '\0' ? 1 : ranks[5] - '0';
    CHECK(static_cast<double>(first - none) ==
          Approx(16.0 * 3 * 512 * 512 / static_cast<double>(count)).epsilon(0.04));
  }
  const auto refused =
      shell(scratch, "plimsoll plan " + config("\"model.layers.1.mlp.experts.7.up_proj\""));
  CHECK(refused.status == 5);
  CHECK(refused.err.find("experts.7.up_proj") != std::string::npos);
}

TEST_CASE("ranks that do not divide the key heads of the delta rule are refused, also in advice") {
  const Scratch scratch;
  // Qwen3-Next with fewer and smaller layers: 2 key heads, 4 value heads, experts beyond a card.
  scratch.write("config.json", R"({"architectures":["Qwen3NextForCausalLM"],
    "model_type":"qwen3_next","head_dim":64,"hidden_size":1024,"intermediate_size":2048,
    "linear_conv_kernel_dim":4,"linear_key_head_dim":64,"linear_num_key_heads":2,
    "linear_num_value_heads":4,"linear_value_head_dim":64,"moe_intermediate_size":4096,
    "num_attention_heads":16,"num_experts":512,"num_experts_per_tok":4,"num_hidden_layers":4,
    "num_key_value_heads":2,"shared_expert_intermediate_size":512,"vocab_size":2048})");
  const std::string plan = "plimsoll plan config.json --gpu t4 ";
  const auto refused = shell(scratch, plan + "-tp 4");
  CHECK(refused.status == 2);
  CHECK(refused.err.find("which 4 does not divide") != std::string::npos);
  CHECK(shell(scratch, plan + "-tp 2").status == 6);  // with advice
}

TEST_CASE("a config that names no class is refused by both engines") {
  const Scratch scratch;
  // LLaMA's own params.json of 2023, saved as config.json and under another name: MLPs' size, which
  // vLLM's reader of Mistral's params.json needs, is not in it.
  for (const char* file : {"config.json", "llama.json"}) {
    scratch.write(file, R"({"dim":256,"n_layers":8,"n_heads":16,"n_kv_heads":16,
      "vocab_size":50000,"norm_eps":1e-05,"multiple_of":128})");
    for (const char* flags : {"", " --engine vllm --gpu h100"}) {
      INFO(file << flags);
      const auto refused = shell(scratch, std::string("plimsoll plan ") + file + flags);
      CHECK(refused.status == 5);
      CHECK(refused.err.find("\"architectures\"") != std::string::npos);
    }
  }
  // Sizes alone do not say which class it is.
  scratch.write("sizes.json", R"({"hidden_size":256,"num_hidden_layers":4,"num_attention_heads":4,
    "vocab_size":512,"intermediate_size":512})");
  const auto refused = shell(scratch, "plimsoll plan sizes.json --engine vllm --gpu h100");
  CHECK(refused.status == 5);
  CHECK(refused.err.find("\"model_type\"") != std::string::npos);
}

TEST_CASE("a config that is wrong is named by its path, whichever command reads it") {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.path("m"));
  scratch.write("in", "\"a\"\n");
  const std::string llama = R"({"architectures":["LlamaForCausalLM"])";
  for (const std::string& config :
       {std::string("[1]"), std::string("{}"), llama + R"(,"hidden_size":"x"})",
        llama + R"(,"text_config":[1]})", llama + R"(,"num_hidden_layers":0})"}) {
    scratch.write("m/config.json", config);
    for (const char* command : {"plan m", "plan m --engine vllm --gpu h100", "run m -i in",
                                "plan m --engine sglang --gpu h100", "shard m --dry-run"}) {
      INFO(config << " " << command);
      const auto refused = shell(scratch, std::string("plimsoll ") + command);
      CHECK(refused.status == 5);
      CHECK(refused.err.find("m/config.json: ") != std::string::npos);
    }
  }
}
