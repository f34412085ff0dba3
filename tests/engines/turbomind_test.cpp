// LMDeploy's TurboMind: which models it takes by release, and its cache with sums by hand.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engines/engine.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

constexpr int64_t kPage = int64_t{32} << 20;
constexpr int64_t kBlock = int64_t{8} << 20;  // 64 tokens of Llama 3.1 8B

struct Served {
  std::vector<std::string> words = {};
  Json changes = Json::object();
  const char* name = "meta-llama__Meta-Llama-3.1-8B";
  const char* release = "";
  const char* card = "h100";
  double free = 40 * double{1 << 30};  // bytes
  Json fields = nullptr;
  std::map<std::string, std::string> variables = {};
};

Answer serve(const Served& served) {
  Json config = read_json_file(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/engines/configs/" +
                               served.name + ".json");
  config.merge_patch(served.changes);
  Question question;
  question.config = &config;
  question.config_path = "config.json";
  question.model = "ORG/MODEL";
  question.words = served.words;
  question.fields = served.fields;
  question.version = served.release;
  question.variables = served.variables;
  question.gpu = &hardware::find_gpu(served.card);
  question.free = FreeMemory{78, served.free / 0x1p30};
  return find_engine("lmdeploy")->ask(question);
}

std::string refusal_of(const Served& served) {
  const Answer answer = serve(served);
  return answer.refused ? answer.refused->stage + ": " + answer.refused->words : "";
}

bool by_turbomind(const Served& served) {
  return serve(served).resolved.contains("backend");
}

/// A config of this class, with heads of this width.
Json of_class(const char* architecture, int64_t head_dim = 128) {
  return {{"architectures", {architecture}}, {"head_dim", head_dim}};
}

}  // namespace

TEST_CASE("lmdeploy serve takes TurboMind for the models that a release's table has") {
  CHECK(by_turbomind({}));
  CHECK(by_turbomind({.words = {"--backend", "turbomind"}, .fields = Json::object()}));
  CHECK_FALSE(by_turbomind({.words = {"--backend", "pytorch"}}));
  // Fields are those of the PyTorch engine's config.
  CHECK_FALSE(by_turbomind({.fields = Json::object()}));
  struct Row {
    const char* architecture;
    const char* last_without;
    const char* first;
    const char* last = "0.18.0";
    const char* first_without = "";
  };
  for (const Row& row :
       {Row{"InternLM3ForCausalLM", "0.6.5", "0.7.0"}, Row{"Qwen2MoeForCausalLM", "0.6.2", "0.6.3"},
        Row{"Qwen3ForCausalLM", "0.7.2", "0.7.3"},
        Row{"Qwen2_5_VLForConditionalGeneration", "0.9.1", "0.9.2"},
        Row{"GptOssForCausalLM", "0.9.2", "0.10.0"},
        Row{"InternS1ForConditionalGeneration", "0.9.1", "0.9.2"},
        Row{"InternVLForConditionalGeneration", "0.8.0", "0.9.0"},
        Row{"InternVLChatModel", "0.3.0", "0.4.0"},
        Row{"Glm4MoeLiteForCausalLM", "0.12.1", "0.12.2"},
        Row{"MiniCPMV", "0.4.2", "0.5.0", "0.13.0", "0.14.0"},
        Row{"LlavaForConditionalGeneration", "0.6.2", "0.6.3", "0.13.0", "0.14.0"},
        Row{"InternS2MobiusForConditionalGeneration", "0.15.0", "0.16.0"},
        Row{"MistralForCausalLM", "", "0.5.0", "0.13.0", "0.14.0"},
        Row{"DeepseekV2ForCausalLM", "0.6.3", "0.6.4", "0.13.0", "0.14.0"}}) {
    INFO(row.architecture);
    const auto taken = [&](const char* release) {
      Json changes = of_class(row.architecture);
      changes["kv_lora_rank"] = 512;
      changes["qk_rope_head_dim"] = 64;
      return by_turbomind({.changes = changes, .release = release});
    };
    if (*row.last_without != 0) CHECK_FALSE(taken(row.last_without));
    CHECK(taken(row.first));
    CHECK(taken(row.last));
    if (*row.first_without != 0) CHECK_FALSE(taken(row.first_without));
  }
  CHECK_FALSE(by_turbomind({.changes = of_class("Gemma3ForCausalLM")}));
  CHECK_FALSE(
      by_turbomind({.changes = {{"quantization_config", {{"quant_method", "smooth_quant"}}}}}));
  // Heads of 96 came with 0.14.
  const Json narrow = of_class("LlamaForCausalLM", 96);
  CHECK_FALSE(by_turbomind({.changes = narrow, .release = "0.13.0"}));
  CHECK(by_turbomind({.changes = narrow, .release = "0.14.0"}));
  CHECK(by_turbomind({.changes = of_class("LlamaForCausalLM", 64), .release = "0.13.0"}));
  const auto old = [](const char* architecture, const char* key, int64_t value) {
    Json changes = of_class(architecture);
    changes[key] = value;
    return by_turbomind({.changes = changes, .release = "0.13.0"});
  };
  CHECK(old("BaichuanForCausalLM", "num_attention_heads", 32));
  CHECK_FALSE(old("BaichuanForCausalLM", "num_attention_heads", 40));
  CHECK(old("ChatGLMModel", "num_layers", 40));
  CHECK_FALSE(old("ChatGLMModel", "num_layers", 28));
  const Answer drafts = serve({.words = {"--speculative-algorithm", "eagle"}});
  CHECK_FALSE(drafts.refused);
  CHECK(drafts.says.at(0) == "speculative decoding is not supported by turbomind ");
  // What it does not take, the PyTorch engine does, and says so.
  const Answer other =
      serve({.words = {"--backend", "turbomind"}, .changes = of_class("Gemma3ForCausalLM")});
  CHECK(other.says.at(0) ==
        "Fallback to pytorch engine because 'ORG/MODEL' not supported by turbomind engine.");
}

