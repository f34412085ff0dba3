// Launches that vLLM ends with an error whatever the memory: what config and arguments decide by
// themselves, in its words, with the flag that cures it.
#include "vllm/launch/refusals.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "hardware/capability.h"
#include "model/vllm/classes.h"
#include "model/vllm/types.h"
#include "vllm/launch/class_rules.h"
#include "vllm/launch/context_ranks.h"
#include "vllm/launch/engine_choice.h"
#include "vllm/launch/graphs.h"
#include "vllm/launch/machine.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kExpertsChecked{0, 8, 0};
constexpr VllmVersion kLooksForMixtures{0, 10, 2};  // the first of these classes
constexpr VllmVersion kRankOfOne{0, 11, 1};
constexpr VllmVersion kDraftsChecked{0, 11, 1};
constexpr VllmVersion kFindsLength{0, 14, 0};
constexpr VllmVersion kStateBlocksChecked{0, 20, 0};
constexpr VllmVersion kTritonLatentGraphs{0, 22, 0};
constexpr VllmVersion kTritonFp8Checked{0, 24, 0};
constexpr VllmVersion kPromotes{0, 27, 0};
constexpr VllmVersion kDraftsFitSteps{0, 33, 0};
constexpr VllmVersion kShardsSampling{0, 29, 0};
constexpr VllmVersion kReplaysBounded{0, 33, 0};
constexpr VllmVersion kHasTables{0, 30, 0};
constexpr VllmVersion kAdaptersChecked{0, 33, 0};  // by the config; before, by the workers

/// A config without a class's name has its type's, where transformers knows the type
/// (vllm/transformers_utils/config.py); these come with code of their own.
void check_named(const ConfigView& config) {
  if (!config.texts({"architectures"}).empty()) return;
  const std::string type = config.text({"model_type"}, "");
  if (!model::vllm_type(type).unmapped) return;
  fail(ExitCode::usage,
       "No model architectures are specified: the config names none, and its model_type \"{}\" is "
       "none of transformers'. Add \"architectures\": [\"{}\"] to it, or give vLLM --hf-overrides.",
       type, architecture_name(config));
}

void check_parallel(const ConfigView& config, const EngineArgs& args) {
  const ConfigView text = text_config(config);
  const int64_t heads = text.integer({"num_attention_heads", "n_head", "n_heads"}, 0);
  if (heads % args.tensor_parallel != 0) {
    fail(ExitCode::usage,
         "Total number of attention heads ({}) must be divisible by tensor parallel size ({}). "
         "Use another --tensor-parallel-size.",
         heads, args.tensor_parallel);
  }
}

void check_found_length(const EngineArgs& args) {
  if (args.max_model_len != -1 || args.version >= kFindsLength) return;
  fail(ExitCode::usage,
       "vllm: error: argument --max-model-len: vLLM finds a length that fits by itself (auto, -1) "
       "from 0.14 on. State the length: --max-model-len N.");
}

/// What helps where a class lacks an interface: to leave a flag out, or a later release.
std::string interface_cure(std::string_view flag, const model::Releases& having,
                           const VllmVersion& version) {
  if (having.since <= version || having.since >= VllmVersion{1, 0, 0})
    return fmt::format("Leave {} out.", flag);
  return fmt::format("Leave {} out, or use vLLM {}, the first release whose class has it.", flag,
                     version_text(having.since));
}

void check_pipeline(const ConfigView& config, const EngineArgs& args) {
  if (args.pipeline_parallel == 1) return;
  const std::string name = architecture_name(config);
  const model::ClassStages stages = model::class_stages(name);
  if (stages == model::ClassStages::no_tensors) {
    fail(ExitCode::usage,
         "'{}' object has no attribute 'make_empty_intermediate_tensors': its stages behind the "
         "first cannot start. Leave --pipeline-parallel-size out.",
         name);
  }
  if (stages == model::ClassStages::tied_everywhere && config.flag({"tie_word_embeddings"}, true)) {
    fail(ExitCode::usage,
         "'PPMissingLayer' object has no attribute 'tie_weights': vLLM ties the head of {} on "
         "stages that have none. Leave --pipeline-parallel-size out.",
         name);
  }
  const auto known = model::find_class(name);
  if (!known || !known->lacks(known->pipeline, args.version)) return;
  fail(ExitCode::usage,
       "Pipeline parallelism is not supported for this model. Supported models implement the "
       "`SupportsPP` interface. {}",
       interface_cure("--pipeline-parallel-size", known->pipeline, args.version));
}

