// vLLM's engine arguments that affect memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/vllm/version.h"

namespace plimsoll::vllm {

using model::kTwoEngines;
using model::kWithoutBitsandbytes;
using model::parse_version;
using model::version_text;
using model::VllmVersion;

/// How many items of a modality one request may hold, and the size of the largest.
struct ModalityLimit {
  int64_t count = 0;
  int64_t width = 0;  // pixels; 0: the processor's largest
  int64_t height = 0;
  int64_t frames = 0;   // of a video; 0: what fits the context
  int64_t samples = 0;  // of a clip of sound; 0: the processor's longest
};

/// How vLLM is called, where its defaults differ by that.
enum class Usage : uint8_t { server, offline, batch };

/// How the cards of several ranks are joined.
enum class Interconnect : uint8_t { automatic, nvlink, pcie };

/// --performance-mode, from 0.17 on.
enum class Pace : uint8_t { balanced, interactivity, throughput };

/// By which edge of a figure's bounds a verdict goes.
enum class Assume : uint8_t { middle, worst };

/// A checkpoint's tensors by its headers, which give the weight of a model of unknown architecture.
struct CheckpointTensors {
  int64_t float_elements = 0;  // F64, F32, F16, BF16: loaded in the model's dtype
  int64_t other_bytes = 0;     // loaded unchanged
};

/// What --compilation-config and -O say of CUDA graphs.
struct GraphArgs {
  std::string mode;  // cudagraph_mode, in capitals; empty: by release
  /// -O N: how much to optimize, from 0.12 on; before, how to compile.
  std::optional<int64_t> level;
  std::optional<int64_t> compile;  // mode, to 0.11.1 level; 3: by vLLM's own compiler
  int64_t largest = 0;             // max_cudagraph_capture_size; 0: by release
  int64_t up_to = 0;               // --cuda-graph-sizes with one number; 0: not given
  bool by_adapters = true;         // cudagraph_specialize_lora
};

/// --engram-config: where embeddings of n-grams lie (vllm/config/engram.py).
struct TableArgs {
  bool given = false;
  std::optional<bool> offload{};  // cpu_offload; empty: by release
  bool over_replicas = false;     // embedding_across_dp
  std::optional<bool> shared{};   // dp_shared_memory; empty: by release
  bool huge_pages = false;        // use_thp
};

/// What the model answers with: --runner, --convert, --task and --pooler-config, and the files of
/// sentence-transformers beside its config.
struct PoolingArgs {
  std::string runner = "auto", convert = "auto", task = "auto";
  std::string type;        // of the vectors: LAST, MEAN, CLS, ALL, STEP; empty: the class's
  bool sentences = false;  // modules.json names a pooling module

  /// True where a flag says what the model answers with.
  [[nodiscard]] bool asked() const {
    return runner != "auto" || task != "auto" || (convert != "auto" && convert != "none");
  }
};

struct EngineArgs {
  VllmVersion version;
  std::string development_build;  // the version asked for, where it lies between releases
  Usage usage = Usage::server;
  std::string dtype = "auto";
  std::string quantization;
  bool as_awq = false;  // as if the checkpoint were quantized to 4 bits (AWQ): for advice
  std::string quantized_activations = "auto";  // inputs of products are rounded: auto, on, off
  std::string kv_cache_dtype = "auto";
  std::string state_dtype;       // --mamba-ssm-cache-dtype
  std::string state_mode;        // --mamba-cache-mode; empty: not given
  int64_t state_block_size = 0;  // --mamba-block-size; 0: not given
  int64_t tensor_parallel = 1;
  int64_t pipeline_parallel = 1;
  std::vector<int64_t> pipeline_partition;  // layers of each stage; empty: vLLM's choice
  int64_t data_parallel = 1;
  bool expert_parallel = false;
  int64_t context_ranks = 1;           // --decode-context-parallel-size: of tensor_parallel
  int64_t max_model_len = 0;           // 0: the model's own; -1: auto
  bool allow_long_length = false;      // VLLM_ALLOW_LONG_MAX_MODEL_LEN
  int64_t max_num_seqs = 0;            // 0: default
  int64_t max_num_batched_tokens = 0;  // 0: default
  double gpu_memory_utilization = 0;   // 0: the version's default
  int64_t block_size = 0;
  bool hybrid_kv = true;
  bool deprecated_quantization = false;  // --allow-deprecated-quantization
  std::optional<bool> prefix_caching;
  std::optional<bool> chunked_prefill;
  bool async_scheduling = true;
  Pace pace = Pace::balanced;
  bool enforce_eager = false;
  std::optional<std::vector<int64_t>> capture_sizes;
  GraphArgs graphs;
  std::optional<bool> estimate_graphs;  // VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS
  std::optional<bool> second_runner;    // VLLM_USE_V2_MODEL_RUNNER
  std::optional<bool> use_v1;           // VLLM_USE_V1: the engine that is asked for
  bool first_engine = false;  // what launch/engine_choice.h chose; see runs_first_engine()
  /// Flags that plan reads for the choice of an engine alone, with their values ("" for none):
  /// {"--scheduling-policy", "priority"}.
  std::map<std::string, std::string> beside;
  std::optional<bool> flashinfer_sampler;    // VLLM_USE_FLASHINFER_SAMPLER
  std::optional<bool> flashinfer_installed;  // absent: not known
  /// --attention-backend; VLLM_ATTENTION_BACKEND in releases that read it. Empty: vLLM's choice.
  std::string attention_backend;
  bool sharded_sampling = false;  // --enable-batch-sharded-sampling
  bool sleep_mode = false;        // --enable-sleep-mode
  Interconnect interconnect = Interconnect::automatic;
  bool custom_all_reduce = true;  // --disable-custom-all-reduce turns it off
  Assume assume = Assume::middle;
  int64_t kv_cache_memory = 0;  // --kv-cache-memory-bytes
  int64_t blocks_override = 0;  // --num-gpu-blocks-override
  int64_t cpu_offload = 0;      // bytes
  TableArgs tables;
  int64_t available_kv = 0;                     // --available-kv-memory: stands in for the budget
  int64_t reserved = 0;                         // memory that other processes hold
  std::map<std::string, ModalityLimit> limits;  // by "image", "video", "audio"
  bool language_only = false;
  PoolingArgs pooling;
  bool skip_mm_profiling = false;
  // Numbers and switches of --mm-processor-kwargs ("size.longest_edge", "videos_kwargs.fps"), and
  // of the preprocessor_config.json beside the model's config.
  std::map<std::string, int64_t> processor;
  std::map<std::string, int64_t> processor_file;
  double processor_cache_gib = 4;
  bool lora = false;          // --enable-lora
  int64_t lora_slots = 1;     // --max-loras
  int64_t lora_rank = 16;     // --max-lora-rank
  std::string draft_method;   // of --speculative-config; empty: none
  int64_t draft_tokens = 0;   // proposed for each step
  bool draft_logits = false;  // its draft_sample_method is "probabilistic"
  int64_t lookup_min = 0;     // its prompt_lookup_min and prompt_lookup_max; 0: not given
  int64_t lookup_max = 0;
  std::string draft_model;  // its folder, config.json or hub id; empty: none
  /// Config of draft_model; nullptr: not found here.
  std::shared_ptr<const nlohmann::json> draft_config;
  std::shared_ptr<const nlohmann::json> overrides;  // --hf-overrides, an object; null: none
  std::optional<CheckpointTensors> tensors;         // of MODEL, where it is a folder
};

/// Defaults that the engine fills in by card, use and version.
struct EngineLimits {
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;
  double utilization = 0;
};

}  // namespace plimsoll::vllm
