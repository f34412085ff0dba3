#include "engines/sglang/sglang.h"

#include <fmt/format.h>

#include "engines/sglang/experts.h"
#include "engines/sglang/flags.h"
#include "engines/sglang/launch.h"
#include "engines/sglang/models.h"
#include "engines/sglang/releases.h"
#include "engines/sglang/sizing.h"

namespace plimsoll::engines::sglang {
namespace {

constexpr std::string_view kProgram = "sglang serve";  // as argparse names it

void fill_figures(const Launch& launch, Figures& figures) {
  figures.dtype = launch.dtype;
  figures.kv_dtype = launch.kv_dtype;
  figures.ranks = launch.tp * launch.pp * (launch.attention_dp > 1 ? 1 : launch.dp);
  figures.weight_ranks = launch.tp * launch.pp;
  if (launch.attention_dp > 1) figures.attention_ranks = launch.attention_tp * launch.pp;
  figures.context = launch.context;
  figures.running = launch.max_running.value_or(0);
  figures.step_tokens = launch.chunk > 0 ? launch.chunk : launch.max_prefill;
  figures.block_tokens = launch.page;
  figures.share = launch.fraction;
  figures.share_of = "--mem-fraction-static, of what is free before loading";
  if (launch.decode_graphs) figures.graphs += std::ssize(*launch.decode_graphs);
  if (launch.prefill_graphs) figures.graphs += std::ssize(*launch.prefill_graphs);
}

/// What --quantization makes of a checkpoint that is not quantized.
void fill_quantization(const Launch& launch, const ModelConfig& config, Answer& answer) {
  if (!launch.quantization || !config.quantization().json().empty()) return;
  if (*launch.quantization == "fp8" || *launch.quantization == "w8a8_fp8") {
    answer.figures.quantization = "fp8";
  } else {
    answer.notes.push_back(
        fmt::format("--quantization {}: weights are counted as the checkpoint stores them",
                    *launch.quantization));
  }
}

/// srt/arg_groups/model_overrides/qwen4_exp.py: --ple-offload-embedding is on for bfloat16.
void place_ngrams(const Launch& launch, const ModelConfig& config, Answer& answer) {
  if (config.text().integers({"ple_layer_ids"}).empty() || launch.dtype != "bfloat16") return;
  answer.figures.host_ngrams = true;
  answer.notes.emplace_back(
      "embeddings of n-grams are taken to lie in the host's pinned memory "
      "(--ple-offload-embedding, on by default)");
}

}  // namespace

void answer_to(const Question& question, Version version, Answer& answer) {
  const CommandLine line(flags(), kProgram, with_current_names(question.words, version));
  const ModelConfig config(*question.config, question.config_path);
  const Launch launch = resolve(question, config, line, version);
  const bool own_class = has_class(config.architecture());
  const bool sized = own_class && launch.pp == 1;
  answer.resolved = resolved_json(launch, sized);
  fill_figures(launch, answer.figures);
  fill_quantization(launch, config, answer);
  place_ngrams(launch, config, answer);
  for (const std::string& flag : line.unmoved())
    answer.notes.push_back(flag + ": taken; it moves no memory that is planned");
  line.add_notes(answer.notes);
  if (exchanges_tokens(line) && config.text().integer({"n_shared_experts"}, 0, kSizeOrNone) > 0)
    answer.notes.emplace_back(
        "--moe-a2a-backend: each rank holds the shared experts whole, which are counted as split; "
        "buffers of the exchange are not counted");
  answer.figures.whole_experts = expert_ranks(line, config, launch.tp) > 1;
  if (!own_class) {
    throw Refusal{"model",
                  "not among SGLang's own models; at best served through its Transformers backend"};
  }
  if (launch.pp > 1) {
    answer.notes.emplace_back(
        "pipeline stages of SGLang are not sized: which layers a stage takes is not known here");
    return;
  }
  if (question.free) size(launch, config, *question.free, answer);
}

}  // namespace plimsoll::engines::sglang