/// vllm/config/lora.py: verify_with_model_config; v1/worker/lora_model_runner_mixin.py.
void check_adapted_class(const ConfigView& config, const VllmVersion& version) {
  const std::string name = architecture_name(config);
  const auto known = model::find_class(name);
  if (!known || !known->lacks(known->adapters, version)) return;
  const std::string cure = interface_cure("--enable-lora", known->adapters, version);
  if (version < kAdaptersChecked)
    fail(ExitCode::usage, "{} does not support LoRA yet. {}", name, cure);
  fail(ExitCode::usage,
       "LoRA is not supported for {}. Supported models implement the `SupportsLoRA` interface. {}",
       name, cure);
}

void check_pace(const EngineArgs& args) {
  constexpr VllmVersion kPaced{0, 17, 0};
  if (args.pace == Pace::balanced || args.version >= kPaced) return;
  fail(ExitCode::usage,
       "vllm: error: unrecognized arguments: --performance-mode. vLLM has it from 0.17 on. Leave "
       "it out.");
}

void check_steps(const EngineArgs& args, const EngineLimits& limits, int64_t max_model_len) {
  const bool old = runs_first_engine(args);
  if (!args.chunked_prefill.value_or(!old) && limits.max_num_batched_tokens < max_model_len) {
    fail(ExitCode::usage,
         "max_num_batched_tokens ({}) is smaller than max_model_len ({}). This effectively limits "
         "the maximum sequence length to max_num_batched_tokens and makes vLLM reject longer "
         "sequences. Please increase max_num_batched_tokens or decrease max_model_len. Use "
         "--max-num-batched-tokens {}, a smaller --max-model-len, or --enable-chunked-prefill.",
         limits.max_num_batched_tokens, max_model_len, max_model_len);
  }
  if (limits.max_num_batched_tokens < limits.max_num_seqs) {
    fail(ExitCode::usage,
         "max_num_batched_tokens ({}) must be greater than or equal to max_num_seqs ({}). Use "
         "--max-num-seqs {} at most.",
         limits.max_num_batched_tokens, limits.max_num_seqs, limits.max_num_batched_tokens);
  }
}

void check_adapters(const ConfigView& config, const EngineArgs& args, const EngineLimits& limits) {
  if (!args.lora) return;
  check_adapted_class(config, args.version);
  constexpr auto kRanks = std::to_array<int64_t>({1, 8, 16, 32, 64, 128, 256, 320, 512});
  const bool one = args.version >= kRankOfOne;
  if (std::find(kRanks.begin() + (one ? 0 : 1), kRanks.end(), args.lora_rank) == kRanks.end()) {
    fail(ExitCode::usage, "max_lora_rank ({}) must be one of ({}). Use --max-lora-rank.",
         args.lora_rank, fmt::join(kRanks.begin() + (one ? 0 : 1), kRanks.end(), ", "));
  }
  const Amount drafted = Amount{limits.max_num_seqs} * (Amount{args.draft_tokens} + 1);
  if (args.draft_tokens > 0 && args.version >= kDraftsChecked &&
      limits.max_num_batched_tokens < drafted) {
    fail(ExitCode::usage,
         "Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens: "
         "adapters and drafts together need --max-num-batched-tokens {} at least.",
         drafted.value());
  }
}

/// KV slots that a draft writes beyond the tokens of a step (vllm/config/vllm.py:
/// num_lookahead_tokens).
int64_t lookahead_tokens(const EngineArgs& args) {
  const std::string& method = args.draft_method;
  if (method == "dflash") return args.draft_tokens + 1;
  const bool own_model = method.starts_with("eagle") || method == "mtp" ||
                         method == "draft_model" || method == "dspark";
  return own_model ? args.draft_tokens : 0;
}

