// Room for adapters of the token table and of the output, by class and release.
#include "vllm/shapes/adapters.h"

#include <catch2/catch.hpp>

#include "base/json.h"
#include "base/split_text.h"

using namespace plimsoll;
using namespace plimsoll::vllm;
using model::VllmVersion;

namespace {

/// What of a language model has adapters beside its layers.
enum class Ends : uint8_t { none, table, both };

Ends adapted_ends(const std::string& language, const VllmVersion& version) {
  constexpr int64_t kHidden = 64, kRank = 8, kSlots = 2, kElement = 2;
  const Json none = Json::object();
  const ConfigView config(none, "config.json");
  ShapeOptions options;
  options.version = version;
  options.lora_slots = kSlots;
  options.lora_rank = kRank;
  const Quantization plain;
  RankWeights weights(1, kElement, plain);
  weights.set_lora(kSlots, kRank);
  ModelShape shape;
  Builder build{config, config, options, weights, shape};
  build.dims.hidden = kHidden;
  build.dims.vocabulary = 512;
  adapt_vocabulary(language, build);
  // Releases before 0.12 have rows for 256 tokens that adapters may add.
  const bool adds = version < VllmVersion{0, 12, 0};
  const int64_t slots = kSlots * kElement, added = adds ? 256 : 0;
  const Amount table = Amount{512 + added + kHidden} * kRank * slots;
  const Amount output = (Amount{512 + kHidden} * kRank + 2 * added * kHidden) * slots;
  CHECK(shape.adapted_table_bytes ==
        (weights.lora_bytes() == 0 ? Amount{0} : Amount{512 + added} * kRank * slots));
  if (weights.lora_bytes() == 0) return Ends::none;
  if (weights.lora_bytes() == table) return Ends::table;
  CHECK(weights.lora_bytes() == table + output);
  return Ends::both;
}

}  // namespace

TEST_CASE("each class has adapters of its ends from its first release on, and none before") {
  struct Row {
    int since;  // 0.N.0
    Ends ends;
    std::string_view names;  // of classes ...ForCausalLM
  };
  const Row rows[] = {
      {10, Ends::both,
       "Aquila Bamba DeciLM Ernie4_5_ Exaone4 Exaone Fairseq2Llama Glm Granite "
       "GraniteMoe GraniteMoeHybrid GraniteMoeShared InternLM3 InternLM Jamba LLaMA "
       "Llama MiniCPM3 MiniCPM Mixtral Nemotron NemotronH Phi3 PhiMoE QuantMixtral "
       "Solar TeleChat2 TeleFLM Xverse"},
      {11, Ends::both, "Apertus Cwm Ernie4_5 Lfm2 Llama4 Motif"},
      {12, Ends::both, "FalconH1 Lfm2Moe TeleChat"},
      {13, Ends::both, "Jais2"},
      {14, Ends::both, "ExaoneMoE IQuestCoder"},
      {16, Ends::both, "NemotronHPuzzle Qwen3 Qwen3Moe"},
      {18, Ends::both, "HyperCLOVAX"},
      {20, Ends::both, "Param2MoE TeleChat3"},
      {23, Ends::both, "Mellum"},
      {27, Ends::both, "ExaoneMoe"},
      {29, Ends::both, "GraniteMoeSWA GraniteSWA Qwen3_5 Qwen3_5Moe"},
      {30, Ends::both, "K2Horizon"},
      {10, Ends::table, "Cohere2 Cohere"},
      {11, Ends::table, "SmolLM3"},
      {25, Ends::table, "GPTBigCode Starcoder2"},
      {26, Ends::table, "Olmo2 Olmo"},
      {27, Ends::table, "VaultGemma"},
      {29, Ends::table, "FlexOlmo HunYuanDenseV1 HunYuanMoEV1 Olmo3"},
      {30, Ends::table, "Nanbeige"},
      {32, Ends::table, "Arcee GPTNeoX Phi SeedOss"},
      {33, Ends::table, "Kolibri1"},
  };
  for (const Row& row : rows) {
    for (const std::string_view name : split_text(row.names, " ")) {
      const std::string language = std::string(name) + "ForCausalLM";
      INFO(language);
      CHECK(adapted_ends(language, {0, row.since - 1, 9}) == Ends::none);
      CHECK(adapted_ends(language, {0, row.since, 0}) == row.ends);
      CHECK(adapted_ends(language, {0, row.since, 1}) == row.ends);
      CHECK(adapted_ends(language, model::kNewestRelease) == row.ends);
    }
  }
  CHECK(adapted_ends("Qwen2ForCausalLM", model::kNewestRelease) == Ends::none);
}

TEST_CASE("Mistral has adapters of its ends up to 0.14") {
  const char* const mistral = "MistralForCausalLM";
  CHECK(adapted_ends(mistral, {0, 9, 9}) == Ends::none);
  CHECK(adapted_ends(mistral, {0, 10, 0}) == Ends::both);
  CHECK(adapted_ends(mistral, {0, 14, 0}) == Ends::both);
  CHECK(adapted_ends(mistral, {0, 14, 1}) == Ends::both);
  CHECK(adapted_ends(mistral, {0, 15, 0}) == Ends::none);
  CHECK(adapted_ends(mistral, {0, 15, 1}) == Ends::none);
  CHECK(adapted_ends(mistral, model::kNewestRelease) == Ends::none);
}

TEST_CASE("adapters of experts have one factor for gate and up from a class's first release on") {
  const std::pair<const char*, int> rows[] = {
      {"GptOssForCausalLM", 12},
      {"Qwen3VLMoeForConditionalGeneration", 12},
      {"InternS1ProForConditionalGeneration", 16},
      {"Qwen3_5MoeForConditionalGeneration", 19},
      {"InternS2PreviewForConditionalGeneration", 21},
      {"InternS2MobiusForConditionalGeneration", 28},
      {"Qwen3OmniMoeForConditionalGeneration", 29},
  };
  for (const auto& [name, since] : rows) {
    INFO(name);
    CHECK_FALSE(adapts_experts_fused(name, {0, since - 1, 9}));
    CHECK(adapts_experts_fused(name, {0, since, 0}));
    CHECK(adapts_experts_fused(name, model::kNewestRelease));
  }
  CHECK_FALSE(adapts_experts_fused("MixtralForCausalLM", model::kNewestRelease));
}