TEST_CASE("TurboMind's blocks lie in slabs of pages, of which one may be lost") {
  const auto blocks = [](const Served& served) {
    return serve(served).sizing["num_blocks"].get<int64_t>();
  };
  const auto share = [](const char* value) {
    return std::vector<std::string>{"--cache-max-entry-count", value};
  };
  // Four blocks of 8 MiB a page; ten pages and their part that is aligned away.
  CHECK(blocks({.words = share("0.5"), .free = 2 * 11 * kPage}) == 40);
  CHECK(blocks({.words = share("0.5"), .free = 2 * 11 * kPage - 2}) == 36);
  const Answer answer = serve({.words = share("0.5"), .free = 2 * 11 * kPage});
  CHECK(answer.says == std::vector<std::string>{
                           "Object cache budget: 352.00 MB from free 704.00 MB and ratio 0.500"});
  CHECK(answer.figures.kv_tokens == 40 * 64);
  CHECK(answer.figures.kv_bytes == 40 * kBlock);
  CHECK(answer.figures.state_bytes == 0);
  CHECK(answer.figures.beside_bytes == int64_t{1024} * 131072 * 4);
  // 12 MiB fill 75 % of a page, 94 % of two, 94 % of four, 98.4 % of eight: 21 a slab of 256 MiB.
  const Served odd{.words = {"--cache-max-entry-count", "0.5", "--cache-block-seq-len", "96"},
                   .free = 2 * 18 * kPage};
  CHECK(serve(odd).sizing["slab_pages"] == 8);
  CHECK(blocks(odd) == 2 * 21);  // 17 pages are two slabs
  CHECK(blocks({.words = odd.words, .free = 2 * 17 * kPage}) == 2 * 21);
  CHECK(blocks({.words = odd.words, .free = 2 * 17 * kPage - 2}) == 21);
  // A block above a page has a slab of its own size.
  const Served wide{.words = {"--cache-max-entry-count", "0.5", "--cache-block-seq-len", "512"},
                    .free = 2 * 7 * kPage};
  CHECK(serve(wide).sizing["slab_pages"] == 2);
  CHECK(blocks(wide) == 3);
  CHECK(refusal_of({.words = share("0.5"), .free = 2 * 2 * kPage - 2}) ==
        "memory: kOutOfMemory for every request: no block of 8.000 MB fits");
}

TEST_CASE("TurboMind's blocks have the bytes of policy, heads and ranks") {
  const auto bytes = [](const Served& served) {
    return serve(served).sizing["block_bytes"].get<int64_t>();
  };
  CHECK(bytes({}) == kBlock);
  CHECK(bytes({.words = {"--tp", "2"}}) == kBlock / 2);
  // 8 heads on 16 ranks: each is there twice.
  CHECK(bytes({.words = {"--tp", "16"}}) == kBlock / 8);
  CHECK(refusal_of({.words = {"--tp", "3"}}) ==
        "arguments: AssertionError: target_heads=9 must be divisible by heads=8");
  // 128 values in 8 and 4 bits, a scale and a zero of 16 bits each.
  CHECK(bytes({.words = {"--quant-policy", "8"}}) == kBlock * 132 / 256);
  CHECK(bytes({.words = {"--quant-policy", "4"}}) == kBlock * 68 / 256);
  const Json latent = {{"architectures", {"Glm4MoeLiteForCausalLM"}},
                       {"kv_lora_rank", 512},
                       {"qk_rope_head_dim", 64}};
  CHECK(bytes({.words = {"--tp", "2"}, .changes = latent}) == 32 * 64 * 576 * 2);
  Json wider = latent;
  wider["kv_lora_rank"] = 448;  // no row of 576 values, which alone are keys and values
  CHECK(bytes({.changes = wider}) == 32 * 2 * 64 * 512 * 2);
}

