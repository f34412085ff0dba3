#include "engines/lmdeploy/lmdeploy.h"

#include <algorithm>

#include "engines/lmdeploy/launch.h"

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
    {"--quant-policy", integer},
    {"--dtype", text, "auto,float16,bfloat16"},
    {"--enable-prefix-caching", bare},
    {"--model-format", text},
    {"--backend", text, "pytorch,turbomind"},
    {"--server-name", text, "", false},
    {"--server-port", integer, "", false},
    {"--allow-origins", list, "", false},
    {"--api-keys", list, "", false},
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
    {"--disable-vision-encoder", bare, "", false},
    {"--vision-max-batch-size", integer, "", false},
    {"--rope-scaling-factor", number, "", false},
    {"--hf-overrides", text, "", false},
    {"--num-tokens-per-iter", integer, "", false},
    {"--max-prefill-iters", integer, "", false},
    {"--communicator", text, "", false},
    {"--enable-metrics", bare, "", false},
    {"--disable-metrics", bare, "", false},
    {"--adapters", list, "", false},
    {"--device", text, "", false},
    {"--role", text, "", false},
    {"--nnodes", integer, "", false},
    {"--node-rank", integer, "", false},
};

constexpr FieldFlag kMeanings[] = {
    {"--tp", "tp"},
    {"--dp", "dp"},
    {"--ep", "ep"},
    {"--max-batch-size", "max_batch_size"},
    {"--cache-max-entry-count", "cache_max_entry_count"},
    {"--cache-block-seq-len", "block_size"},
    {"--max-prefill-token-num", "max_prefill_token_num"},
    {"--session-len", "session_len"},
    {"--quant-policy", "quant_policy"},
    {"--dtype", "dtype"},
    {"--enable-prefix-caching", "enable_prefix_caching"},
    {"--model-format", "model_format"},
};

void fill_figures(const Launch& launch, const ModelConfig& config, Figures& figures) {
  figures.dtype = launch.dtype;
  figures.kv_dtype = launch.dtype;
  figures.ranks = launch.tp;
  figures.context = config.text().integer({"max_position_embeddings", "seq_length"}, 1 << 20,
                                          {1, int64_t{1} << 40});
  figures.running = launch.batch;
  figures.step_tokens = launch.prefill;
  figures.block_tokens = launch.block;
  figures.share = launch.share;
  figures.share_of = "cache_max_entry_count, of what is free";
}

}  // namespace

std::span<const Flag> flags() {
  return kFlags;
}

void answer_to(const Question& question, Version, Answer& answer) {
  const CommandLine line(kFlags, kProgram, question.words);
  const ModelConfig config(*question.config, question.config_path);
  const Fields fields(with_flags(question.fields, line, kFlags, kMeanings));
  const Launch launch = resolve(question, config, fields);
  answer.resolved = resolved_json(launch);
  fill_figures(launch, config, answer.figures);
  if (line.text("--backend", "pytorch") == "turbomind") {
    answer.notes.emplace_back(
        "planned as the PyTorch engine: TurboMind cuts what is free into pages of 32 MiB, and its "
        "buffers after the cache are not known");
  } else if (!line.has("--backend")) {
    answer.notes.emplace_back(
        "planned as the PyTorch engine; lmdeploy serve takes TurboMind for architectures that it "
        "knows (--backend pytorch)");
  }
  if (question.free) size(launch, config, question.free->after, answer);
}

}  // namespace plimsoll::engines::lmdeploy
