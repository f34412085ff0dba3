#include "cli/plan/command.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/find_model.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/read_model.h"
#include "cli/arguments.h"
#include "cli/environment.h"
#include "cli/help.h"
#include "cli/plan/extras.h"
#include "cli/plan/parts.h"
#include "cli/plan/reorder.h"
#include "cli/terminal.h"
#include "engines/engine.h"
#include "launch/arguments.h"
#include "launch/overrides.h"
#include "model/class_defaults.h"
#include "model/config.h"
#include "plan/log/vllm_log.h"
#include "plan/report/report.h"
#include "plan/solver.h"
#include "plan/vllm_plan.h"
#include "vllm/shapes/mistral_params.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  flush_output();
}

/// MODEL's config.json, or params.json: the file itself, a folder's, or a hub id's.
fs::path find_config(const PlanOptions& options, const Environment& environment) {
  const std::string& model = options.model;
  if (model.empty())
    fail(ExitCode::usage,
         "plan: MODEL is missing: a folder, a config.json, a GGUF file, or a hub id");
  const bool weights = model.ends_with(".safetensors") || checkpoint::gguf::is_gguf_path(model);
  if (fs::is_regular_file(model) && !weights) return model;
  fs::path folder = checkpoint::find_model(
      model, environment.stores,
      options.has_prompts ? "config.json tokenizer.json tokenizer_config.json" : "config.json");
  if (checkpoint::gguf::is_gguf_path(folder)) {
    if (options.engine != "vllm") return folder;
    fail(ExitCode::usage,
         "{}: vLLM's core no longer loads GGUF files (the plug-in vllm-gguf-plugin does); plan the "
         "original model's safetensors for vLLM, or this file with --engine plimsoll",
         folder.string());
  }
  // Mistral's own format, which vLLM prefers to a config.json only beside its own weights.
  if (!fs::exists(folder / "config.json") && fs::exists(folder / "params.json"))
    return folder / "params.json";
  if (!fs::exists(folder / "config.json")) {
    fail(ExitCode::checkpoint_unusable, "{}", model::missing_config(folder));
  }
  return folder / "config.json";
}

std::string gpu_list() {
  std::string text =
      fmt::format("{:<32}{:>11}{:>11}{:>12}{:>6}\n", "name", "nvidia-smi", "PyTorch", "bandwidth",
                  "SM");  // two totals: the driver keeps a part of the card
  for (const hardware::Gpu& gpu : hardware::gpu_catalogue()) {
    const auto size = [](int64_t bytes) { return bytes > 0 ? plan::readable_bytes(bytes) : "?"; };
    text += fmt::format("{:<32}{:>11}{:>11}{:>12}{:>6}\n", gpu.name, size(gpu.memory_bytes),
                        size(gpu.memory_bytes > 0 ? gpu.visible_bytes() : 0),
                        gpu.bandwidth > 0 ? fmt::format("{:.0f} GB/s", gpu.bandwidth) : "?",
                        gpu.processors > 0 ? std::to_string(gpu.processors) : "?");
  }
  return text;
}

/// Says that the line's model is to be replaced: programs load a folder, a hub id or a GGUF file.
void note_stand_in(const PlanOptions& options) {
  if (!options.gguf_type.empty()) {
    say(fmt::format("--format serve: put the GGUF file of {} in the place of {}", options.gguf_type,
                    options.model));
    return;
  }
  if (!options.model.ends_with(".json")) return;
  say(fmt::format(
      "--format serve: {} is a config.json alone, which no program loads; put the model's folder "
      "or hub id in its place",
      options.model));
}

std::string rendered(const plan::PlanResult& result, const PlanOptions& options,
                     const Environment& environment) {
  if (!options.explain.empty()) return plan::explain_part(result, options.explain);
  switch (options.format) {
    case PlanFormat::json:
      return plan::to_json(result);
    case PlanFormat::html:
      return plan::to_html(result);
    case PlanFormat::args:  // a launch that does not fit has no line to paste
      return result.fits.value_or(true) ? plan::to_args(result) : "";
    case PlanFormat::serve: {
      note_stand_in(options);
      if (const engines::Engine* other = engines::find_engine(result.engine); other != nullptr)
        return result.fits.value_or(true) ? engine_line(*other, result, options) : "";
      const char* program = result.engine == "vllm" ? "vllm serve" : "plimsoll run";
      return result.fits.value_or(true)
                 ? fmt::format("{} {} {}", program, shell_quoted(options.model),
                               plan::to_args(result))
                 : "";
    }
    case PlanFormat::log: {
      std::string log = plan::to_log(result);
      if (log.empty() && result.engine == "vllm") {
        say("--format log: name the card, --gpu NAME");
      } else if (log.empty()) {
        say(fmt::format("--format log: {} logs no memory at its start", result.engine));
      }
      return log;
    }
    case PlanFormat::text:
      break;
  }
  return plan::to_text(result, terminal_width(environment));
}