void check_drafts(const EngineArgs& args, const EngineLimits& limits) {
  const std::string& method = args.draft_method;
  if (method == "draft_model" && args.draft_model.empty()) {
    fail(ExitCode::usage,
         "num_speculative_tokens was provided but without speculative model. Give "
         "--speculative-config a \"method\" or a \"model\".");
  }
  if (method == "ngram" && args.draft_tokens == 0) {  // of others the draft's config may state it
    fail(ExitCode::usage,
         "num_speculative_tokens must be provided with speculative model unless the draft model "
         "config contains an n_predict parameter. Give --speculative-config "
         "\"num_speculative_tokens\".");
  }
  const int64_t lookahead = lookahead_tokens(args);
  if (args.version < kDraftsFitSteps || lookahead == 0) return;
  if (limits.max_num_batched_tokens > lookahead) return;
  fail(ExitCode::usage,
       "VllmConfig does not have enough slots to schedule a token and support the speculative "
       "decoding settings. Got max_num_batched_tokens={} and num_lookahead_tokens={}. Use "
       "--max-num-batched-tokens {} at least.",
       limits.max_num_batched_tokens, lookahead, lookahead + 1);
}

/// Each rank draws for its share of the sequences (vllm/config/vllm.py:
/// _validate_batch_sharded_sampling).
void check_sharded_sampling(const EngineArgs& args, const EngineLimits& limits) {
  if (!args.sharded_sampling) return;
  if (args.version < kShardsSampling) {
    fail(ExitCode::usage,
         "vllm: error: unrecognized arguments: --enable-batch-sharded-sampling. vLLM has it from "
         "0.29 on.");
  }
  std::string why;
  if (args.tensor_parallel == 1) {
    why = "tensor_parallel_size is 1, so there is nothing to shard";
  } else if (limits.max_num_seqs < args.tensor_parallel) {
    why = fmt::format("max_num_seqs ({}) is below tensor_parallel_size ({})", limits.max_num_seqs,
                      args.tensor_parallel);
  }
  if (why.empty()) return;
  fail(
      ExitCode::usage,
      "Batch-sharded sampling was explicitly enabled via the --enable-batch-sharded-sampling flag, "
      "but is not supported in this configuration for the following reason(s): {}.",
      why);
}

bool has_ngram_layers(const ConfigView& config) {
  const char* const key = class_rules(config).ngram_layers;
  return key != nullptr && !text_config(config).integers({key}).empty();
}

void check_tables(const ConfigView& config, const EngineArgs& args) {
  const TableArgs& tables = args.tables;
  if (!tables.given || args.version < kHasTables) return;
  const bool shared = tables.shared.value_or(false), offload = tables.offload.value_or(true);
  std::string why;
  if (shared && !offload) {
    why = "dp_shared_memory requires cpu_offload=True";
  } else if (tables.huge_pages && (shared || !offload)) {
    why = "use_thp requires cpu_offload=True and dp_shared_memory=False";
  } else if (!has_ngram_layers(config)) {
    why =
        "EngramConfig requires a model with supported Engram embeddings and non-empty n-gram "
        "layer ids";
  } else if (shared && args.data_parallel == 1) {
    why = "dp_shared_memory requires data_parallel_size > 1";
  }
  if (!why.empty()) fail(ExitCode::usage, "{}. Change --engram-config, or leave it out.", why);
}

}  // namespace

void check_arguments(const ConfigView& config, const EngineArgs& args, const EngineLimits& limits,
                     const ModelLength& length, int64_t max_model_len) {
  check_named(config);
  check_found_length(args);
  if (args.max_model_len > 0 && !args.allow_long_length)
    check_length(length, args.max_model_len, config, args.version);
  check_parallel(config, args);
  check_pipeline(config, args);
  check_pace(args);
  check_steps(args, limits, max_model_len);
  check_adapters(config, args, limits);
  check_drafts(args, limits);
  check_sharded_sampling(args, limits);
  check_tables(config, args);
  check_graphs(args, limits);
}

void check_stage(const ModelShape& stage, const EngineArgs& args) {
  if (!stage.lacks_mixture || args.version < kLooksForMixtures) return;
  fail(ExitCode::usage,
       "No MoE layer found in model.layers: the class of {} looks for one in every pipeline stage, "
       "and layers {} to {} have none. Use a smaller --pipeline-parallel-size.",
       stage.architecture, stage.first_layer, stage.first_layer + stage.stage_layers - 1);
}

