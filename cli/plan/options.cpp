#include "cli/plan/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "base/json.h"
#include "cli/plan/extras.h"
#include "cli/units.h"
#include "cli/value_flag.h"
#include "plan/multimodal.h"

namespace plimsoll::cli {
namespace {

/// A flag that may be given twice: the last counts.
CLI::Option* last_value_flag(CLI::App& command, const std::string& names, const std::string& type,
                             const std::string& help, Setter set) {
  return value_flag(command, names, type, help, std::move(set))->take_last();
}

void count_flag(CLI::App& command, const std::string& names, int64_t& target, int64_t least,
                const std::string& help) {
  last_value_flag(command, names, "N", help, [&target, least](const std::string& text) {
    const int64_t count = parse_count(text);
    if (count < least) throw std::invalid_argument(fmt::format("expected at least {}", least));
    target = count;
  });
}

void size_flag(CLI::App& command, const std::string& names, int64_t& target,
               const std::string& help, uint64_t bare_unit = 1) {
  last_value_flag(command, names, "SIZE", help, [&target, bare_unit](const std::string& text) {
    const uint64_t size = parse_size(text, bare_unit);
    if (size == 0 || size > static_cast<uint64_t>(INT64_MAX)) {
      throw std::invalid_argument("expected a size above 0, such as 40GiB");
    }
    target = static_cast<int64_t>(size);
  });
}

void switch_flag(CLI::App& command, const std::string& name, Setter set, const std::string& help) {
  command.add_flag_callback(
      "--" + name, [set] { set("true"); }, help);
  command.add_flag_callback(
      "--no-" + name, [set] { set("false"); }, "the reverse of --" + name);
}

void text_flag(CLI::App& command, const std::string& names, std::string& target,
               const std::string& type, const std::string& help) {
  last_value_flag(command, names, type, help,
                  [&target](const std::string& text) { target = text; });
}

double parse_number(const std::string& text) {
  size_t used = 0;
  double number = 0;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != text.size() || text.empty()) throw std::invalid_argument("expected a number");
  return number;
}

void read_compilation(const std::string& text, plan::EngineArgs& args) {
  if (text == "0" || text == "{\"level\": 0}") {
    args.enforce_eager = true;
    return;
  }
  if (text.size() == 1) return;  // levels 1 to 3 capture the default sizes
  Json json;
  try {
    json = parse_json<Json>(text);
  } catch (const JsonError& error) {
    throw std::invalid_argument(error.what());
  }
  if (json.is_object() && json.contains("cudagraph_capture_sizes") &&
      json["cudagraph_capture_sizes"].is_array()) {
    std::vector<int64_t> sizes;
    for (const Json& size : json["cudagraph_capture_sizes"]) {
      if (size.is_number_integer()) sizes.push_back(size.get<int64_t>());
    }
    args.capture_sizes = sizes;
  }
  if (json.is_object() && json.value("cudagraph_mode", Json()) == "NONE") args.enforce_eager = true;
}

void declare_subject(CLI::App& command, PlanOptions& o) {
  command
      .add_option("-m,--model,MODEL", o.model,
                  "folder with config.json, a config.json, or a hub id in the cache")
      ->type_name("DIR|FILE|ID");
  last_value_flag(command, "--engine", "plimsoll|vllm", "whose launch (default plimsoll)",
                  [&o](const std::string& text) {
                    if (text != "plimsoll" && text != "vllm")
                      throw std::invalid_argument("expected plimsoll or vllm");
                    o.engine = text;
                  });
  last_value_flag(command, "--vllm-version", "X.Y[.Z]", "vLLM's version (default 0.32.0)",
                  [&o](const std::string& text) {
                    o.engine = "vllm";
                    o.args.version = plan::parse_version(text);
                  });
  text_flag(command, "--gpu", o.gpu, "NAME|auto|smallest|list",
            "card by a loose name; list prints them");
  last_value_flag(command, "--gpus", "N|auto", "cards at hand; auto: as few as it takes",
                  [&o](const std::string& text) {
                    o.gpus = text == "auto" ? 0 : parse_count(text);
                    if (text != "auto" && *o.gpus < 1)
                      throw std::invalid_argument("expected at least 1, or auto");
                  });
  last_value_flag(command, "--gpu-total-memory", "SIZE", "a card that is not in the catalogue",
                  [&o](const std::string& text) {
                    o.gpu_total_memory =
                        static_cast<int64_t>(std::min<uint64_t>(parse_size(text), INT64_MAX));
                    if (*o.gpu_total_memory < 1)
                      throw std::invalid_argument("expected a size above 0");
                  });
  last_value_flag(
      command, "--gpu-memory", "SIZE", "a ceiling for the process, in place of the utilisation",
      [&o](const std::string& text) {
        o.gpu_memory = static_cast<int64_t>(std::min<uint64_t>(parse_size(text), INT64_MAX));
      });
  last_value_flag(command, "--format", "text|json|html|args", "what to print (default text)",
                  [&o](const std::string& text) {
                    if (text == "text")
                      o.format = PlanFormat::text;
                    else if (text == "json")
                      o.format = PlanFormat::json;
                    else if (text == "html")
                      o.format = PlanFormat::html;
                    else if (text == "args")
                      o.format = PlanFormat::args;
                    else
                      throw std::invalid_argument("expected text, json, html or args");
                  });
  text_flag(command, "--explain", o.explain, "PART", "the formula of a part with its numbers");
  command.add_flag("--advise", o.advise, "what would save memory, also when it fits");
  text_flag(command, "-i,--input-file", o.prompts, "FILE",
            "prompts: lengths, faults, need for cache");
  text_flag(command, "--tokens-per-second,--rate", o.rate, "N|REPORT",
            "measured, by hand or in a report of run: gives hours for -i");
  text_flag(command, "--tokenizer", o.tokenizer, "DIR", "of the prompts (default MODEL)");
  last_value_flag(command, "--chat-template", "FILE", "of the prompts, a file or the text itself",
                  [&o](const std::string& text) { o.chat_template = read_template(text); });
  last_value_flag(command, "--max-tokens", "N", "of the prompts, as for run",
                  [&o](const std::string& text) {
                    o.max_tokens = parse_count(text);
                    if (*o.max_tokens < 1) throw std::invalid_argument("expected at least 1");
                  });
  text_flag(command, "--check", o.check, "FILE", "a report of run: was the plan exceeded?");
  command.add_option("--diff", o.diff, "what two plans, printed with --format json, differ in")
      ->type_name("FILE FILE");
}

void declare_lengths(CLI::App& command, PlanOptions& o) {
  plan::EngineArgs& a = o.args;
  last_value_flag(command, "--max-model-len", "N|auto", "context length, such as 4096 or 32k",
                  [&a](const std::string& text) {
                    a.max_model_len = text == "auto" || text == "-1" ? -1 : parse_count(text);
                    if (a.max_model_len == 0 || a.max_model_len < -1)
                      throw std::invalid_argument("expected at least 1, or auto");
                  });
  last_value_flag(command, "--max-num-seqs", "N|auto", "sequences that run at once",
                  [&o](const std::string& text) {
                    o.solve_seqs = text == "auto";
                    o.args.max_num_seqs = o.solve_seqs ? 0 : parse_count(text);
                    if (!o.solve_seqs && o.args.max_num_seqs < 1)
                      throw std::invalid_argument("expected at least 1, or auto");
                  });
  count_flag(command, "--max-num-batched-tokens", a.max_num_batched_tokens, 1,
             "tokens of one step");
  count_flag(command, "--block-size", a.block_size, 1, "tokens of a KV block");
  count_flag(command, "--num-gpu-blocks-override", a.blocks_override, 1,
             "KV blocks, whatever their bytes");
  size_flag(command, "--kv-cache-memory-bytes,--kv-cache-memory", a.kv_cache_memory,
            "KV cache, in place of what is left");
  size_flag(command, "--available-kv-memory", a.available_kv,
            "stands in for the KV budget left after weights");
  size_flag(command, "--reserved-memory", a.reserved,
            "memory of the card that other processes hold");
  size_flag(command, "--cpu-offload-gb", a.cpu_offload, "weights kept on the host, GiB",
            uint64_t{1} << 30);
  last_value_flag(command, "--gpu-memory-utilization", "X", "share of the card for this process",
                  [&a](const std::string& text) {
                    a.gpu_memory_utilization = parse_number(text);
                    if (!(a.gpu_memory_utilization > 0 && a.gpu_memory_utilization <= 1)) {
                      throw std::invalid_argument("expected a number above 0 and at most 1");
                    }
                  });
}

void declare_host(CLI::App& command, PlanOptions& o) {
  last_value_flag(
      command, "--cpu-kvcache-space", "GiB",
      "KV cache without a card (default VLLM_CPU_KVCACHE_SPACE, else 4)",
      [&o](const std::string& text) { o.cpu_cache = parse_size(text, uint64_t{1} << 30); });
  last_value_flag(command, "--threads", "N", "of a run on this machine's processor",
                  [&o](const std::string& text) {
                    const int64_t threads = parse_count(text);
                    if (threads < 1 || threads > 4096)
                      throw std::invalid_argument("expected 1 to 4096");
                    o.threads = static_cast<int>(threads);
                  });
}

void declare_engine(CLI::App& command, PlanOptions& o) {
  plan::EngineArgs& a = o.args;
  text_flag(command, "--dtype", a.dtype, "auto|bfloat16|float16|float32",
            "of weights and activations");
  text_flag(command, "-q,--quantization", a.quantization, "METHOD",
            "quantize while loading: fp8, bitsandbytes");
  text_flag(command, "--kv-cache-dtype", a.kv_cache_dtype, "auto|fp8|...", "of the KV cache");
  text_flag(command, "--mamba-ssm-cache-dtype", a.state_dtype, "auto|float32|...",
            "of recurrent states");
  count_flag(command, "--tensor-parallel-size", a.tensor_parallel, 1,
             "ranks that share each layer (-tp)");
  count_flag(command, "--pipeline-parallel-size", a.pipeline_parallel, 1, "stages of layers (-pp)");
  count_flag(command, "--data-parallel-size", a.data_parallel, 1, "copies of the model (-dp)");
  const auto is_true = [](const std::string& text) { return text == "true"; };
  switch_flag(
      command, "enable-expert-parallel",
      [&a, is_true](const std::string& t) { a.expert_parallel = is_true(t); },
      "experts are divided whole");
  switch_flag(
      command, "enable-prefix-caching",
      [&a, is_true](const std::string& t) { a.prefix_caching = is_true(t); },
      "share KV blocks of equal prefixes");
  switch_flag(
      command, "enable-chunked-prefill",
      [&a, is_true](const std::string& t) { a.chunked_prefill = is_true(t); },
      "prompts are read in parts");
  switch_flag(
      command, "disable-hybrid-kv-cache-manager",
      [&a, is_true](const std::string& t) { a.hybrid_kv = !is_true(t); },
      "every layer keeps every token");
  switch_flag(
      command, "async-scheduling",
      [&a, is_true](const std::string& t) { a.async_scheduling = is_true(t); },
      "two batches in flight (default)");
  switch_flag(
      command, "enforce-eager",
      [&a, is_true](const std::string& t) { a.enforce_eager = is_true(t); }, "no CUDA graphs");
  last_value_flag(command, "--cudagraph-capture-sizes,--cuda-graph-sizes", "N,N,...",
                  "sizes of batch with a graph",
                  [&a](const std::string& text) { a.capture_sizes = parse_counts(text); });
  last_value_flag(command, "-O,--compilation-config", "JSON|LEVEL",
                  "vLLM's: capture sizes and mode are read",
                  [&a](const std::string& text) { read_compilation(text, a); });
  last_value_flag(command, "--usage", "server|offline|batch",
                  "how vLLM is called; its defaults differ (default server)",
                  [&a](const std::string& text) {
                    if (text == "server")
                      a.usage = plan::Usage::server;
                    else if (text == "offline")
                      a.usage = plan::Usage::offline;
                    else if (text == "batch")
                      a.usage = plan::Usage::batch;
                    else
                      throw std::invalid_argument("expected server, offline or batch");
                  });
}

void declare_multimodal(CLI::App& command, PlanOptions& o) {
  plan::EngineArgs& a = o.args;
  last_value_flag(command, "--limit-mm-per-prompt", "JSON",
                  "items of each modality that a request may hold",
                  [&a](const std::string& text) { read_modality_limits(text, a); });
  last_value_flag(command, "--mm-processor-kwargs", "JSON",
                  "max_pixels, min_pixels, size, max_dynamic_patch", [&a](const std::string& text) {
                    try {
                      const auto json = parse_json<Json>(text);
                      plan::read_processor_settings(plan::ConfigView(json, "--mm-processor-kwargs"),
                                                    "", a.processor);
                    } catch (const JsonError& error) {
                      throw std::invalid_argument(error.what());
                    }
                  });
  switch_flag(
      command, "language-model-only", [&a](const std::string& t) { a.language_only = t == "true"; },
      "no images, videos or audio");
  switch_flag(
      command, "skip-mm-profiling",
      [&a](const std::string& t) { a.skip_mm_profiling = t == "true"; },
      "the encoder is left out of the profile");
  last_value_flag(command, "--mm-processor-cache-gb", "GiB", "host memory for processed inputs",
                  [&a](const std::string& text) {
                    a.processor_cache_gib = parse_number(text);
                    if (a.processor_cache_gib < 0)
                      throw std::invalid_argument("expected at least 0");
                  });
}

/// Flags of `run` and of vLLM that move no device memory: a run line becomes a plan line by one
/// word.
void declare_unmoved(CLI::App& command, PlanOptions& o) {
  const auto note = [&o](const std::string& name) {
    return [&o, name](const std::string&) { o.ignored.push_back(name); };
  };
  for (const char* name : {"--seed",
                           "--generation-config",
                           "--served-model-name",
                           "--load-format",
                           "--device",
                           "--temperature",
                           "--top-p",
                           "--top-k",
                           "--long-prompt",
                           "--report",
                           "--part",
                           "--limit",
                           "--skip",
                           "--time-limit",
                           "--host",
                           "--port",
                           "--api-key",
                           "--tool-call-parser",
                           "--reasoning-parser",
                           "--swap-space",
                           "--ignored-flag"}) {
    last_value_flag(command, name, "X", "moves no device memory", note(name));
  }
  last_value_flag(command, "-o,--output-file", "FILE", "moves no device memory",
                  note("--output-file"));
  for (const char* name :
       {"--overwrite", "--trust-remote-code", "--quiet", "--strict", "--skip-tokenizer-init",
        "--disable-log-requests", "--disable-log-stats", "--enable-auto-tool-choice"}) {
    command.add_flag_callback(
        name, [&o, name] { o.ignored.emplace_back(name); }, "moves no device memory");
  }
}

}  // namespace

