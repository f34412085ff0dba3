#include "engines/lmdeploy/lmdeploy.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/lower_case.h"
#include "engines/lmdeploy/launch.h"
#include "engines/lmdeploy/turbomind.h"

namespace plimsoll::engines::lmdeploy {
namespace {

using enum FlagKind;

constexpr std::string_view kProgram = "lmdeploy serve api_server";

constexpr Flag kFlags[] = {
    {"--model-path", text},
    {"--tp", integer},
    {"--dp", integer},
    {"--ep", integer},
    {"--max-batch-size", integer},
    {"--cache-max-entry-count", number},
    {"--cache-block-seq-len", integer},
    {"--max-prefill-token-num", integer},
    {"--session-len", integer},
    {"--quant-policy", text},
    {"--kernel-block-size", integer},
    {"--prefix-cache-state-budget", integer},
    {"--speculative-algorithm", text, "eagle,eagle3,deepseek_mtp,hy3_mtp,qwen3_5_mtp"},
    {"--speculative-num-draft-tokens", integer},
    uncounted("--speculative-draft-model", text, "the memory of the draft model is not counted"),
    uncounted("--adapters", names, "LoRA adapters are not counted"),
    uncounted("--disable-vision-encoder,--language-model-only", bare,
              "the image encoder is counted as well"),
    unplanned("--cp", integer, "context parallelism is not planned"),
    unplanned("--help,-h", bare, kExits),
    {"--dtype", text, "auto,float16,bfloat16"},
    {"--enable-prefix-caching", bare},
    {"--model-format", text},
    {"--backend", text, "pytorch,turbomind"},
    {"--allow-origins", names, "", false},
    {"--api-keys", names, "", false},
    {"--allow-credentials", bare, "", false},
    {"--allow-methods", names, "", false},
    {"--allow-headers", names, "", false},
    {"--allowed-media-domains", names, "", false},
    {"--allow-terminate-by-client", bare, "", false},
    {"--enable-abort-handling", bare, "", false},
    {"--disable-fastapi-docs", bare, "", false},
    {"--max-concurrent-requests", integer, "", false},
    {"--generation-config", text, "", false},
    {"--use-logn-attn", bare, "", false},
    {"--logprobs-mode", text, "", false},
    {"--dllm-block-length", integer, "", false},
    {"--dllm-unmasking-strategy", text, "", false},
    {"--dllm-denoising-steps", integer, "", false},
    {"--dllm-confidence-threshold", number, "", false},
    {"--enable-return-routed-experts", bare, "", false},
    {"--distributed-executor-backend", text, "", false},
    {"--prefix-cache-decode-state-interval", integer, "", false},
    {"--cudagraph-capture-batch-sizes", list, "", false},
    {"--async", integer, "", false},
    {"--dist-init-addr", text, "", false},
    {"--dp-rank", integer, "", false},
    {"--migration-backend", text, "", false},
    {"--enable-microbatch", bare, "", false},
    {"--enable-eplb", bare, "", false},
    {"--server-name", text, "", false},
    {"--server-port", integer, "", false},
    {"--ssl", bare, "", false},
    {"--model-name", text, "", false},
    {"--chat-template", text, "", false},
    {"--log-level", text, "", false},
    {"--max-log-len", integer, "", false},
    {"--download-dir", text, "", false},
    {"--revision", text, "", false},
    {"--trust-remote-code", bare, "", false},
    {"--tool-call-parser", text, "", false},
    {"--reasoning-parser", text, "", false},
    {"--proxy-url", text, "", false},
    {"--eager-mode", bare, "", false},
    {"--vision-max-batch-size", integer, "", false},
    {"--rope-scaling-factor", number, "", false},
    {"--hf-overrides", text, "", false},
    {"--num-tokens-per-iter", integer, "", false},
    {"--max-prefill-iters", integer, "", false},
    {"--communicator", text, "", false},
    {"--enable-metrics", bare, "", false},
    {"--disable-metrics", bare, "", false},
    {"--device", text, "", false},
    {"--role", text, "", false},
    {"--nnodes", integer, "", false},
    {"--node-rank", integer, "", false},
};

constexpr FieldFlag kOfBoth[] = {
    {"--tp", "tp"},
    {"--dp", "dp"},
    {"--ep", "ep"},
    {"--max-batch-size", "max_batch_size"},
    {"--cache-max-entry-count", "cache_max_entry_count"},
    {"--max-prefill-token-num", "max_prefill_token_num"},
    {"--session-len", "session_len"},
    {"--dtype", "dtype"},
    {"--enable-prefix-caching", "enable_prefix_caching"},
    {"--model-format", "model_format"},
};
constexpr FieldFlag kOfPytorch[] = {
    {"--cache-block-seq-len", "block_size"},
    {"--kernel-block-size", "kernel_block_size"},
    {"--prefix-cache-state-budget", "prefix_cache_state_budget"},
};
constexpr FieldFlag kOfTurbomind[] = {{"--cache-block-seq-len", "cache_block_seq_len"}};

/// Names of QuantPolicy (lmdeploy/messages.py).
constexpr std::pair<std::string_view, int64_t> kPolicies[] = {
    {"none", 0},      {"int4", 4},      {"int8", 8},        {"fp8", 16},
    {"fp8_e4m3", 16}, {"fp8_e5m2", 17}, {"turbo_quant", 42}};

/// The fields of --engine-args, and those of flags, which win; `own`: flags of one engine.
Json fields_of(const Question& question, const CommandLine& line, std::span<const FieldFlag> own) {
  Json fields = with_flags(with_flags(question.fields, line, kFlags, kOfBoth), line, kFlags, own);
  if (line.has("--quant-policy")) {
    const std::string policy = lower_case(line.text("--quant-policy", ""));
    const auto* const named =
        std::ranges::find(kPolicies, policy, &std::pair<std::string_view, int64_t>::first);
    int64_t value = named == std::end(kPolicies) ? -1 : named->second;
    if (value < 0) std::from_chars(policy.data(), policy.data() + policy.size(), value);
    fields["quant_policy"] = value;
  }
  if (line.has("--speculative-algorithm")) {
    fields["speculative"] = {
        {"method", line.text("--speculative-algorithm", "")},
        {"num_speculative_tokens", line.integer("--speculative-num-draft-tokens", 1)}};
  }
  if (line.integer("--kernel-block-size", 0) == -1) fields.erase("kernel_block_size");
  return fields;
}

void fill_figures(const Settings& launch, const ModelConfig& config, Figures& figures) {
  figures.dtype = launch.dtype;
  figures.kv_dtype = launch.dtype;
  figures.ranks = launch.ranks;
  figures.weight_ranks = launch.mlp_tp;
  figures.attention_ranks = launch.tp;
  figures.whole_experts = launch.experts > 1 && config.experts() > 0;
  if (figures.whole_experts) figures.expert_ranks = launch.experts;
  figures.context = config.text().integer({"max_position_embeddings", "seq_length"}, 1 << 20,
                                          {1, int64_t{1} << 40});
  figures.running = launch.batch;
  figures.step_tokens = launch.prefill;
  figures.block_tokens = launch.block;
  figures.share = launch.share;
  figures.share_of = "cache_max_entry_count, of what is free";
}

void plan_pytorch(const Question& question, const ModelConfig& config, const CommandLine& line,
                  Version release, Answer& answer) {
  if (release < kNewest) {  // its older releases have no rules of their own here
    answer.version = model::version_text(kNewest);
    answer.asked_for = question.version;
  }
  const Fields fields(fields_of(question, line, kOfPytorch));
  const Launch launch = resolve(question, config, fields);
  answer.resolved = resolved_json(launch);
  fill_figures(launch, config, answer.figures);
  line.add_notes(answer.notes);
  if (question.free) size(launch, config, question.free->after, answer);
}

void plan_turbomind(const Question& question, const ModelConfig& config, const CommandLine& line,
                    Version release, Answer& answer) {
  Json stated = fields_of(question, line, kOfTurbomind);
  if (stated.is_object() && stated.erase("speculative") > 0)
    answer.says.emplace_back("speculative decoding is not supported by turbomind ");
  const Fields fields(std::move(stated));
  const turbomind::Launch launch = turbomind::resolve(question, config, fields, release);
  answer.resolved = turbomind::resolved_json(launch);
  fill_figures(launch, config, answer.figures);
  answer.figures.expert_ranks *= launch.mlp_tp;  // each expert is cut as well
  line.add_notes(answer.notes);
  answer.notes.emplace_back(
      "TurboMind's buffers for steps are taken from what the cache leaves, and are not counted");
  if (question.free) turbomind::size(launch, question.free->after, release, answer);
}

}  // namespace

std::span<const Flag> flags() {
  return kFlags;
}

void answer_to(const Question& question, Version release, Answer& answer) {
  const CommandLine line(kFlags, kProgram, question.words);
  const ModelConfig config(*question.config, question.config_path);
  // The fields of a Python config are PytorchEngineConfig's, unless the line says otherwise.
  const char* const usual = question.fields.is_null() ? "turbomind" : "pytorch";
  const bool asked = line.text("--backend", usual) == "turbomind";
  const bool taken = asked && turbomind::takes(config, release);
  if (asked && !taken) {
    answer.says.push_back(
        fmt::format("Fallback to pytorch engine because '{}' not supported by turbomind engine.",
                    question.model));
  }
  if (!line.has("--backend")) {
    answer.notes.emplace_back(taken ? "planned as TurboMind, which lmdeploy serve takes for this "
                                      "model (--backend pytorch: the PyTorch engine)"
                                    : "planned as the PyTorch engine (--backend turbomind: "
                                      "TurboMind, for models that it takes)");
  }
  if (taken) {
    plan_turbomind(question, config, line, release, answer);
  } else {
    plan_pytorch(question, config, line, release, answer);
  }
}

}  // namespace plimsoll::engines::lmdeploy
