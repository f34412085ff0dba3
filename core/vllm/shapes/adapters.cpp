// Which of vLLM's classes hold adapters of the token table and of the output (`embedding_modules`
// of its model_executor/models, read from the wheels of 0.10.0 to 0.33.0).
#include "vllm/shapes/adapters.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/error.h"

namespace plimsoll::vllm {
namespace {

using model::VllmVersion;

constexpr VllmVersion kExtraTokens{0, 12, 0};  // before: adapters may add tokens
constexpr VllmVersion kOneTable{0, 28, 0};     // before: some classes have a tied table twice
constexpr VllmVersion kHigherLimit{0, 19, 0};  // of the vocabulary, between 0.13 and 0.19: inferred
constexpr VllmVersion kEarliest{0, 10, 0};     // not looked at before

enum class Adapts : uint8_t { both, table };

struct Adapted {
  std::string_view architecture;
  VllmVersion since;
  Adapts what = Adapts::both;
  VllmVersion until{1, 0, 0};
  /// Releases before kOneTable name a tied head after the table, which is adapted once more.
  bool twice = false;
};
constexpr auto kAdapted = std::to_array<Adapted>({
    {"ApertusForCausalLM", {0, 11, 0}},
    {"AquilaForCausalLM", kEarliest},
    {"ArceeForCausalLM", {0, 32, 0}, Adapts::table},
    {"BambaForCausalLM", kEarliest},
    {"Cohere2ForCausalLM", kEarliest, Adapts::table},
    {"CohereForCausalLM", kEarliest, Adapts::table},
    {"CwmForCausalLM", {0, 11, 0}},
    {"DeciLMForCausalLM", kEarliest},
    {"Ernie4_5ForCausalLM", {0, 11, 0}},
    {"Ernie4_5_ForCausalLM", kEarliest},
    {"Exaone4ForCausalLM", kEarliest},
    {"ExaoneForCausalLM", kEarliest},
    {"ExaoneMoEForCausalLM", {0, 14, 0}},
    {"ExaoneMoeForCausalLM", {0, 27, 0}},
    {"Fairseq2LlamaForCausalLM", kEarliest},
    {"FalconH1ForCausalLM", {0, 12, 0}},
    {"FlexOlmoForCausalLM", {0, 29, 0}, Adapts::table},
    {"GPTBigCodeForCausalLM", {0, 25, 0}, Adapts::table},
    {"GPTNeoXForCausalLM", {0, 32, 0}, Adapts::table},
    {"GlmForCausalLM", kEarliest},
    {"GraniteForCausalLM", kEarliest},
    {"GraniteMoeForCausalLM", kEarliest},
    {"GraniteMoeHybridForCausalLM", kEarliest},
    {"GraniteMoeSWAForCausalLM", {0, 29, 0}},
    {"GraniteMoeSharedForCausalLM", kEarliest},
    {"GraniteSWAForCausalLM", {0, 29, 0}},
    {"HunYuanDenseV1ForCausalLM", {0, 29, 0}, Adapts::table},
    {"HunYuanMoEV1ForCausalLM", {0, 29, 0}, Adapts::table},
    {"HyperCLOVAXForCausalLM", {0, 18, 0}},
    {"IQuestCoderForCausalLM", {0, 14, 0}},
    {"InternLM3ForCausalLM", kEarliest},
    {"InternLMForCausalLM", kEarliest},
    {"Jais2ForCausalLM", {0, 13, 0}},
    {"JambaForCausalLM", kEarliest},
    {"K2HorizonForCausalLM", {0, 30, 0}},
    {"Kolibri1ForCausalLM", {0, 33, 0}, Adapts::table},
    {"LLaMAForCausalLM", kEarliest},
    {"Lfm2ForCausalLM", {0, 11, 0}},
    {"Lfm2MoeForCausalLM", {0, 12, 0}},
    {"Llama4ForCausalLM", {0, 11, 0}},
    {"LlamaForCausalLM", kEarliest},
    {"MellumForCausalLM", {0, 23, 0}},
    {"MiniCPM3ForCausalLM", kEarliest},
    {"MiniCPMForCausalLM", kEarliest},
    {.architecture = "MistralForCausalLM", .since = kEarliest, .until = {0, 15, 0}},
    {"MixtralForCausalLM", kEarliest},
    {"MotifForCausalLM", {0, 11, 0}},
    {"NanbeigeForCausalLM", {0, 30, 0}, Adapts::table},
    {"NemotronForCausalLM", kEarliest},
    {"NemotronHForCausalLM", kEarliest},
    {"NemotronHPuzzleForCausalLM", {0, 16, 0}},
    {"Olmo2ForCausalLM", {0, 26, 0}, Adapts::table},
    {"Olmo3ForCausalLM", {0, 29, 0}, Adapts::table},
    {"OlmoForCausalLM", {0, 26, 0}, Adapts::table},
    {.architecture = "Param2MoEForCausalLM", .since = {0, 20, 0}, .twice = true},
    {"Phi3ForCausalLM", kEarliest},
    {"PhiForCausalLM", {0, 32, 0}, Adapts::table},
    {"PhiMoEForCausalLM", kEarliest},
    {"QuantMixtralForCausalLM", kEarliest},
    {.architecture = "Qwen3ForCausalLM", .since = {0, 16, 0}, .twice = true},
    {"Qwen3MoeForCausalLM", {0, 16, 0}},
    {"Qwen3_5ForCausalLM", {0, 29, 0}},
    {"Qwen3_5MoeForCausalLM", {0, 29, 0}},
    {"SeedOssForCausalLM", {0, 32, 0}, Adapts::table},
    {"SmolLM3ForCausalLM", {0, 11, 0}, Adapts::table},
    {"SolarForCausalLM", kEarliest},
    {"Starcoder2ForCausalLM", {0, 25, 0}, Adapts::table},
    {"TeleChat2ForCausalLM", kEarliest},
    {"TeleChat3ForCausalLM", {0, 20, 0}},
    {"TeleChatForCausalLM", {0, 12, 0}},
    {"TeleFLMForCausalLM", kEarliest},
    {"VaultGemmaForCausalLM", {0, 27, 0}, Adapts::table},
    {"XverseForCausalLM", kEarliest},
});

/// Classes whose checkpoints hold gate and up of all experts in one tensor.
constexpr auto kFusedExperts = std::to_array<Adapted>({
    {"GptOssForCausalLM", {0, 12, 0}},
    {"InternS1ProForConditionalGeneration", {0, 16, 0}},
    {"InternS2MobiusForConditionalGeneration", {0, 28, 0}},
    {"InternS2PreviewForConditionalGeneration", {0, 21, 0}},
    {"Qwen3OmniMoeForConditionalGeneration", {0, 29, 0}},
    {"Qwen3VLMoeForConditionalGeneration", {0, 12, 0}},
    {"Qwen3_5MoeForConditionalGeneration", {0, 19, 0}},
});

const Adapted* find_row(std::span<const Adapted> rows, std::string_view architecture,
                        const VllmVersion& version) {
  const auto row = std::ranges::find(rows, architecture, &Adapted::architecture);
  const bool held = row != rows.end() && version >= row->since && version < row->until;
  return held ? &*row : nullptr;
}

void check_vocabulary(int64_t vocabulary, const VllmVersion& version) {
  const int64_t most = version < kHigherLimit ? 257024 : 258048;
  if (vocabulary <= most) return;
  fail(ExitCode::usage,
       "When using LoRA, vocab size must be <= {}, and it is {}. Leave --enable-lora out.", most,
       vocabulary);
}

}  // namespace

void adapt_vocabulary(std::string_view language, Builder& build) {
  const ShapeOptions& options = build.options;
  const Adapted* row = find_row(kAdapted, language, options.version);
  if (options.lora_slots == 0 || row == nullptr) return;
  const int64_t hidden = build.dims.hidden;
  const int64_t extra = options.version < kExtraTokens ? 256 : 0;
  const Amount vocabulary = Amount{build.dims.vocabulary} + extra;
  const bool output = row->what == Adapts::both && !build.shape.encoder &&
                      options.pipeline_rank + 1 == options.pipeline_parallel;
  RankWeights& weights = build.weights;
  if (options.pipeline_rank == 0) {
    build.shape.adapted_table_bytes =
        vocabulary * options.lora_rank * options.lora_slots * options.element;
    weights.adapt(vocabulary, hidden);
  }
  if (!output) return;
  check_vocabulary(build.dims.vocabulary, options.version);
  if (row->twice && build.dims.tied && options.version < kOneTable)
    weights.adapt(vocabulary, hidden);
  weights.adapt(hidden, padded_to(build.dims.vocabulary, std::max<int64_t>(extra, 1)));
  // Rows of the added tokens, beside the table and beside the output.
  weights.adapt_rows(Amount{extra} * hidden * 2);
}

bool adapts_experts_fused(std::string_view architecture, const VllmVersion& version) {
  return find_row(kFusedExperts, architecture, version) != nullptr;
}

}  // namespace plimsoll::vllm
