// Source: tensorrt_llm/_torch/pyexecutor/_util.py and resource_manager.py of the 1.3.0rc class,
// read and never run.
#include "engines/tensorrt_llm/tensorrt_llm.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/rounding.h"
#include "engines/fields.h"
#include "engines/model_config.h"

namespace plimsoll::engines::tensorrt_llm {
namespace {

using enum FlagKind;

constexpr std::string_view kTrtllm = "trtllm-serve";

constexpr Flag kTrtllmFlags[] = {
    {"--tp-size,--tp_size,--tensor-parallel-size,--tensor_parallel_size,--tp", integer},
    {"--pp-size,--pp_size,--pipeline-parallel-size,--pipeline_parallel_size,--pp", integer},
    {"--ep-size,--ep_size,--moe-expert-parallel-size,--moe_expert_parallel_size,--ep", integer},
    {"--max-batch-size,--max_batch_size", integer},
    {"--max-num-tokens,--max_num_tokens", integer},
    {"--max-seq-len,--max_seq_len", integer},
    {"--max-beam-width,--max_beam_width", integer},
    {"--kv-cache-free-gpu-memory-fraction,--kv_cache_free_gpu_memory_fraction,--free-gpu-memory-"
     "fraction,--free_gpu_memory_fraction",
     number},
    {"--kv-cache-dtype,--kv_cache_dtype", text, "auto,fp8,nvfp4"},
    {"--backend", text},
    unplanned("--cp-size,--cp_size,--context-parallel-size,--context_parallel_size", integer,
              "context parallelism is not planned"),
    unplanned("--help,-h", bare, kExits),
    {"--tokenizer", text, "", false},
    {"--custom-tokenizer,--custom_tokenizer", text, "", false},
    {"--custom-module-dirs,--custom_module_dirs", text, "", false},
    {"--host", text, "", false},
    {"--log-level,--log_level", text, "", false},
    {"--extra-llm-api-options,--extra_llm_api_options,--config", text, "", false},
    {"--reasoning-parser,--reasoning_parser", text, "", false},
    {"--tool-parser,--tool_parser", text, "", false},
    {"--served-model-name,--served_model_name", text, "", false},
    {"--revision", text, "", false},
    {"--metadata-server-config-file,--metadata_server_config_file", text, "", false},
    {"--server-role,--server_role", text, "", false},
    {"--otlp-traces-endpoint,--otlp_traces_endpoint", text, "", false},
    {"--disagg-cluster-uri,--disagg_cluster_uri", text, "", false},
    {"--media-io-kwargs,--media_io_kwargs", text, "", false},
    {"--chat-template,--chat_template", text, "", false},
    {"--generation-config,--generation_config", text, "", false},
    {"--extra-visual-gen-options,--extra_visual_gen_options", text, "", false},
    {"--attention-backend,--attention_backend", text, "", false},
    {"--sampler-type,--sampler_type", text, "", false},
    {"--port", integer, "", false},
    {"--gpus-per-node,--gpus_per_node", integer, "", false},
    {"--cluster-size,--cluster_size,--moe-cluster-parallel-size,--moe_cluster_parallel_size",
     integer, "", false},
    {"--num-postprocess-workers,--num_postprocess_workers", integer, "", false},
    {"--checkpoint-format,--checkpoint_format", text, "", false},
    {"--load-format,--load_format", text, "", false},
    {"--grpc-protocol,--grpc_protocol", text, "", false},
    {"--num-serve-frontends,--num_serve_frontends", integer, "", false},
    {"--trust-remote-code,--trust_remote_code", bare, "", false},
    {"--fail-fast-on-attention-window-too-large,--fail_fast_on_attention_window_too_large", bare,
     "", false},
    {"--enable-chunked-prefill,--enable_chunked_prefill", bare, "", false},
    {"--grpc", bare, "", false},
    {"--enable-energy-monitoring,--enable_energy_monitoring", bare, "", false},
};

/// Flags and the fields that they set; those of the cache stand in kv_cache_config.
constexpr FieldFlag kTrtllmMeanings[] = {
    {"--tp-size", "tensor_parallel_size"},
    {"--pp-size", "pipeline_parallel_size"},
    {"--ep-size", "moe_expert_parallel_size"},
    {"--max-batch-size", "max_batch_size"},
    {"--max-num-tokens", "max_num_tokens"},
    {"--max-seq-len", "max_seq_len"},
    {"--max-beam-width", "max_beam_width"},
    {"--kv-cache-free-gpu-memory-fraction", "free_gpu_memory_fraction"},
    {"--kv-cache-dtype", "kv_cache_dtype"},
};

/// Fields whose memory is not planned, and what is said of them.
constexpr std::pair<const char*, std::string_view> kUncounted[] = {
    {"speculative_config", "the memory of drafts is not counted"},
    {"lora_config", "LoRA adapters are not counted"},
    {"enable_attention_dp", "planned as if each rank held its share of the heads"},
    {"sparse_attention_config", "the index of sparse attention is not counted"},
    {"context_parallel_size", "context parallelism is not planned"},
    {"quant_config", "weights are counted as the checkpoint stores them"},
};

/// Fields of --engine-args; flags, which win; the YAML file, which wins over both. Fields of
/// kv_cache_config are merged (tensorrt_llm/llmapi/llm_utils.py: update_llm_args_with_extra_dict).
Json fields_of(const Question& question, const CommandLine& line) {
  Json fields = with_flags(question.fields, line, kTrtllmFlags, kTrtllmMeanings);
  for (const auto& [flat, nested] :
       {std::pair{"free_gpu_memory_fraction", "free_gpu_memory_fraction"},
        std::pair{"kv_cache_dtype", "dtype"}}) {
    if (!fields.contains(flat)) continue;
    if (!fields["kv_cache_config"].is_object()) fields["kv_cache_config"] = Json::object();
    fields["kv_cache_config"][nested] = fields[flat];
    fields.erase(flat);
  }
  if (question.file_fields.is_object()) fields.merge_patch(question.file_fields);
  return fields;
}

void note_fields(const Json& fields, Answer& answer) {
  for (const auto& [key, said] : kUncounted) {
    const auto at = fields.find(key);
    if (at == fields.end() || at->is_null() || *at == false || *at == 1) continue;
    answer.notes.push_back(fmt::format("{}: {}", key, said));
  }
}

struct Settled {
  int64_t tp = 1, pp = 1, ep = 1, batch = 2048, tokens = 8192, length = 0, block = 32;
  double fraction = 0.9;
  std::optional<int64_t> most_tokens;
  int64_t layers = 0, token_bytes = 0;
  bool fp8 = false;
};

Settled settle(const ModelConfig& config, const Fields& fields) {
  constexpr Bounds kTokens{1, int64_t{1} << 40};
  const Fields cache = fields.object("kv_cache_config");
  Settled out;
  out.tp = fields.integer("tensor_parallel_size", 1, {1, 1 << 12});
  out.pp = fields.integer("pipeline_parallel_size", 1, {1, 1 << 12});
  out.ep = fields.integer("moe_expert_parallel_size", 1, {-1, 1 << 12});
  const int64_t cut = fields.integer("moe_tensor_parallel_size", -1, {-1, 1 << 12});
  if (out.ep > 0 && (out.tp % out.ep != 0 || (cut > 0 && cut * out.ep != out.tp))) {
    throw Refusal{"arguments",
                  fmt::format("ValueError: moe_tp_size * moe_ep_size must equal to moe_world_size: "
                              "moe_expert_parallel_size {} of tensor_parallel_size {}",
                              out.ep, out.tp)};
  }
  out.batch = fields.integer("max_batch_size", out.batch, kTokens);
  out.tokens = fields.integer("max_num_tokens", out.tokens, {1, 1 << 24});
  out.length = fields.integer(
      "max_seq_len", config.text().integer({"max_position_embeddings"}, 2048, kTokens), kTokens);
  out.block = cache.integer("tokens_per_block", out.block, {1, 1 << 16});
  out.fraction = cache.number("free_gpu_memory_fraction", out.fraction);
  if (!(out.fraction > 0 && out.fraction <= 1)) {
    throw Refusal{"arguments",
                  "ValueError: kv_cache_config.free_gpu_memory_fraction must be a float between 0 "
                  "and 1"};
  }
  out.most_tokens = cache.integer("max_tokens", kTokens);
  const std::string dtype = cache.text("dtype", "auto");
  // "auto" is what the checkpoint says (tensorrt_llm/_torch/pyexecutor/model_loader.py:
  // validate_and_set_kv_cache_quant).
  out.fp8 = dtype == "fp8" || (dtype == "auto" && config.stores_fp8_cache());
  out.layers = config.layers();
  const ConfigView text = config.text();
  const int64_t element = out.fp8 ? 1 : 2;
  if (text.has("kv_lora_rank")) {
    out.token_bytes = out.layers * element * config.latent_width();
  } else {
    out.token_bytes = std::max<int64_t>(1, out.layers) * config.head_dim() *
                      std::max<int64_t>(1, config.kv_heads() / out.tp) * 2 * element;
  }
  return out;
}

/// Activations of a step of the profile, estimated: the widest layer's inputs and outputs, and the
/// logits of a batch in float32. The engine measures them.
int64_t activation_bytes(const Settled& launch, const ModelConfig& config) {
  const ConfigView text = config.text();
  const int64_t wide = text.integer({"intermediate_size", "n_inner", "moe_intermediate_size"},
                                    4 * config.hidden(), kSizeOrNone);
  const int64_t step = launch.tokens * 2 * (3 * wide / launch.tp + 6 * config.hidden());
  return step + std::min(launch.batch, launch.tokens) * config.vocabulary() * 4;
}

void size_cache(const Settled& launch, const ModelConfig& config, double free_gib, double total,
                Answer& answer) {
  OrderedJson& json = answer.sizing;
  const int64_t activation = activation_bytes(launch, config);
  const double available = (free_gib * kGib - static_cast<double>(activation)) * launch.fraction;
  json["activation_bytes"] = activation;
  json["kv_bytes_per_token"] = launch.token_bytes;
  json["available_bytes"] = static_cast<int64_t>(available);
  if (available <= 0) {
    throw Refusal{"memory",
                  "RuntimeError: no memory is left for the KV cache once weights and the profile's "
                  "peak are taken"};
  }
  int64_t tokens = static_cast<int64_t>(available) / launch.token_bytes;
  if (launch.most_tokens) tokens = std::min(tokens, *launch.most_tokens);
  tokens = round_up(tokens, launch.block);
  json["max_tokens"] = tokens;
  json["tokens_per_block"] = launch.block;
  const double peak = (total - free_gib) + static_cast<double>(activation) / kGib;
  answer.says.push_back(fmt::format(
      "Peak memory during memory usage profiling (torch + non-torch): {:.2f} GiB, available KV "
      "cache memory when calculating max tokens: {:.2f} GiB, fraction is set {}, kv size per token "
      "is {}. device total memory {:.2f} GiB",
      peak, available / kGib, launch.fraction, launch.token_bytes, total));
  answer.says.push_back(
      fmt::format("[MemUsageChange] Allocated {:.2f} GiB for max tokens in paged "
                  "KV cache ({}).",
                  static_cast<double>(tokens * launch.token_bytes) / kGib, tokens));
  Figures& figures = answer.figures;
  figures.kv_tokens = tokens;
  figures.bytes_per_token = static_cast<double>(launch.token_bytes);
  figures.kv_bytes = tokens * launch.token_bytes;
  figures.kv_formula =
      fmt::format("{} tokens x {} bytes of {} layers", tokens, launch.token_bytes, launch.layers);
  figures.runtime_bytes = activation;
  figures.runtime_formula = fmt::format("a step of {} tokens, estimated", launch.tokens);
}

}  // namespace

std::span<const Flag> flags() {
  return kTrtllmFlags;
}

void answer_to(const Question& question, Version, Answer& answer) {
  const CommandLine line(kTrtllmFlags, kTrtllm, question.words);
  const ModelConfig config(*question.config, question.config_path);
  const Json stated = fields_of(question, line);
  const Fields fields(stated);
  const Settled launch = settle(config, fields);
  answer.resolved = {{"architecture", config.architecture()},
                     {"max_batch_size", launch.batch},
                     {"max_num_tokens", launch.tokens},
                     {"max_seq_len", launch.length},
                     {"free_gpu_memory_fraction", launch.fraction},
                     {"tensor_parallel_size", launch.tp},
                     {"kv_cache_dtype", launch.fp8 ? "fp8" : "auto"}};
  Figures& figures = answer.figures;
  figures.dtype = config.dtype().empty() ? "bfloat16" : config.dtype();
  figures.kv_dtype = launch.fp8 ? "fp8" : figures.dtype;
  figures.ranks = launch.tp * launch.pp;
  figures.whole_experts = launch.ep > 1 && config.experts() > 0;
  figures.context = launch.length;
  figures.running = launch.batch;
  figures.step_tokens = launch.tokens;
  figures.block_tokens = launch.block;
  figures.share = launch.fraction;
  figures.share_of = "free_gpu_memory_fraction, of what the profile's peak leaves";
  answer.notes.emplace_back(
      "TensorRT-LLM measures the peak of its profile; here its activations are estimated, by up to "
      "half of them, so the tokens are a range");
  if (line.has("--extra-llm-api-options")) {
    answer.notes.emplace_back(
        "the YAML file of --extra_llm_api_options is not read, because it is not on this machine; "
        "what it says of kv_cache_config and lengths counts where --engine-args states it as JSON");
  }
  const std::string stored = fields.object("kv_cache_config").text("dtype", "auto");
  if (stored != "auto" && stored != "fp8" && stored != "float16" && stored != "bfloat16")
    answer.notes.push_back(fmt::format("kv_cache_config.dtype {}: counted as 16 bits", stored));
  line.add_notes(answer.notes);
  note_fields(stated, answer);
  if (launch.pp > 1) {
    answer.notes.emplace_back(
        "pipeline stages of TensorRT-LLM are not sized: which layers a stage takes is not known "
        "here");
    return;
  }
  if (!question.free) return;
  size_cache(launch, config, question.free->after, question.total_gib(), answer);
}

}  // namespace plimsoll::engines::tensorrt_llm
