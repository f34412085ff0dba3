// Sources: sglang/srt/model_executor/kv_cache_configurator.py and its kin of 0.5.23. Memory is in
// GiB as floating point until it becomes a budget in bytes, as there.
#include "engines/sglang/sizing.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/amount.h"
#include "engines/sglang/cells.h"
#include "engines/sglang/states.h"

namespace plimsoll::engines::sglang {
namespace {

[[noreturn]] void refuse_memory(std::string words) {
  throw Refusal{"memory", std::move(words)};
}

/// A number as Python prints a float: the shortest that reads back.
std::string python_float(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

/// A number of bytes; what no card could hold is the most that is told.
int64_t told_bytes(double bytes) {
  constexpr double kMost = 0x1p62;
  return static_cast<int64_t>(std::clamp(bytes, 0.0, kMost));
}

class Sizing {
 public:
  Sizing(const Launch& launch, const ModelConfig& config, const FreeMemory& free, Answer& answer)
      : launch_(launch), config_(config), free_(free), answer_(answer), json_(answer.sizing) {}

  void run() {
    json_["attn_tp_size"] = launch_.attention_tp;
    json_["attn_dp_size"] = launch_.attention_dp;
    json_["sliding_window"] =
        launch_.facts.window ? OrderedJson(*launch_.facts.window) : OrderedJson(nullptr);
    rest_ = free_.after - free_.before * (1 - launch_.fraction) - launch_.multimodal_reserve;
    if (launch_.multimodal_reserve > 0) {
      say(
          fmt::format("Reserving {:.2f} GB of the KV budget for post-sizing multimodal "
                      "allocations (feature-transport pools + embedding cache).",
                      launch_.multimodal_reserve));
    }
    if (launch_.facts.deepseek_v4) {
      size_compressed();
    } else {
      size_pools();
    }
    finish();
  }

 private:
  void say(std::string line) { answer_.says.push_back(std::move(line)); }

  int64_t pages(double tokens) const {
    constexpr double kMost = 0x1p52;
    const auto whole = static_cast<int64_t>(std::clamp(tokens, -kMost, kMost));
    return whole - (whole % launch_.page + launch_.page) % launch_.page;
  }

  void put_cells(const Cells& cells) {
    json_["cell_bytes"] = cells.is_whole ? OrderedJson(static_cast<int64_t>(cells.token_bytes))
                                         : OrderedJson(cells.token_bytes);
    if (launch_.facts.two_pools) {
      json_["full_bytes_per_layer"] = cells.full_layer_bytes;
      json_["sliding_bytes_per_layer"] = cells.window_layer_bytes;
    }
    if (!launch_.facts.hybrid) return;
    json_["state_bytes_per_request"] = cells.state_bytes;
    json_["state_layers"] = cells.state_layers;
    json_["kv_layers"] = cells.kv_layers;
    json_["slots_per_request"] = slots_per_request(launch_);
  }

  /// Takes the recurrent states out of what is left; they are asked for before the KV cache.
  void take_states(const Cells& cells) {
    const auto per_request = static_cast<double>(cells.state_bytes);
    const int64_t each = slots_per_request(launch_);
    const double drafts =
        launch_.speculation ? static_cast<double>(launch_.speculation->draft_tokens) : 0;
    int64_t slots = 0;
    if (launch_.state_slots) {
      slots = *launch_.state_slots / launch_.attention_dp;
    } else if (!launch_.radix && launch_.max_running) {
      slots = *launch_.max_running / launch_.attention_dp;
    } else if (per_request > 0) {
      const double budget = rest_ * kGib * launch_.state_ratio / (1 + launch_.state_ratio);
      constexpr double kMost = 0x1p40;
      slots = static_cast<int64_t>(
          std::clamp(std::floor((budget - per_request * (1 + drafts)) /
                                (per_request * (1 + drafts / static_cast<double>(each)))),
                     -kMost, kMost));
    }
    if (slots <= 0 && cells.state_bytes > 0) {
      refuse_memory(fmt::format(
          "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. "
          "Computed max_mamba_cache_size={} (total_rest_memory={:.2f} GB, "
          "mamba_cache_per_req={:.2f} MB). Try: (1) reduce --max-running-requests, (2) increase "
          "--mem-fraction-static, (3) reduce --speculative-num-draft-tokens, or (4) use GPUs with "
          "more memory.",
          slots, rest_, per_request / 0x1p20));
    }
    double taken = 0;
    if (drafts > 0) {
      int64_t running = slots / each;
      if (launch_.max_running)
        running = std::min(running, *launch_.max_running / launch_.attention_dp);
      taken = per_request * static_cast<double>(running + 1) * drafts;
    }
    slots_ = slots;
    const double pool = per_request * static_cast<double>(slots + 1);
    rest_ -= (taken + pool) / kGib;
    answer_.figures.state_bytes = told_bytes(taken + pool);
    answer_.figures.state_formula =
        fmt::format("({} slots + 1) x {} bytes of {} layers{}", slots, cells.state_bytes,
                    cells.state_layers, drafts > 0 ? ", and the drafts' steps" : "");
  }

  void check_rest() const {
    if (rest_ > 0) return;
    const double least = 1 - free_.after / free_.before;
    refuse_memory(fmt::format(
        "ValueError: Loaded weights leave no GPU memory for the KV cache under "
        "--mem-fraction-static={}. Raise --mem-fraction-static above {:.3f} (minimum viable = 1 - "
        "available/pre = {:.4f}). If using speculative decoding, draft weights are now counted.",
        python_float(launch_.fraction), std::ceil(least * 1000) / 1000, least));
  }

  /// --max-total-tokens, where it is less than what is there.
  int64_t capped(int64_t tokens) {
    if (!launch_.max_total_tokens) return tokens;
    if (*launch_.max_total_tokens > tokens) {
      say(
          fmt::format("max_total_tokens={} is larger than the profiled value {}. Use the profiled "
                      "value instead.",
                      *launch_.max_total_tokens, tokens));
    }
    return std::min(tokens, pages(static_cast<double>(*launch_.max_total_tokens)));
  }

  static void check_tokens(int64_t tokens) {
    if (tokens > 0) return;
    refuse_memory("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.");
  }

  void size_pools() {
    const Cells cells = cells_of(launch_, config_);
    put_cells(cells);
    token_bytes_ = cells.token_bytes;
    if (launch_.facts.hybrid) take_states(cells);
    check_rest();
    const double bytes = std::floor(rest_ * kGib);
    if (launch_.facts.two_pools) {
      size_windows(cells, bytes);
      return;
    }
    tokens_ = cells.token_bytes > 0 ? pages(std::floor(bytes / cells.token_bytes)) : 0;
    tokens_ = capped(tokens_);
    check_tokens(tokens_);
    kv_bytes_ = static_cast<double>(tokens_ + launch_.page) * cells.token_bytes;
    key_share_ = cells.key_share;
    answer_.figures.kv_formula = fmt::format("{} tokens and a page x {} bytes of {} layers",
                                             tokens_, cells.token_bytes, cells.kv_layers);
  }

  /// Tokens of the window's pool for `running` requests, without a radix cache.
  int64_t window_tokens(int64_t running) const {
    const int64_t drafts = launch_.speculation ? launch_.speculation->draft_tokens : 1;
    const int64_t each = launch_.facts.window.value_or(0) + 128 * drafts + 2 * launch_.page;
    const int64_t chunks = 2 * std::max<int64_t>(launch_.chunk, 0) + launch_.page;
    const Amount tokens = Amount{running} * each + chunks;
    return (ceil_div(tokens, launch_.page) * launch_.page).value();
  }

  void size_windows(const Cells& cells, double bytes) {
    const double window_layer =
        static_cast<double>(cells.window_layer_bytes * launch_.window_layers.value_or(0));
    const double full_layer =
        static_cast<double>(cells.full_layer_bytes * launch_.full_layers.value_or(0));
    const double ratio = launch_.window_ratio.value_or(0);
    const bool by_requests = !launch_.radix && launch_.max_running;
    if (by_requests) {
      sliding_ = window_tokens(*launch_.max_running / launch_.attention_dp);
      const double pool = static_cast<double>(*sliding_) * window_layer;
      if (pool >= bytes) {
        refuse_memory(
            fmt::format("RuntimeError: SWA pool cap ({} tokens, {:.2f} GiB) leaves no room for "
                        "the full KV pool",
                        *sliding_, pool / kGib));
      }
      full_ = full_layer > 0 ? pages(std::floor((bytes - pool) / full_layer)) : *sliding_;
    } else {
      full_ = cells.token_bytes > 0 ? pages(std::floor(bytes / cells.token_bytes)) : 0;
      sliding_ = pages(static_cast<double>(*full_) * ratio);
      say(fmt::format("Use sliding window memory pool. full_layer_tokens={}, swa_layer_tokens={}",
                      *full_, *sliding_));
    }
    const int64_t profiled = *full_;
    full_ = capped(profiled);
    if (*full_ != profiled) sliding_ = pages(static_cast<double>(*full_) * ratio);
    check_tokens(*full_);
    const int64_t window = launch_.facts.window.value_or(0);
    if (window + launch_.page >= *sliding_) {
      refuse_memory(fmt::format(
          "ValueError: SWA pool ({} tokens) cannot hold even one request: the prefill admission "
          "floor is sliding_window_size ({}) + page_size ({}). Increase --swa-full-tokens-ratio or "
          "the total KV budget.",
          *sliding_, window, launch_.page));
    }
    tokens_ = *full_;
    kv_bytes_ =
        static_cast<double>(*full_) * full_layer + static_cast<double>(*sliding_) * window_layer;
    answer_.figures.kv_formula = fmt::format(
        "{} tokens x {} bytes of {} full layers + {} tokens x {} bytes of {} layers with a window",
        *full_, cells.full_layer_bytes, launch_.full_layers.value_or(0), *sliding_,
        cells.window_layer_bytes, launch_.window_layers.value_or(0));
  }

  void size_compressed() {
    const CompressedCells cells = compressed_cells(launch_, config_);
    json_["cell_bytes"] = cells.token_bytes;
    token_bytes_ = cells.token_bytes;
    check_rest();
    const double bytes = std::floor(rest_ * kGib);
    const double ratio = launch_.window_ratio.value_or(0);
    check_tokens(cells.token_bytes > 0 ? 1 : 0);
    int64_t full = pages((bytes - static_cast<double>(cells.fixed_bytes)) / cells.token_bytes);
    full = capped(full);
    check_tokens(full);
    full_ = full;
    sliding_ = pages(static_cast<double>(full) * ratio);
    tokens_ = full;
    const int64_t state_rows = *sliding_ / 256 * cells.state_rows;
    json_["c4_tokens"] = full / 4;
    json_["c128_tokens"] = full / 128;
    json_["c4_state"] = state_rows;
    json_["c128_state"] =
        (launch_.max_running.value_or(0) / launch_.attention_dp + 1) * cells.request_rows;
    say(
        fmt::format("DSV4 SWA sizing: mode=ratio (explicit), swa_tokens={}, "
                    "swa_full_tokens_ratio={}",
                    *sliding_, python_float(ratio)));
    say(fmt::format(
        "DSV4 memory calculation: unified=False, unified_fp8=False, dspark_draft_bf16=False, "
        "bytes_per_full_token={:.2f}, available_bytes={:.2f} GB, c128_state_fixed={:.2f} GB, "
        "c2_state_fixed=0.00 GB, swa_fixed=0.00 GB, swa_ring_fixed=0.00 GB, c4_state_fixed=0.00 "
        "GB, full_token={}",
        cells.token_bytes, bytes / kGib, static_cast<double>(cells.fixed_bytes) / kGib, full));
    say(fmt::format("DSV4 pool sizes: full={}, swa={}, c4={}, c128={}, c4_state={}, c128_state=0",
                    full, *sliding_, full / 4, full / 128, state_rows));
    kv_bytes_ =
        static_cast<double>(full) * cells.token_bytes + static_cast<double>(cells.fixed_bytes);
    answer_.figures.kv_formula =
        fmt::format("{} tokens x {:.2f} bytes + {} bytes of states of {} requests", full,
                    cells.token_bytes, cells.fixed_bytes, launch_.max_running.value_or(0));
  }

  /// Requests that run at once, with SGLang's words where it allows fewer than are asked for.
  int64_t running() {
    int64_t most = tokens_ / 2;
    if (launch_.max_running) {
      const int64_t asked = *launch_.max_running / launch_.attention_dp;
      if (most < asked) {
        say(
            fmt::format("max_running_requests was reduced from the requested {} to {} (per dp "
                        "worker) due to the available KV cache capacity.",
                        asked, most));
      }
      most = std::min(most, asked);
    } else {
      constexpr int64_t kLeast = 2048, kMost = 4096;
      const double by_length =
          static_cast<double>(tokens_) / static_cast<double>(launch_.context) * 512;
      most = std::min(most, std::clamp(static_cast<int64_t>(by_length), kLeast, kMost));
    }
    if (!slots_) return most;
    const int64_t each = slots_per_request(launch_);
    const int64_t cap = *slots_ / each;
    if (most <= cap) return most;
    say(fmt::format(
        "max_running_requests is capped to {} by the mamba state cache (max_mamba_cache_size={}, "
        "{} state slots per request). To raise it: increase --mamba-full-memory-ratio or "
        "--max-mamba-cache-size, or halve the state size with --mamba-ssm-dtype bfloat16.",
        cap, *slots_, each));
    if (cap == 0) {
      refuse_memory(fmt::format(
          "RuntimeError: Hybrid (mamba/linear-attention) state cache is too small to serve any "
          "requests. max_mamba_cache_size={}, mamba_ratio={}, resulting max_num_reqs=0. Try: (1) "
          "reduce --max-running-requests, (2) increase --mem-fraction-static, or (3) use GPUs with "
          "more memory.",
          *slots_, each));
    }
    return cap;
  }

  void finish() {
    const int64_t requests = running();
    int64_t beyond = 4;  // tokens of a row of the request table beside the context
    if (launch_.speculation) {
      const Speculation& drafts = *launch_.speculation;
      beyond += drafts.draft_tokens;
      if (launch_.page > 1) {
        const int64_t tree = std::max(drafts.topk * drafts.steps, drafts.draft_tokens);
        beyond = std::max(beyond, 2 * tree + launch_.page - 1);
      }
    }
    const int64_t table = (requests + 1) * (launch_.context + beyond) * 4;
    json_["max_total_num_tokens"] = tokens_;
    json_["full_tokens"] = full_ ? OrderedJson(*full_) : OrderedJson(nullptr);
    json_["sliding_tokens"] = sliding_ ? OrderedJson(*sliding_) : OrderedJson(nullptr);
    json_["max_running_requests"] = requests;
    if (slots_) json_["state_slots"] = *slots_;
    json_["request_table_bytes"] = table;
    Figures& figures = answer_.figures;
    figures.kv_tokens = tokens_;
    figures.running = requests;
    figures.bytes_per_token = token_bytes_;
    figures.kv_bytes = told_bytes(kv_bytes_);
    figures.beside_bytes = table;
    log(requests, table);
    figures.beside_formula = fmt::format("({} requests + 1) x ({} + {} tokens) x 4 bytes", requests,
                                         launch_.context, beyond);
  }

  /// The whole of what a server logs of its memory, up to the graphs.
  void log(int64_t requests, int64_t table) {
    std::vector<std::string>& log = answer_.log;
    log.push_back(fmt::format("Load weight begin. avail mem={:.2f} GB", free_.before));
    log.push_back(fmt::format("Load weight end. type={}, avail mem={:.2f} GB, mem usage={:.2f} GB.",
                              launch_.facts.architecture, free_.after, free_.before - free_.after));
    log.insert(log.end(), answer_.says.begin(), answer_.says.end());
    const double gib = kv_bytes_ / kGib;
    if (key_share_ == 1) {
      log.push_back(
          fmt::format("KV Cache is allocated. dtype: torch.{}, #tokens: {}, KV size: {:.2f} GB",
                      launch_.kv_dtype, tokens_, gib));
    } else if (key_share_ > 0) {
      log.push_back(
          fmt::format("KV Cache is allocated. dtype: torch.{}, #tokens: {}, K size: {:.2f} GB, V "
                      "size: {:.2f} GB",
                      launch_.kv_dtype, tokens_, gib * key_share_, gib * (1 - key_share_)));
    }
    const double left =
        free_.after - (kv_bytes_ + static_cast<double>(answer_.figures.state_bytes) +
                       static_cast<double>(table)) /
                          kGib;
    log.push_back(fmt::format("Memory pool end. avail mem={:.2f} GB", left));
    log.push_back(
        fmt::format("max_total_num_tokens={}, chunked_prefill_size={}, max_prefill_tokens={}, "
                    "max_running_requests={}, context_len={}",
                    tokens_, launch_.chunk, launch_.max_prefill, requests, launch_.context));
  }

  const Launch& launch_;
  const ModelConfig& config_;
  const FreeMemory& free_;
  Answer& answer_;
  OrderedJson& json_;
  double rest_ = 0;  // GiB
  double token_bytes_ = 0;
  double kv_bytes_ = 0;
  double key_share_ = 0;
  int64_t tokens_ = 0;
  std::optional<int64_t> full_, sliding_, slots_;
};

}  // namespace

void size(const Launch& launch, const ModelConfig& config, const FreeMemory& free, Answer& answer) {
  Sizing(launch, config, free, answer).run();
}

}  // namespace plimsoll::engines::sglang
