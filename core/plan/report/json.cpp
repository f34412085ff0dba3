#include <cmath>

#include "base/amount.h"
#include "base/error.h"
#include "base/json.h"
#include "plan/report/prompts.h"
#include "plan/report/report.h"

namespace plimsoll::plan {
std::string kind_name(KvKind kind) {
  switch (kind) {
    case KvKind::full:
      return "FullAttentionSpec";
    case KvKind::sliding:
      return "SlidingWindowSpec";
    case KvKind::chunked:
      return "ChunkedLocalAttentionSpec";
    case KvKind::latent:
      return "MLAAttentionSpec";
    case KvKind::sliding_latent:
      return "SlidingWindowMLASpec";
    case KvKind::state:
      return "MambaSpec";
    case KvKind::crossed:
      return "CrossAttentionSpec";
    case KvKind::ring:
      return "CircularBufferSpec";
  }
  return "";
}

namespace {

OrderedJson kinds_json(const PlanResult& result) {
  OrderedJson kinds = OrderedJson::array();
  for (const KvKindCount& kind : result.kv_kinds) {
    const KvKind which = kind.spec.kind;
    const bool windowed = which == KvKind::sliding || which == KvKind::sliding_latent;
    kinds.push_back(
        {{"kind", kind_name(which)},
         {"layers", kind.layers},
         {"block_size", kind.spec.block_size},
         {"page_bytes", kind.spec.page.value()},
         {"sliding_window", windowed ? OrderedJson(kind.spec.window) : OrderedJson(nullptr)}});
  }
  return kinds;
}

OrderedJson parts_json(const std::vector<PlanPart>& ledger) {
  OrderedJson parts = OrderedJson::array();
  for (const PlanPart& part : ledger) {
    parts.push_back({{"name", part.name},
                     {"bytes", part.bytes},
                     {"formula", part.formula},
                     {"source", part.source},
                     {"inside_budget", part.inside_budget}});
    if (part.less + part.more == 0) continue;
    parts.back()["low_bytes"] = part.bytes - part.less;
    parts.back()["high_bytes"] = (Amount{part.bytes} + part.more).value();
  }
  return parts;
}

void put_weights(OrderedJson& json, const StageFigures& figures) {
  json["parameter_bytes"] = figures.parameter_bytes;
  json["buffer_bytes"] = figures.buffer_bytes;
  if (figures.after_loading_bytes > 0) json["after_loading_bytes"] = figures.after_loading_bytes;
  if (figures.adapter_bytes > 0) json["adapter_bytes"] = figures.adapter_bytes;
  if (figures.segment_bytes > 0) json["segment_bytes"] = figures.segment_bytes;
  json["weights_bytes"] = figures.weights_bytes;
  if (figures.loading_peak_bytes > figures.weights_bytes)
    json["loading_peak_bytes"] = figures.loading_peak_bytes;
  json["activation_peak_bytes"] = figures.activation_peak_bytes;
  json["non_torch_bytes"] = figures.non_torch_bytes;
  if (figures.persistent_bytes > 0) json["persistent_bytes"] = figures.persistent_bytes;
  json["cuda_graph_bytes"] = figures.cuda_graph_bytes;
}

void put_stages(OrderedJson& json, const PlanResult& result) {
  if (result.stages.empty()) return;
  json["tightest_stage"] = result.stage;
  for (const StageFigures& figures : result.stages) {
    OrderedJson stage = {
        {"stage", figures.stage}, {"first_layer", figures.first_layer}, {"layers", figures.layers}};
    put_weights(stage, figures);
    if (result.has_kv) {
      stage["kv_cache_bytes"] = figures.kv_cache_bytes;
      stage["num_gpu_blocks"] = figures.num_gpu_blocks;
    }
    stage["parts"] = parts_json(figures.parts);
    json["stages"].push_back(std::move(stage));
  }
}

void put_cache(OrderedJson& json, const PlanResult& result) {
  if (result.kv_kinds.empty() && result.other_engine == nullptr) return;
  json["kv_bytes_per_token"] = result.kv_bytes_per_token;
  json["block_size"] = result.block_size;
  if (!result.kv_kinds.empty()) {
    json["kv_kinds"] = kinds_json(result);
    json["group_sizes"] = result.group_sizes;
  }
  for (const KvKindCount& kind : result.kv_kinds) {
    if (kind.spec.kind == KvKind::chunked)
      json["attention_chunk_sizes"].push_back(kind.spec.window);
  }
  if (!result.has_kv) return;
  json["kv_cache_bytes"] = result.kv_cache_bytes;
  json["num_gpu_blocks"] = result.num_gpu_blocks;
  json["kv_tokens"] = result.kv_tokens;
  json["max_concurrency"] = result.max_concurrency;
  json["estimated_max_model_len"] = result.estimated_max_model_len;
  if (result.auto_max_model_len > 0) json["auto_max_model_len"] = result.auto_max_model_len;
}

OrderedJson edges_json(const PlanResult::CacheBounds& bounds, auto member) {
  return {{"low", bounds.low.*member},
          {"middle", bounds.middle.*member},
          {"high", bounds.high.*member}};
}

/// Edges of what is estimated, the first boot, and what is taken for granted of the machine.
void put_bounds(OrderedJson& json, const PlanResult& result) {
  if (result.bounds) {
    json["assume"] = result.assume == vllm::Assume::worst ? "worst" : "middle";
    json["bounds"] = {
        {"kv_cache_bytes", edges_json(*result.bounds, &CacheFigures::kv_cache_bytes)},
        {"num_gpu_blocks", edges_json(*result.bounds, &CacheFigures::num_gpu_blocks)},
        {"kv_tokens", edges_json(*result.bounds, &CacheFigures::kv_tokens)},
        {"max_concurrency", edges_json(*result.bounds, &CacheFigures::max_concurrency)}};
  }
  if (result.cold) {
    const CacheFigures& cache = result.cold->cache;
    const Edges& edges = result.cold->kv_cache;
    json["cold_boot"] = {
        {"fits", cache.fits},
        {"kv_cache_bytes", cache.kv_cache_bytes},
        {"num_gpu_blocks", cache.num_gpu_blocks},
        {"kv_tokens", cache.kv_tokens},
        {"max_concurrency", cache.max_concurrency},
        {"activation_peak_bytes", result.cold->activation_peak_bytes},
        {"bounds",
         {{"kv_cache_bytes",
           {{"low", edges.low}, {"middle", edges.middle}, {"high", edges.high}}}}}};
    if (!cache.reason.empty()) json["cold_boot"]["reason"] = cache.reason;
  }
  for (const MachineFact& fact : result.machine) {
    json["machine"].push_back(
        {{"name", fact.name}, {"value", fact.value}, {"source", fact.source}, {"flag", fact.flag}});
  }
}

void put_host(OrderedJson& json, const PlanResult& result) {
  if (result.host.empty()) return;
  json["host"] = {{"processes", result.host_processes},
                  {"bytes", vllm::bytes_of(result.host).value()},
                  {"parts", parts_json(result.host)}};
}

/// The engine by its name; another than vLLM and ours with what it settles on, sizes and says.
void put_engine(OrderedJson& json, const PlanResult& result) {
  if (result.other_engine == nullptr) {
    json["engine"] = result.engine;
    return;
  }
  const engines::Answer& answer = *result.other_engine;
  json["engine"] = {{"name", result.engine},
                    {"resolved", answer.resolved},
                    {"sizing", answer.sizing},
                    {"says", answer.says}};
  if (!answer.refused) return;
  json["engine"]["stage"] = answer.refused->stage;
  json["engine"]["refused"] = answer.refused->words;
}

void put_advice(OrderedJson& json, const PlanResult& result) {
  if (!result.solved.empty()) json["solved"] = result.solved;
  if (result.advice.empty()) return;
  OrderedJson advice = OrderedJson::array();
  for (const Suggestion& suggestion : result.advice) {
    advice.push_back({{"change", suggestion.change},
                      {"flag", suggestion.flag},
                      {"saves_bytes", suggestion.saves},
                      {"gain", gain_text(suggestion)},
                      {"requests_before", suggestion.requests_before},
                      {"requests", suggestion.requests},
                      {"longest_before", suggestion.longest_before},
                      {"longest", suggestion.longest},
                      {"cost", suggestion.cost},
                      {"fits", suggestion.fits},
                      {"helps", suggestion.helps}});
  }
  json["advice"] = std::move(advice);
}

}  // namespace

std::string verdict_name(const PlanResult& result) {
  if (result.refused) return "does not launch";
  if (!result.fits.value_or(false)) return "does not fit";
  return result.may_fit ? "may fit" : "fits";
}

std::string to_json(const PlanResult& result) {
  OrderedJson json;
  json["schema_version"] = kSchemaVersion;
  if (result.fits) json["fits"] = *result.fits;
  if (result.fits && !result.gpu.empty()) json["verdict"] = verdict_name(result);
  if (!result.reason.empty()) json["reason"] = result.reason;
  put_engine(json, result);
  if (!result.version.empty()) json["engine_version"] = result.version;
  json["model"] = result.model;
  json["architecture"] = result.architecture;
  json["dtype"] = result.dtype;
  if (!result.gpu.empty()) {
    json["gpu"] = result.gpu;
    json["total_bytes"] = result.total_bytes;
    json["budget_bytes"] = result.budget_bytes;
    json["gpu_memory_utilization"] = result.gpu_memory_utilization;
  }
  json["gpus"] = result.gpus;
  put_weights(json, result);
  json["cuda_graphs"] = result.cuda_graphs;
  json["max_model_len"] = result.launched_model_len();
  json["max_num_seqs"] = result.max_num_seqs;
  json["max_num_batched_tokens"] = result.max_num_batched_tokens;
  if (result.prefix_caching) json["enable_prefix_caching"] = *result.prefix_caching;
  put_cache(json, result);
  put_bounds(json, result);
  put_host(json, result);
  json["parts"] = parts_json(result.parts);
  put_stages(json, result);
  if (result.prompts) json["prompts"] = prompts_json(*result.prompts);
  put_advice(json, result);
  if (!result.notes.empty()) json["notes"] = result.notes;
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string to_args(const PlanResult& result) {
  std::string line;
  for (const auto& [flag, value] : result.arguments) {
    line += (line.empty() ? "" : " ") + flag;
    if (!value.empty()) line += " " + value;
  }
  return line + "\n";
}

}  // namespace plimsoll::plan