TEST_CASE("TurboMind keeps recurrent states beside its blocks, by release") {
  const Served hybrid{.words = {"--session-len", "6400", "--max-batch-size", "4"},
                      .name = "Qwen__Qwen3.5-27B"};
  // 48 delta layers: 48 heads of 128 x 128 values, convolutions of 4 tokens of 10,240 channels.
  constexpr int64_t kState = 48 * 128 * 128 * 2, kConvolutions = int64_t{48} * 10240 * 4 * 2;
  constexpr int64_t kRequest = 48 * kState + kConvolutions;
  const auto with_free = [&](double free) {
    Served served = hybrid;
    served.free = free;
    return serve(served).sizing;
  };
  // 10 pages of blocks of 4 MiB; one request's 48 states of 1.5 MiB, 21 a page; convolutions of
  // 3.75 MiB, which fill 94 % of a page, 99.6 % of two.
  const OrderedJson one = with_free((10 + 3 + 2 + 1) * kPage / 0.8);
  CHECK(one["state_bytes"] == kRequest);
  CHECK(one["state_requests"] == 1);
  CHECK(one["num_blocks"] == 80);
  // All four requests of 100 blocks, 13 pages each: 192 states fill ten pages.
  const OrderedJson four = with_free((50 + 10 + 2 + 1) * kPage / 0.8);
  CHECK(four["state_requests"] == 4);
  CHECK(four["num_blocks"] == 400);
  CHECK(with_free((49 + 10 + 2 + 1) * kPage / 0.8)["state_requests"] == 3);
  Served wide = hybrid;
  wide.variables["LMDEPLOY_FP32_MAMBA_SSM_DTYPE"] = "1";
  CHECK(serve(wide).sizing["state_bytes"] == 48 * 2 * kState + kConvolutions);
  // Before 0.15 a whole batch has its states before the blocks.
  Served before = hybrid;
  before.release = "0.14.0";
  before.words.insert(before.words.end(), {"--cache-max-entry-count", "0.5"});
  before.free = 2.0 * (4 * kRequest + 7 * (int64_t{4} << 20));
  CHECK(serve(before).sizing["num_blocks"] == 7);
  CHECK(serve(before).figures.state_bytes == 4 * kRequest);
  before.free = 2.0 * 4 * kRequest;
  CHECK_THAT(refusal_of(before), Catch::StartsWith("memory: [SeqMgr] Linear-state memory (303.00 "
                                                   "MB) >= cache budget (303.00 MB)."));
  CHECK_THAT(refusal_of({.words = {"--tp", "32"}, .name = "Qwen__Qwen3.5-27B"}),
             Catch::StartsWith("arguments: Check failed: first.num_k_heads"));
}

TEST_CASE("TurboMind before 0.15 has an array of blocks, and cuts sessions to it") {
  const Served asked{
      .words = {"--cache-max-entry-count", "0.5"}, .release = "0.9.2", .free = 2.0 * 1740 * kBlock};
  const Answer answer = serve(asked);
  CHECK(answer.version == "0.9.2");
  CHECK(answer.asked_for.empty());
  CHECK(answer.says == std::vector<std::string>{
                           "[BlockManager] block_size = 8.000 MB",
                           "[BlockManager] max_block_count = 1740",
                           "No enough blocks for `session_len` (131072), `session_len` truncated "
                           "to 111360."});
  CHECK(answer.figures.context == 111360);
  CHECK(answer.figures.beside_bytes == 1024 * 111360 * 4);  // token ids
  Served counted = asked;
  counted.words = {"--cache-max-entry-count", "2048"};
  CHECK(serve(counted).sizing["num_blocks"] == 2048);
  CHECK(serve(counted).says.size() == 2);
  Served none = asked;
  none.free = 2.0 * kBlock - 2;
  CHECK(refusal_of(none) == "memory: No enough blocks.");
  // Newer than what is known: as the newest, and said.
  CHECK(serve({.release = "0.99.0"}).asked_for == "0.99.0");
  CHECK(serve({.release = "0.99.0"}).version == "0.18.0");
}

