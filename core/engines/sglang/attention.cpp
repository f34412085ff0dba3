// Sources: sglang/srt/server_args.py and sglang/srt/arg_groups/overrides.py of 0.5.23.
#include "engines/sglang/attention.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "engines/sglang/models.h"

namespace plimsoll::engines::sglang {
namespace {

/// Backends of a model by card; an architecture that begins with `begin`.
struct BackendRow {
  std::string_view begin, hopper, blackwell, others;
};
constexpr BackendRow kBackends[] = {
    {"GptOss", "fa3", "trtllm_mha", "triton"},
    {"Llama4", "fa3", "trtllm_mha", "triton"},
    {"Gemma4", "triton", "trtllm_mha", "triton"},
    {"MiMoV2", "fa3", "fa4", "triton"},
    {"NemotronH", "fa3", "trtllm_mha", "flashinfer"},
    {"Olmo2", "fa3", "trtllm_mha", "fa3"},
    {"Olmo3", "fa3", "trtllm_mha", "fa3"},
    {"Exaone4", "fa3", "trtllm_mha", "fa3"},
    {"Qwen3Next", "fa3", "triton", "flashinfer"},
    {"Qwen3_5", "fa3", "triton", "flashinfer"},
    {"DeepseekV3", "fa3", "trtllm_mla", "triton"},
    {"KimiK25", "fa3", "trtllm_mla", "triton"},
    {"KimiK3", "fa3", "trtllm_mla", "triton"},
};
constexpr BackendRow kPlain = {"", "fa3", "trtllm_mha", "flashinfer"};
constexpr BackendRow kLatent = {"", "fa3", "flashinfer", "triton"};

const BackendRow& row_of(const ModelFacts& facts) {
  for (const BackendRow& row : kBackends)
    if (facts.architecture.starts_with(row.begin)) return row;
  return facts.latent ? kLatent : kPlain;
}

std::string by_card(const BackendRow& row, const Card& card) {
  if (card.is_hopper()) return std::string(row.hopper);
  return std::string(card.is_datacenter_blackwell() ? row.blackwell : row.others);
}

/// FlashInfer's and Triton's backends, where those of Hopper and Blackwell do not draft.
std::string spare_backend(const ModelFacts& facts) {
  return facts.sinks || facts.latent ? "triton" : "flashinfer";
}

bool drafts_otherwise(const Launch& launch, const CommandLine& line) {
  if (launch.facts.latent) return false;
  const int64_t topk = line.integer("--speculative-eagle-topk", 0);
  if (topk > 1 || (topk == 1 && line.integer("--page-size", 1) > 1)) return true;
  return topk == 0 && line.has("--speculative-algorithm") && launch.card.is_datacenter_blackwell();
}

/// Qwen3-Next and Qwen3.5 on Blackwell keep pages of 64 in these launches.
bool pages_of_hybrid(const Launch& launch, const CommandLine& line) {
  const std::string strategy = line.text("--mamba-radix-cache-strategy", "auto");
  return (line.has("--speculative-algorithm") &&
          line.integer("--speculative-eagle-topk", 0) == 1) ||
         !launch.radix || strategy.starts_with("extra_buffer");
}

void check_backend(const Launch& launch, const std::string& name) {
  if (name == "trtllm_mla" && launch.card.capability < 10) {
    throw Refusal{"arguments",
                  "ValueError: TRTLLM MLA backend is only supported on Blackwell GPUs "
                  "(SM100/SM12x). Please use a different backend."};
  }
  if (name == "trtllm_mha" && !launch.card.is_datacenter_blackwell()) {
    throw Refusal{"arguments",
                  "ValueError: TRTLLM MHA backend is only supported on Blackwell GPUs (SM100). "
                  "Please use a different backend."};
  }
}

void check_gpt_oss(const Launch& launch) {
  constexpr std::string_view kServed[] = {"triton", "trtllm_mha", "fa3",       "fa4",
                                          "ascend", "intel_amx",  "intel_xpu", "aiter"};
  const auto is_served = [&](const std::string& name) {
    return std::ranges::find(kServed, name) != std::end(kServed);
  };
  if (launch.facts.architecture != "GptOssForCausalLM") return;
  if (is_served(launch.prefill_backend) && is_served(launch.decode_backend)) return;
  throw Refusal{"arguments",
                fmt::format("AssertionError: GptOssForCausalLM requires one of ['triton', "
                            "'trtllm_mha', 'fa3', 'fa4', 'ascend', 'intel_amx', 'intel_xpu', "
                            "'aiter'] attention backend, but got the following backends\n"
                            "- Prefill: {}\n- Decode: {}\n",
                            launch.prefill_backend, launch.decode_backend)};
}

std::string torch_name(const std::string& kv_cache_dtype, const std::string& dtype) {
  if (kv_cache_dtype == "fp8_e4m3" || kv_cache_dtype == "mxfp8") return "float8_e4m3fn";
  if (kv_cache_dtype == "fp8_e5m2") return "float8_e5m2";
  if (kv_cache_dtype == "bf16" || kv_cache_dtype == "bfloat16") return "bfloat16";
  if (kv_cache_dtype == "nvfp4" || kv_cache_dtype == "fp4_mx_block16") return "float4_e2m1fn_x2";
  return dtype;
}

}  // namespace

BackendChoice default_backends(const Launch& launch, const CommandLine& line) {
  const ModelFacts& facts = launch.facts;
  if (facts.deepseek_v4) return {"dsv4", "dsv4"};
  if (facts.sparse) return {"dsa", "dsa"};
  std::string name = by_card(row_of(facts), launch.card);
  const bool qwen_hybrid =
      facts.architecture.starts_with("Qwen3Next") || is_qwen35(facts.architecture);
  if (qwen_hybrid && launch.card.is_datacenter_blackwell() && pages_of_hybrid(launch, line))
    name = "trtllm_mha";
  const bool fast = name == "fa3" || name == "fa4" || name == "trtllm_mha";
  const bool wide = !facts.hybrid && fast;
  if (wide && drafts_otherwise(launch, line)) name = spare_backend(facts);
  if (name == "flashinfer" && facts.sinks) name = "triton";
  if (name == "fa3" && line.text("--kv-cache-dtype", "auto") == "fp8_e5m2") name = "triton";
  BackendChoice choice{name, name};
  if (facts.architecture.starts_with("Qwen3VL") && launch.card.is_hopper() &&
      launch.card.mib.value_or(0) >= kLargeCard)
    choice.decode = "flashinfer";
  return choice;
}

void settle_backends(Launch& launch, const CommandLine& line) {
  const BackendChoice choice = default_backends(launch, line);
  const std::string both = line.text("--attention-backend", "");
  launch.prefill_backend =
      line.text("--prefill-attention-backend", both.empty() ? choice.prefill : both);
  launch.decode_backend =
      line.text("--decode-attention-backend", both.empty() ? choice.decode : both);
  check_gpt_oss(launch);
  for (const std::string& name : {launch.prefill_backend, launch.decode_backend})
    check_backend(launch, name);
}

int64_t settled_page(const Launch& launch, const CommandLine& line, const ModelConfig& config) {
  int64_t page = std::max<int64_t>(1, line.integer("--page-size", 1));
  const auto uses = [&](std::string_view name) {
    return launch.prefill_backend == name || launch.decode_backend == name;
  };
  const auto is_one_of = [&](std::initializer_list<int64_t> pages) {
    return std::ranges::find(pages, page) != pages.end();
  };
  if (uses("trtllm_mha") && !is_one_of({16, 32, 64, 128})) page = 64;
  if (uses("trtllm_mla") && !is_one_of({32, 64})) page = 64;
  if (uses("flashmla")) page = 64;
  if (uses("fa4") && launch.card.is_datacenter_blackwell()) page = 128;
  if (uses("dsa")) page = 64 * config.text().integer({"index_kpool"}, 1, {1, 1024});
  if (launch.facts.deepseek_v4) page = 256;
  if (launch.facts.architecture.starts_with("MiniMaxM3")) page = 128;
  return page;
}

void settle_kv_dtype(Launch& launch, const CommandLine& line, const ModelConfig& config) {
  std::string& asked = launch.kv_cache_dtype;
  asked = line.text("--kv-cache-dtype", "auto");
  if (launch.facts.sparse) {
    if (asked == "auto") asked = launch.card.capability >= 10 ? "fp8_e4m3" : "bfloat16";
    if (asked == "bf16") asked = "bfloat16";
    if (asked != "bfloat16" && asked != "fp8_e4m3") {
      throw Refusal{"arguments",
                    "AssertionError: DeepSeek DSA only supports bf16/bfloat16 or fp8_e4m3 "
                    "kv_cache_dtype"};
    }
  }
  if (launch.facts.deepseek_v4 && asked == "auto") asked = "fp8_e4m3";
  launch.kv_dtype = torch_name(asked, launch.dtype);
  const bool modelopt = launch.quantization && launch.quantization->starts_with("modelopt");
  if (asked == "auto" && modelopt && config.stores_fp8_cache()) launch.kv_dtype = "float8_e4m3fn";
}

}  // namespace plimsoll::engines::sglang