/// v1/attention/backends/triton_attn.py, which attends where neither FlashAttention nor FlashInfer
/// reads a cache of 8 bits.
void check_fp8_cache(const ModelShape& shape, const EngineArgs& args, const hardware::Gpu* gpu) {
  constexpr double kNative = 8.9, kBfloat16 = 8.0;
  if (args.version < kTritonFp8Checked || gpu == nullptr || gpu->compute_capability == 0) return;
  const bool has_cache = !shape.attention_free && !shape.encoder && !shape.encoder_decoder;
  const bool plain =
      shape.kernel == AttentionKernel::flash || shape.kernel == AttentionKernel::large_head_flash;
  if (gpu->compute_capability >= kNative || !has_cache || !plain) return;
  if (attends_with_flashinfer(args, gpu, shape, true)) return;
  fail(ExitCode::usage,
       "FP8 KV cache is not supported by the Triton attention backend on {} (compute capability "
       "{:.1f}); native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype {}.",
       gpu->name, gpu->compute_capability,
       gpu->compute_capability < kBfloat16 ? "float16" : "bfloat16");
}

namespace {

/// vllm/models/qwen4_exp/common/qsa_cache.py, glm5next/common/attention.py.
void check_rings(const KvPlan& kv) {
  for (const KvGroup& group : kv.groups()) {
    const KvSpec& layer = group.layers.front();
    if (layer.kind != KvKind::ring || kv.block_size() % layer.block_size == 0) continue;
    fail(ExitCode::usage,
         "AssertionError: ring capacity {} must divide the attention block size {}. Change "
         "num_speculative_tokens of --speculative-config.",
         layer.block_size, kv.block_size());
  }
}

}  // namespace

void check_model(const ModelShape& shape, const KvPlan& kv, const EngineArgs& args, bool prefixes) {
  check_rings(kv);
  check_context_ranks(shape, kv, args, prefixes);
  if (args.expert_parallel && !shape.mixture && args.version >= kExpertsChecked) {
    fail(ExitCode::usage,
         "Number of experts in the model must be greater than 0 when expert parallelism is "
         "enabled. Leave --enable-expert-parallel out.");
  }
  if (!args.hybrid_kv && shape.kernel == AttentionKernel::deepseek_v4 &&
      args.version >= kReplaysBounded) {
    fail(ExitCode::usage,
         "TypeError: MLAAttentionSpec.__init__() got an unexpected keyword argument "
         "'bounded_replay': vLLM cannot unify the caches of {}. Leave "
         "--disable-hybrid-kv-cache-manager out.",
         shape.architecture);
  }
  if (!args.hybrid_kv && kv.groups().size() > 1) {
    fail(ExitCode::usage, "{} Leave --disable-hybrid-kv-cache-manager out.",
         args.version >= kPromotes
             ? "Failed to promote local KV cache specs to one unified type."
             : "Hybrid KV cache manager is disabled but failed to convert the KV cache specs to "
               "one unified type.");
  }
}

std::string state_blocks_refusal(const EngineArgs& args, const EngineLimits& limits,
                                 const ModelShape& shape, const hardware::Gpu* gpu,
                                 int64_t blocks) {
  const VllmVersion& version = args.version;
  if (!shape.recurrent || version < kStateBlocksChecked || limits.max_num_seqs <= blocks) return "";
  if (!has_full_graphs(graph_mode(args, gpu, shape))) return "";
  // Without an MLA kernel of its own a card falls back to Triton's, which had no full graphs.
  const bool latent = shape.kernel == AttentionKernel::mla;
  if (latent && !hardware::capability_of(gpu).wide_tiles && version < kTritonLatentGraphs)
    return "";
  return fmt::format(
      "max_num_seqs ({}) exceeds available Mamba cache blocks ({}). Each decode sequence requires "
      "one Mamba cache block, so CUDA graph capture cannot proceed. Please lower max_num_seqs to "
      "at most {} or increase gpu_memory_utilization.",
      limits.max_num_seqs, blocks, blocks);
}

}  // namespace plimsoll::vllm