/// Lets a plan of vLLM count a folder's weights as their files hold them. Returns a note on a
/// quantization that the weights no longer have; empty: none.
std::string drop_left_over_quantization(const PlanOptions& options, const fs::path& file,
                                        Json& config) {
  const bool loaded = !options.run.random_weights() && !options.run.sharded_state();
  if (options.engine != "vllm" || file == options.model || !loaded) return "";
  if (!has_plain_weights(config, file, options.launch.args)) return "";
  if (config.erase("quantization_config") + config.erase("compression_config") == 0) return "";
  return "config.json has a quantization_config, and the files hold plain weights: these are "
         "counted. vLLM's loader of quantized weights may refuse them; remove quantization_config";
}

/// The plan of a command line, with what is to be said of it; nothing is printed.
struct Planned {
  plan::PlanResult result;
  PlanOptions options;
};

/// llama.cpp's plan of a GGUF file, or of the one that --gguf-type names; nullopt: neither is
/// given.
std::optional<plan::PlanResult> llamacpp_plan(const fs::path& file, const PlanOptions& options) {
  if (!checkpoint::gguf::is_gguf_path(file)) {
    if (options.gguf_type.empty()) return std::nullopt;
    return make_converted_plan(checkpoint::read_config(file), file, options);
  }
  if (!options.gguf_type.empty()) {
    fail(ExitCode::usage, "--gguf-type {}: {} is a GGUF file with types of its own",
         options.gguf_type, file.string());
  }
  return make_gguf_plan(checkpoint::gguf::Model::open(file), options);
}

Planned planned(const PlanOptions& asked, const Environment& environment) {
  PlanOptions given = asked;
  if (given.engine == "vllm" && !given.engine_version.empty()) {
    given.launch.args.version = vllm::parse_version(given.engine_version);
    given.launch.args.development_build =
        model::is_development_build(given.engine_version) ? given.engine_version : "";
  }
  if (given.engine == "plimsoll") launch::check_values(given.launch.args);
  check_load_format(given.run, given.engine);
  if (given.run.load_format != "auto")  // a pasted one stands there already
    given.launch.args.beside["--load-format"] = given.run.load_format;
  const fs::path file = find_config(given, environment);
  if (given.engine == "llamacpp") {
    if (std::optional<plan::PlanResult> result = llamacpp_plan(file, given)) {
      result->model = given.model;
      return {*std::move(result), std::move(given)};
    }
  } else if (!given.gguf_type.empty()) {
    fail(ExitCode::usage,
         "--gguf-type {}: names a GGUF file for llama.cpp; add --engine llamacpp, or leave it out",
         given.gguf_type);
  }
  Json config = checkpoint::read_config(file);
  vllm::adapt_mistral_params(config, file.string());
  if (given.engine == "vllm" && given.launch.args.overrides)
    launch::override_config(config, *given.launch.args.overrides);
  if (engines::find_engine(given.engine) != nullptr) {
    const std::optional<hardware::Gpu> card = choose_gpu(given);
    plan::PlanResult result =
        make_engine_plan(ConfigView(config, file.string()), given, environment, card);
    result.model = given.model;
    return {std::move(result), std::move(given)};
  }
  const std::string left_over = drop_left_over_quantization(given, file, config);
  const ConfigView view(config, file.string());
  PlanOptions options = completed(given, environment, view, file);
  if (options.engine == "vllm")
    model::complete_config(config, model::ConfigClasses::vllm);  // our engine knows its families
  const std::optional<hardware::Gpu> gpu = choose_gpu(options);
  const bool is_gguf = checkpoint::gguf::is_gguf_path(file);
  if (is_gguf) options.folder = fs::absolute(file);
  if (file.filename() == "config.json") options.folder = fs::absolute(file).parent_path();
  options.is_lone_config = file == options.model && !is_gguf;
  Prompts prompts(options, view, is_gguf ? file : file.parent_path());
  LengthsOf lengths_of;
  if (options.has_prompts && options.engine == "plimsoll")
    lengths_of = [&](const plan::PlanResult& usual) { return prompts.lengths(usual); };
  plan::PlanResult result = make_plan(view, options, environment, gpu, lengths_of);
  if (gpu && !options.gpu_total_memory && options.gpu != "auto") {
    if (std::string note = hardware::gpu_note(options.gpu, *gpu); !note.empty())
      result.notes.push_back(std::move(note));
  }
  result.model = options.model;
  if (!left_over.empty()) result.notes.push_back(left_over);
  if (options.gpu_total_memory && gpu && gpu->visible_bytes() < gpu->memory_bytes) {
    result.notes.push_back(fmt::format(
        "--gpu-total-memory {}: the total that nvidia-smi shows; the driver keeps {} of it, and "
        "PyTorch sees {}",
        plan::readable_bytes(gpu->memory_bytes),
        plan::readable_bytes(gpu->memory_bytes - gpu->visible_bytes()),
        plan::readable_bytes(gpu->visible_bytes())));
  }
  if (options.has_prompts) prompts.add_to(result);
  return {std::move(result), std::move(options)};
}

