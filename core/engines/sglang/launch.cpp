// The order is that of SGLang 0.5.23 (sglang/srt/server_args.py): card, graphs, fraction, model,
// attention, KV cache, pages, attention data parallelism, speculation.
#include "engines/sglang/launch.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/lower_case.h"
#include "engines/sglang/attention.h"
#include "engines/sglang/fraction.h"
#include "engines/sglang/graphs.h"
#include "engines/sglang/models.h"
#include "engines/sglang/releases.h"

namespace plimsoll::engines::sglang {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;
constexpr int64_t kMostRanks = 1 << 12;

[[noreturn]] void refuse_arguments(std::string words) {
  throw Refusal{"arguments", std::move(words)};
}

Card card_of(const Question& question) {
  Card card;
  if (question.gpu != nullptr && question.gpu->compute_capability > 0)
    card.capability = static_cast<int64_t>(question.gpu->compute_capability);
  int64_t bytes = question.card_bytes;
  if (bytes == 0 && question.gpu != nullptr)
    bytes = question.gpu->is_slice() ? question.gpu->visible_bytes() : question.gpu->memory_bytes;
  if (bytes > 0) card.mib = bytes / kMib;
  return card;
}

void read_ranks(Launch& launch, const CommandLine& line) {
  const auto ranks = [&](std::string_view flag) {
    return std::clamp<int64_t>(line.integer(flag, 1), 1, kMostRanks);
  };
  launch.tp = ranks("--tensor-parallel-size");
  launch.pp = ranks("--pipeline-parallel-size");
  launch.dp = ranks("--data-parallel-size");
  const bool divided = line.has("--enable-dp-attention") && launch.dp > 1;
  if (divided && launch.tp % launch.dp != 0) refuse_arguments("AssertionError: ");
  launch.attention_dp = divided ? launch.dp : 1;
  launch.attention_tp = launch.tp / launch.attention_dp;
}

/// float32 weights are loaded as float16, Gemma's as bfloat16.
std::string settled_dtype(const Launch& launch, const CommandLine& line,
                          const ModelConfig& config) {
  std::string asked = line.text("--dtype", "auto");
  if (asked == "half") return "float16";
  if (asked == "float") return "float32";
  if (asked != "auto") return asked;
  if (launch.quantization == "mxfp4") return "bfloat16";
  std::string dtype = config.dtype();
  if (dtype.empty()) dtype = "float32";
  if (dtype == "float32")
    dtype = config.architecture().starts_with("Gemma") ? "bfloat16" : "float16";
  constexpr int64_t kComputesBfloat16 = 8;
  if (dtype == "bfloat16" && launch.card.capability < kComputesBfloat16) return "float16";
  return dtype;
}

std::string modelopt_name(const std::string& algorithm) {
  if (algorithm.find("FP4") != std::string::npos) return "modelopt_fp4";
  if (algorithm == "MIXED_PRECISION") return "modelopt_mixed";
  return "modelopt_fp8";
}

/// SGLang's name of the checkpoint's quantization.
std::optional<std::string> settled_quantization(const CommandLine& line,
                                                const ModelConfig& config) {
  if (line.has("--quantization")) return line.text("--quantization", "");
  const ConfigView stated = config.quantization();
  const ConfigView inner =
      stated.has_child({"quantization"}) ? stated.child({"quantization"}) : stated;
  const std::string method = stated.text({"quant_method"}, "");
  const std::string algorithm = inner.text({"quant_algo"}, "");
  if (!algorithm.empty() && (method.empty() || method == "modelopt"))
    return modelopt_name(algorithm);
  if (method.empty()) return std::nullopt;
  if (method == "awq") return "awq_marlin";
  if (method == "gptq") {
    const int64_t bits = stated.integer({"bits"}, 4);
    const bool marlin = (bits == 4 || bits == 8) && stated.flag({"sym"}, true);
    return marlin ? "gptq_marlin" : "gptq";
  }
  return method;
}

bool is_set(const Question& question, const char* variable) {
  const auto at = question.variables.find(variable);
  return at != question.variables.end() && (lower_case(at->second) == "true" || at->second == "1");
}

int64_t settled_context(const Question& question, const CommandLine& line,
                        const ModelConfig& config) {
  const int64_t derived = derived_context(config);
  const std::optional<int64_t> asked = line.integer("--context-length");
  if (!asked) return derived;
  if (*asked > derived && !is_set(question, "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")) {
    refuse_arguments(fmt::format(
        "ValueError: Warning: User-specified context_length ({}) is greater than the derived "
        "context_length ({}). This may lead to incorrect model outputs or CUDA errors. Note that "
        "the derived context_length may differ from max_position_embeddings in the model's "
        "config. To allow overriding this maximum, set the env var "
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1",
        *asked, derived));
  }
  return std::max<int64_t>(1, *asked);
}

bool prefill_graphs_on(const Launch& launch, const CommandLine& line) {
  if (line.has("--disable-cuda-graph") || line.has("--disable-prefill-cuda-graph")) return false;
  const std::string backend = line.text("--cuda-graph-backend-prefill", "");
  if (!backend.empty()) return backend != "disabled";
  if (!reserve_of(launch.version).prefill_graphs || launch.pp > 1) return false;
  if (line.has("--enable-two-batch-overlap") ||
      line.integer("--decode-context-parallel-size", 1) > 1)
    return false;
  const std::string exchange = line.text("--moe-a2a-backend", "none");
  constexpr std::string_view kWithGraphs[] = {"none", "deepep", "megamoe", "flashinfer"};
  if (std::ranges::find(kWithGraphs, exchange) == std::end(kWithGraphs)) return false;
  return !without_prefill_graphs(launch.facts);
}

/// The most tokens of a prefill graph.
int64_t prefill_most(const Launch& launch, const CommandLine& line, const std::string& model) {
  int64_t most = launch.chunk;
  if (launch.facts.latent) most = std::min<int64_t>(most, 8192);
  most = line.integer("--cuda-graph-max-bs-prefill", most);
  if (launch.max_total_tokens) most = std::min(most, *launch.max_total_tokens);
  if (lower_case(model).find("llama-2") != std::string::npos) most = std::min<int64_t>(most, 4096);
  if (launch.facts.architecture.starts_with("MuseGlimmer")) most = std::min<int64_t>(most, 512);
  return most;
}

/// The largest decode graph; `given` by a flag, else by the card and --max-running-requests.
int64_t decode_most(const Launch& launch, const CommandLine& line) {
  const std::optional<int64_t> given = line.integer("--cuda-graph-max-bs-decode");
  if (given) return std::max<int64_t>(1, *given);
  const Tier tier = tier_of(launch.version, launch.card.mib);
  constexpr int64_t kManyRanks = 4, kMostOfImages = 512;
  int64_t most = launch.tp >= kManyRanks ? tier.graphs_of_many : tier.graphs;
  const int64_t running = line.integer("--max-running-requests", 0);
  if (running > 0 && running < most) most = running;
  const bool qwen_vl = launch.facts.architecture.starts_with("Qwen3VL") &&
                       launch.card.is_hopper() && launch.card.mib.value_or(0) >= kLargeCard;
  if (qwen_vl && running > most) most = std::min(running, kMostOfImages);
  return most;
}

void settle_graphs(Launch& launch, const CommandLine& line, const std::string& model) {
  const bool decode = !line.has("--disable-cuda-graph") &&
                      !line.has("--disable-decode-cuda-graph") &&
                      line.text("--cuda-graph-backend-decode", "") != "disabled";
  if (decode) {
    launch.decode_graphs =
        line.has("--cuda-graph-bs-decode")
            ? line.integers("--cuda-graph-bs-decode")
            : decode_sizes(decode_most(launch, line), line.has("--speculative-algorithm"),
                           !line.has("--disable-cuda-graph-padding"));
  }
  if (!prefill_graphs_on(launch, line)) return;
  launch.prefill_graphs = line.has("--cuda-graph-bs-prefill")
                              ? line.integers("--cuda-graph-bs-prefill")
                              : prefill_sizes(prefill_most(launch, line, model));
}

double settled_fraction(const Launch& launch, const CommandLine& line, const ModelConfig& config) {
  if (const std::optional<double> given = line.number("--mem-fraction-static")) return *given;
  FractionInputs inputs;
  inputs.version = launch.version;
  inputs.card_mib = launch.card.mib;
  inputs.chunk = launch.chunk;
  inputs.max_prefill = launch.max_prefill;
  inputs.tp = launch.tp;
  inputs.pp = launch.pp;
  inputs.attention_dp = line.has("--enable-dp-attention") ? launch.attention_dp : 0;
  if (inputs.attention_dp == 1) inputs.attention_dp = 0;
  inputs.decode_graphs = launch.decode_graphs.has_value();
  inputs.largest_decode_graph = launch.decode_graphs && !launch.decode_graphs->empty()
                                    ? std::ranges::max(*launch.decode_graphs)
                                    : decode_most(launch, line);
  if (launch.prefill_graphs) inputs.prefill_sizes = std::ssize(*launch.prefill_graphs);
  inputs.latent = launch.facts.latent;
  inputs.deepep = line.text("--moe-a2a-backend", "none") == "deepep";
  inputs.breakable_prefill = line.text("--cuda-graph-backend-prefill", "") == "breakable";
  inputs.speculation = line.text("--speculative-algorithm", "");
  const double fraction = default_fraction(inputs);
  constexpr Version kWithImages{0, 4, 9};
  const bool smaller = launch.facts.multimodal && launch.version >= kWithImages;
  return smaller ? fraction * multimodal_factor(config) : fraction;
}

/// GiB of the KV budget that images take beside it.
double settled_image_reserve(const Launch& launch, const CommandLine& line) {
  if (!launch.facts.multimodal) return 0;
  const bool qwen_vl = launch.facts.architecture.starts_with("Qwen3VL") &&
                       launch.card.is_hopper() && launch.card.mib.value_or(0) >= kLargeCard;
  constexpr int64_t kManyRequests = 400;
  if (qwen_vl) return line.integer("--max-running-requests", 0) >= kManyRequests ? 3 : 1;
  const double cache = 100.0 / 1024;  // SGLANG_VLM_CACHE_SIZE_MB
  const std::string transport = line.text("--mm-feature-transport", "");
  return transport.starts_with("cuda_") ? cache + 1 : cache;
}

int64_t draft_layers_of(const Question& question, const CommandLine& line,
                        const ModelConfig& config, const std::string& algorithm) {
  if (algorithm == "NGRAM") return 0;
  const std::string path = line.text("--speculative-draft-model-path", "");
  if (!path.empty() && question.read_config)
    return ModelConfig(question.read_config(path), path).layers();
  return config.text().integer({"num_nextn_predict_layers"}, 0, {0, 1024});
}

void settle_speculation(Launch& launch, const Question& question, const CommandLine& line,
                        const ModelConfig& config) {
  std::string algorithm = line.text("--speculative-algorithm", "");
  if (algorithm.empty()) return;
  if (algorithm == "NEXTN") algorithm = "EAGLE";
  constexpr int64_t kRunning = 48;
  if (!launch.max_running) launch.max_running = kRunning;
  const bool llama = launch.facts.architecture == "LlamaForCausalLM";
  Speculation drafts{.algorithm = algorithm};
  constexpr int64_t kMost = 1 << 16;
  const auto given = [&](std::string_view flag, int64_t missing) {
    return std::clamp<int64_t>(line.integer(flag, missing), 0, kMost);
  };
  if (algorithm == "NGRAM") {
    drafts.steps = given("--speculative-num-steps", 1);
    drafts.topk = given("--speculative-eagle-topk", 10);
    drafts.draft_tokens = given("--speculative-num-draft-tokens", 12);
  } else {
    drafts.steps = given("--speculative-num-steps", llama ? 5 : 3);
    drafts.topk = given("--speculative-eagle-topk", llama ? 4 : 1);
    drafts.draft_tokens = given("--speculative-num-draft-tokens", llama ? 8 : 4);
    if (drafts.topk == 1) drafts.draft_tokens = drafts.steps + 1;
  }
  drafts.draft_layers = draft_layers_of(question, line, config, algorithm);
  launch.speculation = drafts;
}

void settle_states(Launch& launch, const CommandLine& line) {
  if (!launch.facts.hybrid) return;
  std::string strategy = line.text("--mamba-radix-cache-strategy", "auto");
  if (strategy == "no_buffer" && launch.overlap) {
    refuse_arguments(
        "AssertionError: no_buffer do not support overlap schedule. Try to set "
        "disable_overlap_schedule=True.");
  }
  if (strategy == "auto") {
    const bool extra = takes_extra_buffer(launch.facts.architecture) && launch.overlap;
    strategy = extra ? "extra_buffer" : "no_buffer";
  }
  launch.state_strategy = strategy;
}

void check_text_alone(const Launch& launch, const CommandLine& line) {
  if (!line.has("--language-model-only")) return;
  constexpr std::string_view kServed[] = {
      "DeepseekV4ForCausalLM", "MuseGlimmerForConditionalGeneration",
      "Cosmos3ForConditionalGeneration", "Cosmos3EdgeForConditionalGeneration"};
  if (std::ranges::find(kServed, launch.facts.architecture) != std::end(kServed)) return;
  refuse_arguments(
      fmt::format("ValueError: --language-model-only does not support ['{}']. Supported: "
                  "['{}', '{}', '{}', '{}'].",
                  launch.facts.architecture, kServed[0], kServed[1], kServed[2], kServed[3]));
}

/// DeepSeek-V3 on trtllm_mla has no prefill graphs; what was set aside for them stays so.
bool drops_prefill_graphs(const Launch& launch) {
  return launch.facts.architecture == "DeepseekV3ForCausalLM" &&
         launch.prefill_backend == "trtllm_mla";
}

void divide_chunk(Launch& launch) {
  if (launch.attention_dp > 1 && launch.chunk > 0) {
    launch.chunk /= launch.attention_dp;
    if (launch.prefill_graphs) {
      std::erase_if(*launch.prefill_graphs, [&](int64_t size) { return size > launch.chunk; });
    }
  }
  if (launch.chunk > 0 && launch.chunk % launch.page != 0)
    refuse_arguments("AssertionError: chunked_prefill_size must be divisible by page_size");
}

}  // namespace