void read_modality_limits(const std::string& text, plan::EngineArgs& args) {
  if (text.find('{') == std::string::npos) {
    std::string item;
    for (const char c : text + ",") {
      if (c != ',') {
        item += c;
        continue;
      }
      const size_t equals = item.find('=');
      if (equals == std::string::npos)
        throw std::invalid_argument("expected image=N,video=N or a JSON object");
      args.limits[item.substr(0, equals)].count = parse_count(item.substr(equals + 1));
      item.clear();
    }
    return;
  }
  Json json;
  try {
    json = parse_json<Json>(text);
  } catch (const JsonError& error) {
    throw std::invalid_argument(error.what());
  }
  for (const auto& [modality, value] : json.items()) {
    plan::ModalityLimit& limit = args.limits[modality];
    if (value.is_number_integer()) {
      limit.count = value.get<int64_t>();
    } else if (value.is_object()) {
      const auto number = [&](const char* key, int64_t fallback) {
        const auto at = value.find(key);
        return at != value.end() && at->is_number_integer() ? at->get<int64_t>() : fallback;
      };
      constexpr int64_t kUnlimited = 999;
      limit = {number("count", kUnlimited), number("width", 0), number("height", 0),
               number("num_frames", 0)};
    } else {
      throw std::invalid_argument("expected a count or an object for " + modality);
    }
    if (limit.count < 0) throw std::invalid_argument("expected at least 0 for " + modality);
  }
}

void declare_plan_flags(CLI::App& command, PlanOptions& options) {
  command.option_defaults()->group("Subject and answer");
  declare_subject(command, options);
  command.option_defaults()->group("Lengths and budgets");
  declare_lengths(command, options);
  declare_host(command, options);
  command.option_defaults()->group("Engine");
  declare_engine(command, options);
  declare_adapter_flags(command, options.args);
  command.option_defaults()->group("Images, videos, audio");
  declare_multimodal(command, options);
  command.option_defaults()->group("Accepted, but moves no device memory");
  declare_unmoved(command, options);
}

}  // namespace plimsoll::cli