/// `--engine all`: the plans of all engines; exit status 0 where one of them fits.
int plan_all(const PlanOptions& given) {
  if (given.format != PlanFormat::text && given.format != PlanFormat::json)
    fail(ExitCode::usage,
         "--engine all: prints a table, or --format json; name one engine for another format");
  const Environment environment = read_sound_environment();
  std::vector<plan::PlanResult> results;
  for (const PlanOptions& options : options_of_all(given)) {
    try {
      results.push_back(planned(options, environment).result);
    } catch (const Error& error) {
      plan::PlanResult refused;
      refused.engine = options.engine;
      refused.fits = false;
      refused.refused = true;
      refused.reason = error.what();
      results.push_back(std::move(refused));
    }
  }
  print(given.format == PlanFormat::json ? json_of_all(results) : table_of_all(results));
  const bool any = std::ranges::any_of(
      results, [](const plan::PlanResult& result) { return result.fits.value_or(true); });
  return static_cast<int>(any ? ExitCode::done : ExitCode::does_not_fit);
}

/// `--check FILE`: a report of run, or a log of vLLM beside the plan of its launch.
int check_file(const PlanOptions& given) {
  const std::string text = read_named_file("--check", given.check);
  if (!plan::is_vllm_log(text)) return check_report(text, given.check);
  if (given.model.empty()) {
    fail(ExitCode::usage,
         "--check {}: a log of vLLM is compared with the plan of its launch: name MODEL, --gpu and "
         "the flags that vLLM was started with",
         given.check);
  }
  PlanOptions options = given;
  options.engine = "vllm";
  if (options.gpu.empty() && !options.gpu_total_memory)
    fail(ExitCode::usage, "--check {}: the log's card is not named: --gpu NAME", given.check);
  return print_log_check(text, planned(options, read_sound_environment()).result);
}

/// What a cache of a fixed size costs where the plan is wrong.
std::string pinned_words(const plan::PlanResult& result) {
  const auto pinned = std::ranges::find(result.arguments, "--kv-cache-memory-bytes",
                                        [](const auto& argument) { return argument.first; });
  if (result.engine != "vllm" || pinned == result.arguments.end() || !result.bounds) return "";
  if (result.fits && !*result.fits) return "";
  const int64_t below = result.bounds->middle.kv_cache_bytes - result.bounds->low.kv_cache_bytes;
  std::string words = "--kv-cache-memory-bytes fixes the KV cache, whatever the boot measures";
  if (below > 0) {
    words += fmt::format(
        ": where the rest takes up to {} more, as it may by the bounds, the card has that much "
        "less to spare and may run out of memory",
        plan::readable_bytes(below));
  }
  if (result.cold && result.cold->cache.kv_cache_bytes < result.kv_cache_bytes) {
    words += fmt::format(
        "; without it the first boot has {} less",
        plan::readable_bytes(result.kv_cache_bytes - result.cold->cache.kv_cache_bytes));
  }
  return words;
}

}  // namespace