Launch resolve(const Question& question, const ModelConfig& config, const CommandLine& line,
               Version version) {
  Launch launch;
  launch.version = version;
  launch.card = card_of(question);
  read_ranks(launch, line);
  launch.context = settled_context(question, line, config);
  launch.facts = facts_of(config, line.has("--enable-multimodal"));
  check_text_alone(launch, line);
  if (line.has("--language-model-only")) launch.facts.multimodal = false;
  if (line.has("--disable-hybrid-swa-memory")) launch.facts.two_pools = false;
  launch.quantization = settled_quantization(line, config);
  launch.dtype = settled_dtype(launch, line, config);
  launch.radix = !line.has("--disable-radix-cache");
  launch.overlap = !line.has("--disable-overlap-schedule") && launch.pp == 1;
  launch.chunk = line.integer("--chunked-prefill-size", tier_of(version, launch.card.mib).chunk);
  if (launch.chunk <= 0) launch.chunk = -1;
  launch.max_prefill = line.integer("--max-prefill-tokens", 16384);
  launch.max_total_tokens = line.integer("--max-total-tokens");
  launch.max_running = line.integer("--max-running-requests");
  settle_graphs(launch, line, question.model);
  launch.fraction = settled_fraction(launch, line, config);
  launch.multimodal_reserve = settled_image_reserve(launch, line);
  constexpr int64_t kRunningOfV4 = 256;
  if (launch.facts.deepseek_v4 && !launch.max_running) launch.max_running = kRunningOfV4;
  settle_backends(launch, line);
  settle_kv_dtype(launch, line, config);
  launch.page = settled_page(launch, line, config);
  if (drops_prefill_graphs(launch)) launch.prefill_graphs.reset();
  divide_chunk(launch);
  settle_speculation(launch, question, line, config);
  settle_states(launch, line);
  launch.state_dtype = line.text("--mamba-ssm-dtype", "");
  launch.state_slots = line.integer("--max-mamba-cache-size");
  launch.state_ratio = line.number("--mamba-full-memory-ratio").value_or(0.9);
  if (launch.facts.two_pools || launch.facts.deepseek_v4) {
    const bool inkling = launch.facts.architecture.starts_with("Inkling");
    const double usual = launch.facts.deepseek_v4 || inkling ? 0.1 : 0.8;
    launch.window_ratio = line.number("--swa-full-tokens-ratio").value_or(usual);
  }
  if (launch.facts.two_pools) {
    const Windows windows = windows_of(config, launch.facts);
    launch.window_layers = windows.window_layers;
    launch.full_layers = windows.full_layers;
  }
  return launch;
}

