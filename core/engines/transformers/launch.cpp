// Sources: transformers/generation/continuous_batching (config and cache) of 5.24.0.
#include "engines/transformers/launch.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/rounding.h"

namespace plimsoll::engines::transformers {
namespace {

constexpr Bounds kCount{0, int64_t{1} << 40};

/// Every `interval`th layer is full, the others slide.
std::vector<std::string> alternating(int64_t layers, int64_t interval) {
  std::vector<std::string> types;
  for (int64_t i = 0; i < layers; ++i)
    types.emplace_back((i + 1) % interval == 0 ? "full_attention" : "sliding_attention");
  return types;
}

/// Layers between full ones of classes that alternate where a config states no layer_types.
struct IntervalRow {
  std::string_view type;  // model_type
  int64_t interval;
};
constexpr IntervalRow kIntervals[] = {{"gemma2", 2},  {"gemma3", 6},     {"gemma3_text", 6},
                                      {"gemma3n", 5}, {"gpt_oss", 2},    {"cohere2", 4},
                                      {"gemma4", 6},  {"gemma4_text", 6}};

void check_fields(const Fields& fields) {
  fields.check_names("ContinuousBatchingConfig", {"page_size",
                                                  "num_blocks",
                                                  "max_batch_tokens",
                                                  "max_memory_percent",
                                                  "max_requests_per_batch",
                                                  "max_blocks_per_request",
                                                  "use_cuda_graph",
                                                  "use_async_batching",
                                                  "return_logprobs",
                                                  "allow_block_sharing",
                                                  "scheduler",
                                                  "scheduler_type",
                                                  "q_padding_interval_size",
                                                  "kv_padding_interval_size",
                                                  "max_cached_graphs",
                                                  "log_prob_generation",
                                                  "use_default_compile_configs",
                                                  "varlen_compile_config",
                                                  "decode_compile_config",
                                                  "per_request_processors",
                                                  "drop_unsupported_processors",
                                                  "manual_eviction",
                                                  "max_queue_size",
                                                  "attn",
                                                  "tp",
                                                  "hints",
                                                  "processors",
                                                  "dtype",
                                                  "cache_implementation",
                                                  "batch_size",
                                                  "max_length"});
}

void read_groups(Launch& launch, const ModelConfig& config) {
  for (const std::string& type : layer_types_of(config)) {
    if (type != "full_attention" && type != "sliding_attention")
      throw Refusal{"arguments", "ValueError: Invalid layer type: " + type};
    const auto at = std::ranges::find(launch.groups, type, &LayerGroup::type);
    if (at == launch.groups.end()) {
      launch.groups.push_back({type, 1});
    } else {
      ++at->layers;
    }
  }
}

void read_hints(Launch& launch, const Fields& fields) {
  if (!fields.has("hints")) return;
  const Fields hints = fields.object("hints");
  const int64_t tokens = hints.integer("max_prompt_length", 0, kCount) +
                         hints.integer("max_generated_length", 0, kCount);
  if (tokens > 0 && launch.blocks_per_request > 0)
    launch.blocks_per_request = round_up(divide_up(tokens, launch.page) + 1, int64_t{2});
  if (hints.has("num_requests") && !fields.has("max_requests_per_batch"))
    launch.requests = std::min(launch.requests, hints.integer("num_requests", 1, {1, 1 << 30}));
}

}  // namespace

bool Launch::slides() const {
  return std::ranges::any_of(
      groups, [](const LayerGroup& group) { return group.type == "sliding_attention"; });
}

std::vector<std::string> layer_types_of(const ModelConfig& config) {
  const ConfigView text = config.text();
  const int64_t layers = config.layers();
  const auto all = [&](const char* type) {
    return std::vector<std::string>(static_cast<size_t>(layers), type);
  };
  std::vector<std::string> types = config.layer_types();
  if (!types.empty()) return types;
  const std::string model = text.text({"model_type"}, "");
  if (config.architecture().starts_with("Llama4")) return all("chunked_attention");
  if (config.architecture().starts_with("Qwen3Next") ||
      config.architecture().starts_with("Qwen3_5"))
    return all("linear_attention");
  const bool slides =
      text.flag({"use_sliding_window"}, true) && text.integer({"sliding_window"}, 0, kCount) > 0;
  for (const IntervalRow& row : kIntervals) {
    if (model != row.type) continue;
    return alternating(
        layers, text.integer({"sliding_window_pattern"}, row.interval, {1, int64_t{1} << 20}));
  }
  if (!slides) return all("full_attention");
  const bool qwen = model.starts_with("qwen2") || model.starts_with("qwen3");
  if (!qwen) return all("sliding_attention");
  types = all("full_attention");
  const int64_t from = text.integer({"max_window_layers"}, 28, kCount);
  for (int64_t i = from; i < layers; ++i) types[static_cast<size_t>(i)] = "sliding_attention";
  return types;
}

Launch resolve(const ModelConfig& config, const Fields& fields) {
  Launch launch;
  check_fields(fields);
  launch.cache = fields.text("cache_implementation", launch.cache);
  launch.dtype = fields.text("dtype", "auto");
  if (launch.dtype == "auto") launch.dtype = config.dtype();
  if (launch.dtype.empty()) launch.dtype = "bfloat16";  // as its rows suppose
  launch.element = element_bytes(launch.dtype);
  launch.tp = fields.integer("tp", 1, {1, 1 << 12});
  launch.heads = std::max<int64_t>(1, config.heads() / launch.tp);
  launch.kv_heads = std::max<int64_t>(1, config.kv_heads() / launch.tp);
  launch.head_dim = config.head_dim();
  launch.hidden = config.hidden();
  launch.vocabulary = config.vocabulary();
  launch.window = config.text().integer({"sliding_window"}, 0, kCount);
  read_groups(launch, config);
  launch.flash = fields.text("attn", "flash_attention_2").starts_with("flash");
  launch.processors = fields.flag("processors", false);
  launch.page = fields.integer("page_size", launch.page, {1, 1 << 12});
  launch.share = fields.number("max_memory_percent", launch.processors ? 0.8 : 0.9);
  launch.requests = fields.integer("max_requests_per_batch", launch.requests, {1, 1 << 30});
  if (!launch.flash || launch.slides()) launch.blocks_per_request = 0;
  launch.blocks_per_request =
      fields.integer("max_blocks_per_request", launch.blocks_per_request, {0, 1 << 30});
  read_hints(launch, fields);
  launch.graphs = fields.flag("use_cuda_graph", launch.flash);
  launch.async = fields.flag("use_async_batching", launch.flash && launch.graphs);
  launch.logprobs = fields.flag("return_logprobs", false);
  launch.blocks = fields.integer("num_blocks", {0, int64_t{1} << 31});
  launch.batch_tokens = fields.integer("max_batch_tokens", {1, int64_t{1} << 32});
  launch.sequences = fields.integer("batch_size", 1, {1, 1 << 24});
  launch.length = fields.integer(
      "max_length", config.text().integer({"max_position_embeddings", "n_positions"}, 2048, kCount),
      {1, int64_t{1} << 40});
  return launch;
}

OrderedJson resolved_json(const Launch& launch) {
  const auto or_nothing = [](const std::optional<int64_t>& value) {
    return value ? OrderedJson(*value) : OrderedJson(nullptr);
  };
  return {{"page_size", launch.page},
          {"max_memory_percent", launch.share},
          {"max_requests_per_batch", launch.requests},
          {"max_blocks_per_request", launch.blocks_per_request},
          {"use_cuda_graph", OrderedJson::array({launch.graphs, launch.graphs})},
          {"use_async_batching", launch.async},
          {"return_logprobs", launch.logprobs},
          {"num_blocks", or_nothing(launch.blocks)},
          {"max_batch_tokens", or_nothing(launch.batch_tokens)}};
}

}  // namespace plimsoll::engines::transformers