TEST_CASE("TurboMind cuts experts by both of their ranks, and has none in dense models") {
  const auto figures = [](std::vector<std::string> words, Json changes) {
    return serve({.words = std::move(words), .changes = std::move(changes)}).figures;
  };
  Json mixture = of_class("Qwen3MoeForCausalLM");
  mixture["num_experts"] = 128;
  const Figures both = figures({"--tp", "4", "--ep", "2"}, mixture);
  CHECK(both.whole_experts);
  CHECK(both.expert_ranks == 4);
  CHECK(both.weight_ranks == 2);
  const Figures copies = figures({"--tp", "4", "--dp", "2", "--ep", "2"}, mixture);
  CHECK(copies.ranks == 8);
  CHECK(copies.expert_ranks == 8);
  CHECK(figures({"--tp", "2", "--dp", "2"}, mixture).weight_ranks == 2);
  const Figures dense = figures({"--tp", "4", "--ep", "2"}, Json::object());
  CHECK_FALSE(dense.whole_experts);
  CHECK(dense.expert_ranks == 0);
}

TEST_CASE("TurboMind's table of token ids has what the cache leaves") {
  // 1,024 sequences of 1,048,576 tokens: 4 GiB of 20 that are free, of which the cache takes 16.
  const double gib = 0x1p30;
  const Served asked{.words = {"--session-len", "1048576"}, .free = 20 * gib};
  CHECK(refusal_of(asked).empty());
  Served less = asked;
  less.free = 20 * gib - 64;
  CHECK_THAT(refusal_of(less), Catch::StartsWith("memory: out of memory: token ids of 1024 "));
}

TEST_CASE("TurboMind refuses what its config refuses, in its words") {
  struct Row {
    std::vector<std::string> words;
    Json changes;
    const char* says;
  };
  const auto quantized = [](Json config) { return Json{{"quantization_config", config}}; };
  for (const Row& row : {
           Row{{"--cache-max-entry-count", "0"},
               {},
               "AssertionError: invalid cache_max_entry_count"},
           Row{{"--cache-max-entry-count", "1"},
               {},
               "object-cache path no longer accepts cache_max_block_count as a block count"},
           Row{{"--max-batch-size", "-1"},
               {},
               "AssertionError: max_batch_size should be greater than 0, but got -1"},
           Row{{"--max-prefill-token-num", "-1"},
               {},
               "AssertionError: invalid max_prefill_token_num"},
           Row{{"--quant-policy", "fp8"},
               {},
               "AssertionError: invalid quant_policy for TurboMind, FP8 quantization is not "
               "supported"},
           Row{{"--quant-policy", "42"}, {}, "ValueError: invalid quant_policy: 42"},
           Row{{"--tp", "2", "--ep", "4"}, {}, "AssertionError: no valid parallel config"},
           Row{{"--tp", "4", "--ep", "4"}, {}, ""},
           Row{{},
               {{"layer_types", Json(32, "linear_attention")},
                {"linear_num_key_heads", 8},
                {"linear_num_value_heads", 8},
                {"linear_key_head_dim", 128},
                {"linear_value_head_dim", 128},
                {"linear_conv_kernel_dim", 4}},
               "Check failed: weights.size() >= 1"},
           Row{{},
               quantized({{"quant_method", "bitsandbytes"}}),
               "AssertionError: unsupported quant_config"},
           Row{{},
               quantized({{"quant_method", "awq"}, {"version", "gemv"}}),
               "AssertionError: unsupported quant_config"},
           Row{{},
               quantized({{"quant_method", "gptq"}, {"desc_act", true}}),
               "AssertionError: unsupported quant_config"},
           Row{{},
               quantized({{"quant_method", "gptq"}, {"group_size", 64}}),
               "ValueError: Unsupported group_size=64 for model_format=\"gptq\". Supported "
               "group_size values: 128."},
           Row{{}, quantized({{"quant_method", "gptq"}, {"group_size", 128}}), ""},
       }) {
    INFO(row.says);
    const std::string said = refusal_of(
        {.words = row.words, .changes = row.changes.is_null() ? Json::object() : row.changes});
    const std::string wanted = *row.says == 0 ? "" : std::string("arguments: ") + row.says;
    CHECK(said.substr(0, wanted.size()) == wanted);
    CHECK(said.empty() == wanted.empty());
  }
  CHECK(serve({.changes = quantized({{"quant_method", "awq"}, {"version", "gemm"}})})
            .resolved["dtype"] == "float16");
  CHECK(serve({.card = "t4"}).resolved["dtype"] == "float16");
  CHECK(serve({}).resolved["dtype"] == "bfloat16");
}