namespace {

template <typename T>
OrderedJson or_null(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

}  // namespace

OrderedJson resolved_json(const Launch& launch, bool with_kv_dtype) {
  OrderedJson json;
  json["architecture"] = launch.facts.architecture;
  json["mem_fraction_static"] = launch.fraction;
  json["chunked_prefill_size"] = launch.chunk;
  json["max_prefill_tokens"] = launch.max_prefill;
  json["decode_graphs"] = or_null(launch.decode_graphs);
  json["prefill_graphs"] = or_null(launch.prefill_graphs);
  json["page_size"] = launch.page;
  json["attention_backends"] = {launch.prefill_backend, launch.decode_backend};
  json["kv_cache_dtype"] = launch.kv_cache_dtype;
  json["dtype"] = launch.dtype;
  json["quantization"] = or_null(launch.quantization);
  json["context_length"] = launch.context;
  json["disable_radix_cache"] = !launch.radix;
  json["disable_overlap_schedule"] = !launch.overlap;
  json["max_running_requests"] = or_null(launch.max_running);
  json["swa_full_tokens_ratio"] = or_null(launch.window_ratio);
  json["sliding_layers"] = or_null(launch.window_layers);
  json["full_layers"] = or_null(launch.full_layers);
  json["multimodal"] = launch.facts.multimodal;
  json["mla"] = launch.facts.latent;
  json["speculative"] = nullptr;
  if (launch.speculation) {
    const Speculation& drafts = *launch.speculation;
    json["speculative"] = {drafts.algorithm, drafts.steps, drafts.topk, drafts.draft_tokens};
  }
  if (with_kv_dtype) json["kv_dtype"] = launch.kv_dtype;
  return json;
}

}  // namespace plimsoll::engines::sglang