CLI::App* add_plan_command(CLI::App& app, PlanOptions& options) {
  CLI::App* command = app.add_subcommand("plan", "the memory of a launch, before the launch");
  add_help_flags(*command);
  declare_plan_flags(*command, options);
  return command;
}

namespace {

/// Refuses flags that have no effect on a plan of the engine.
void check_engine_flags(const PlanOptions& given) {
  const bool is_all = given.engine == "all";
  if (is_all && !given.engine_version.empty())
    fail(ExitCode::usage,
         "--engine-version: of which engine? --vllm-version is vLLM's; name one by --engine");
  const bool is_other = is_all || engines::find_engine(given.engine) != nullptr;
  struct OfEngine {
    const char* flag;
    bool is_given, is_heeded;
  };
  const OfEngine of_engines[] = {
      {"--free-memory", given.free_memory.has_value(), is_other},
      {"--engine-args", !given.engine_fields.is_null(), is_other},
      {"--engine-version", !given.engine_version.empty(), is_other || given.engine == "vllm"}};
  for (const OfEngine& one : of_engines) {
    if (!one.is_given || one.is_heeded) continue;
    fail(ExitCode::usage,
         "{}: has no effect on a plan of {}; leave it out, or say by --engine whose it is",
         one.flag, given.engine == "vllm" ? "vLLM" : "our own engine");
  }
}

}  // namespace

void check_answers(const PlanOptions& given) {
  struct Answer {
    const char* flag;
    bool is_asked;
  };
  const Answer texts[] = {{"--gpu list", given.gpu == "list"},
                          {"--diff", !given.diff.first.empty()},
                          {"--check", !given.check.empty()},
                          {"--explain", !given.explain.empty()}};
  for (const Answer& text : texts) {
    if (!text.is_asked || given.format == PlanFormat::text) continue;
    fail(ExitCode::usage, "{}: prints text alone; leave out --format{}", text.flag,
         given.explain.empty() ? "" : " (--format json of a plan has each part's formula)");
  }
  if (!given.diff.first.empty() && !given.model.empty())
    fail(ExitCode::usage, "--diff: compares two files; leave out MODEL and --from");
  for (const Answer& one : {texts[3], {"--advise", given.advise}}) {
    if (one.is_asked && given.engine == "all")
      fail(ExitCode::usage, "{}: goes with the plan of one engine; name it by --engine", one.flag);
  }
  check_engine_flags(given);
  if (!given.rate.empty() && !given.has_prompts)
    fail(ExitCode::usage,
         "--tokens-per-second: gives the hours of the lines of -i FILE; add -i, or leave it out");
}

plan::PlanResult show_plan(const PlanOptions& given) {
  const Environment environment = read_sound_environment();
  auto [result, options] = planned(given, environment);
  print(rendered(result, options, environment));
  const bool for_shell = options.format == PlanFormat::args || options.format == PlanFormat::serve;
  if (for_shell && !result.reason.empty()) say(result.reason + left_out_text(given));
  if (const std::string words = pinned_words(result); for_shell && !words.empty()) say(words);
  return result;
}

int plan_command(const PlanOptions& given) {
  check_answers(given);
  if (given.gpu == "list") {
    print(gpu_list());
    return static_cast<int>(ExitCode::done);
  }
  if (!given.diff.first.empty()) {
    const std::string before = read_named_file("--diff", given.diff.first);
    print(plan::diff_plans(before, read_named_file("--diff", given.diff.second)));
    return static_cast<int>(ExitCode::done);
  }
  if (!given.check.empty()) return check_file(given);
  check_reorder(given);
  if (given.engine == "all") return plan_all(given);
  try {
    const plan::PlanResult result = show_plan(given);
    const bool fits = result.fits.value_or(true);
    return static_cast<int>(result.refused ? ExitCode::usage
                            : fits         ? ExitCode::done
                                           : ExitCode::does_not_fit);
  } catch (const Error& error) {
    throw Error(error.code(), error.what() + left_out_text(given));
  }
}

}  // namespace plimsoll::cli
