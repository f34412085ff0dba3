#include "cli/run/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/units.h"
#include "batch/fields/structured_fields.h"
#include "cli/borrowed_flags.h"
#include "cli/launch_flags.h"
#include "cli/plan/options.h"
#include "cli/value_flag.h"
#include "launch/arguments.h"
#include "text/answer/reasoning.h"
#include "text/answer/tool_format.h"

namespace plimsoll::cli {

CLI::Option* declare_inputs(CLI::App& command, RunOptions& options, const std::string& help) {
  return command.add_option("-i,--input-file", options.inputs, help)
      ->type_name("FILE")
      ->allow_extra_args(false);
}

std::vector<std::string> input_paths(const RunOptions& options) {
  if (std::ranges::count(options.inputs, "-") > 1)
    fail(ExitCode::usage, "-i -: is given twice; standard input is read once");
  return options.inputs.empty() ? std::vector<std::string>{"-"} : options.inputs;
}

namespace {

void declare_files(CLI::App& command, RunOptions& options) {
  command
      .add_option(
          "-m,--model,MODEL", options.model,
          "folder with config.json and *.safetensors, a GGUF file, or a hub id in the local cache")
      ->type_name("DIR|ID")
      ->take_last();
  declare_inputs(command, options, "JSONL with prompts; - is standard input (default)");
  text_flag(command, "-o,--output-file", options.output, "FILE",
            "JSONL with answers, there when whole; - is standard output (default)");
  command.add_flag_callback(
      "--overwrite", [&options] { options.existing = files::Existing::replace; },
      "start anew: replace an output, or the rest of an unfinished run");
  command.add_flag_callback(
      "--retry-failed", [&options] { options.retry_failed = batch::Failed::retry; },
      "go on with an earlier run's failed lines too");
  text_flag(command, "--publish", options.publish, "FILE",
            "no run: what an unfinished run has left in FILE.part becomes FILE");
  command
      .add_option("--merge", options.merge,
                  "no run: outputs of all parts of one run are joined to the output")
      ->type_name("FILE ...")
      ->expected(1, 1 << 20);
  command.add_flag("--dry-run", options.dry_run,
                   "no run: what is wrong with the input, what it needs of memory and time");
  choice_flag(command, "--fsync", options.fsync,
              {{"each", batch::Fsync::each},
               {"interval", batch::Fsync::interval},
               {"end", batch::Fsync::end}},
              "when lines go to the disk for good: one by one, every second or MiB (default), or "
              "at the end");
  text_flag(command, "--errors", options.errors, "FILE",
            "failed lines go here instead of the output");
  text_flag(command, "--report", options.report, "FILE", "figures of the run as JSON");
  text_flag(command, "--metrics-file", options.metrics_file, "FILE",
            "figures for Prometheus while it runs, in its text form");
  value_flag(command, "--status-fd", "N", "JSON lines of status to this descriptor, one a second",
             [&options](const std::string& text) {
               options.status_fd = static_cast<int>(std::min<int64_t>(parse_count(text), 1 << 20));
             });
  value_flag(
      command, "--format", "json|ids", "whole answers, or {\"id\",\"token_ids\"} alone",
      [&options](const std::string& text) {
        if (text == "text" || text == "html" || text == "args" || text == "serve") {  // plan's
          options.ignored.emplace_back("--format " + text);
        } else if (text == "json" || text == "ids") {
          options.plan_as_json = text == "json";
          options.format = text == "ids" ? batch::OutputFormat::ids : batch::OutputFormat::json;
        } else {
          throw std::invalid_argument(fmt::format("expected one of json|ids, found \"{}\"", text));
        }
      });
}

void declare_lines(CLI::App& command, RunOptions& options) {
  value_flag(command, "--part", "i/n|auto|auto/n",
             "only part i (from 0) of n equal slices of the input; auto: as Slurm, Kubernetes, MPI "
             "or torchrun say",
             [&options](const std::string& text) { options.wanted_part = parse_part(text); });
  count_flag(command, "--skip", options.skip, {.least = 0},
             "leave out the first N lines (of the part)");
  count_flag(command, "--limit", options.limit, {.least = 0}, "at most N lines");
  choice_flag(command, "--order", options.order,
              {{"auto", batch::Order::automatic},
               {"file", batch::Order::file},
               {"prefix", batch::Order::prefix}},
              "in which lines run; prefix: those that begin alike together; auto (default): where "
              "that pays");
  value_flag(
      command, "--max-line-bytes", "SIZE", "longest input line (default 16MiB)",
      [&options](const std::string& text) { options.max_line_bytes = parse_size(text, 1, 1); });
  command.add_flag_callback(
      "--strict", [&options] { options.unknown_fields = batch::UnknownFields::refuse; },
      "unknown fields fail their line; duplicate ids end the run before it starts");
  value_flag(command, "--time-limit", "TIME", "stop in good order after this time, such as 3h55m",
             [&options](const std::string& text) { options.time_limit = parse_duration(text); });
  value_flag(command, "--grace", "TIME",
             "what runs may end for so long after a signal or the limit (default 5s)",
             [&options](const std::string& text) { options.grace = parse_duration(text); });
  value_flag(command, "--stall-limit", "TIME",
             "end with status 10 when a step takes longer (default: never)",
             [&options](const std::string& text) { options.stall_limit = parse_duration(text); });
}

OrderedJson read_object(const std::string& text) {
  OrderedJson json = parse_json<OrderedJson>(text, kOrderedLimits);
  if (!json.is_object()) throw std::invalid_argument("expected a JSON object");
  return json;
}

// vLLM's extra settings of the sharded_state loader.
std::string read_pattern(const std::string& text) {
  const OrderedJson json = read_object(text);
  for (const auto& [key, value] : json.items()) {
    if (key != "pattern" || !value.is_string()) {
      throw std::invalid_argument(
          fmt::format("expected {{\"pattern\": \"...\"}}, found \"{}\"", key));
    }
  }
  return json.value("pattern", std::string());
}

void declare_model(CLI::App& command, RunOptions& options) {
  value_flag(
      command, "--load-format", "auto|safetensors|sharded_state|dummy",
      "form of the weights' files; sharded_state: those of `plimsoll shard` or vLLM's saver; "
      "dummy: random weights, no files",
      [&options](const std::string& text) { options.load_format = text; });
  value_flag(command, "--model-loader-extra-config", "JSON",
             "{\"pattern\": \"...\"}: names of shards with {rank}, {part}, {pp_rank}",
             [&options](const std::string& text) { options.file_pattern = read_pattern(text); });
  value_flag(command, "--file-pattern", "PATTERN", "the same, the pattern alone",
             [&options](const std::string& text) { options.file_pattern = text; });
  text_flag(command, "--tokenizer", options.tokenizer, "DIR",
            "folder of the tokenizer (default MODEL)");
  command.add_flag("--skip-tokenizer-init", options.skip_tokenizer_init,
                   "token ids in, token ids out");
  text_flag(command, "--generation-config", options.generation_config, "auto|vllm|DIR",
            "sampling defaults: MODEL's (auto), none (vllm), or those of a folder");
  text_flag(command, "--served-model-name", options.served_model_name, "NAME",
            "name shown in answers (default MODEL as given)");
}

// Request fields as flags: the field's name with "-" for "_"; checked by the field table.
void field_flag(CLI::App& command, RunOptions& options, const std::string& field,
                const std::string& help) {
  std::string name = field.size() == 1 ? "-" + field : "--" + field;
  std::ranges::replace(name, '_', '-');
  value_flag(command, name, "N", help, [&options, field](const std::string& text) {
    try {
      options.sampling[field] = parse_json<OrderedJson>(text);
    } catch (const JsonError&) {
      throw std::invalid_argument(fmt::format("expected a number, found \"{}\"", text));
    }
  });
}

/// A file, or JSON itself, as the value of the field structured_outputs; a schema goes under
/// "json".
OrderedJson read_structured_outputs(const std::string& given) {
  const bool is_json = given.substr(0, given.find_first_not_of(" \t\r\n") + 1).ends_with('{');
  std::error_code ignored;
  if (!is_json && !std::filesystem::is_regular_file(given, ignored)) {
    throw std::invalid_argument(fmt::format("no such file, and no JSON object: \"{}\"", given));
  }
  try {
    JsonLimits limits = kOrderedLimits;
    limits.number_texts = true;
    OrderedJson json =
        parse_json<OrderedJson>(is_json ? given : read_text_file(given, 16 << 20), limits);
    if (!batch::is_structured_outputs(json)) json = {{"json", std::move(json)}};
    const auto schema = json.find("json");
    if (schema != json.end() && schema->is_structured()) {
      // A schema with numbers that doubles may not hold stands as a string.
      if (std::string exact = exact_text_of(*schema); exact != schema->dump()) *schema = exact;
    }
    return json;
  } catch (const JsonError& error) {
    throw std::invalid_argument(
        fmt::format("line {}, column {}: {}", error.line, error.column, error.what()));
  }
}

void declare_sampling(CLI::App& command, RunOptions& options) {
  value_flag(command, "--structured-outputs", "FILE",
             "form of every answer, a file or the text itself: a JSON schema, or a value of the "
             "field; text that it forces takes fewer steps (CPU)",
             [&options](const std::string& text) {
               options.sampling["structured_outputs"] = read_structured_outputs(text);
               options.structured_outputs = text;
             });
  count_flag(command, "--seed", options.seed, {.least = 0},
             "of the run's random numbers (default 0)");
  count_flag(command, "--max-tokens", options.max_tokens, {}, "most tokens of any answer");
  field_flag(command, options, "min_tokens", "no end before so many tokens");
  field_flag(command, options, "temperature", "0 is greedy");
  field_flag(command, options, "top_p", "above 0, up to 1");
  field_flag(command, options, "top_k", "0 or -1 for all");
  field_flag(command, options, "min_p", "0 to 1");
  field_flag(command, options, "repetition_penalty", "0.000001 to 1000000; 1 for none");
  field_flag(command, options, "presence_penalty", "-2 to 2");
  field_flag(command, options, "frequency_penalty", "-2 to 2");
  field_flag(command, options, "n", "choices of a line");
  field_flag(command, options, "logprobs", "so many best tokens beside each");
  command
      .add_option_function<std::vector<std::string>>(
          "--stop",
          [&options](const std::vector<std::string>& stops) { options.sampling["stop"] = stops; },
          "text that ends an answer; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command.add_flag_callback(
      "--ignore-eos", [&options] { options.sampling["ignore_eos"] = true; },
      "go on after the end-of-sequence token");
  value_flag(command, "--max-logprobs", "N", "most logprobs a line may ask; -1: all (default 20)",
             [&options](const std::string& text) {
               options.max_logprobs = text == "-1" ? -1 : parse_count(text);
             });
}

/// A flag that names a row of a table of formats.
template <typename Format>
void parser_flag(CLI::App& command, const std::string& name, std::string& value,
                 std::span<const Format> formats, const std::string& help) {
  value_flag(command, name, "NAME|auto|none", help, [&value, formats](const std::string& text) {
    std::vector<std::string_view> names = {"auto", "none"};
    for (const Format& format : formats) {
      for (const std::string_view known : format.names) {
        if (!known.empty()) names.push_back(known);
      }
    }
    if (std::ranges::find(names, text) == names.end()) {
      throw std::invalid_argument(fmt::format("expected one of {}; found \"{}\"{}",
                                              fmt::join(names, ", "), text,
                                              did_you_mean(nearest_name(text, names))));
    }
    value = text;
  });
}

void declare_prompts(CLI::App& command, RunOptions& options) {
  value_flag(command, "--chat-template", "FILE", "chat template, a file or the text itself",
             [&options](const std::string& text) {
               options.chat_template = read_template(text);
               options.chat_template_given = text;
             });
  value_flag(
      command, "--chat-template-kwargs", "JSON", "variables for the chat template",
      [&options](const std::string& text) { options.chat_template_kwargs = read_object(text); });
  parser_flag(command, "--tool-call-parser", options.tool_call_parser, text::tool_formats(),
              "how the model calls tools, by vLLM's names; auto (default): as its chat template");
  parser_flag(
      command, "--reasoning-parser", options.reasoning_parser, text::reasoning_formats(),
      "how the model marks reasoning, by vLLM's names; none (default) leaves it in answers");
  choice_flag(command, "--long-prompt", options.long_prompt,
              {{"error", batch::LongPrompt::error},
               {"truncate-left", batch::LongPrompt::truncate_left},
               {"truncate-right", batch::LongPrompt::truncate_right},
               {"split", batch::LongPrompt::split}},
              "what becomes of a prompt longer than the context (default error)");
  text_flag(command, "--allowed-local-media-path", options.media_path, "DIR",
            "folder below which lines may name images as file: (default: nowhere)");
  count_flag(command, "--max-image-pixels", options.max_image_pixels, {},
             "largest image that is decoded (default 178956970, as Pillow)");
  count_flag(command, "--split-overlap", options.split_overlap, {.least = 0},
             "tokens that neighbouring chunks share (default 64; at most half a chunk)");
}

void declare_talk(CLI::App& command, RunOptions& options) {
  choice_flag(command, "--progress", options.progress,
              {{"auto", std::string("auto")}, {"bar", "bar"}, {"lines", "lines"}, {"none", "none"}},
              "on standard error (default auto)");
  command.add_flag("-q,--quiet", options.quiet,
                   "no progress, notes or summary; -q METHOD is --quantization METHOD");
}

void name_environment_variables(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty() || option->get_group().empty()) continue;
    std::string variable = "PLIMSOLL_" + option->get_lnames().front();
    std::ranges::transform(variable, variable.begin(), [](char c) {
      return c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    });
    option->envname(variable);
  }
}

}  // namespace

void declare_run_alone(CLI::App& command, RunOptions& options) {
  const std::pair<const char*, void (*)(CLI::App&, RunOptions&)> groups[] = {
      {"Files", declare_files},      {"Lines", declare_lines},     {"Model", declare_model},
      {"Answers", declare_sampling}, {"Prompts", declare_prompts}, {"Talk", declare_talk},
  };
  for (const auto& [name, declare] : groups) {
    command.option_defaults()->group(name);
    declare(command, options);
  }
}

void declare_run_flags(CLI::App& command, RunOptions& options) {
  declare_run_alone(command, options);
  declare_launch_flags(command, options.launch);
  name_environment_variables(command);
  // Flags that only plan needs are noted; flags for other actions of plan stay unknown.
  const auto plan = std::make_shared<PlanOptions>();
  const auto flags = std::make_shared<CLI::App>();
  declare_plan_alone(*flags, *plan);
  borrow_flags(command, {flags, plan}, {"--from", "--diff", "--check", "--reorder"},
               options.ignored);
  options.plan = plan;
}

void check_load_format(const RunOptions& options, std::string_view engine) {
  const std::string& given = options.load_format;
  // vllm/model_executor/model_loader; ipc_cache holds weights in another process.
  constexpr std::string_view kOfVllm[] = {"auto",
                                          "bitsandbytes",
                                          "dummy",
                                          "fastsafetensors",
                                          "gguf",
                                          "hf",
                                          "instanttensor",
                                          "mistral",
                                          "modelexpress",
                                          "npcache",
                                          "pt",
                                          "runai_streamer",
                                          "runai_streamer_sharded",
                                          "safetensors",
                                          "sharded_state",
                                          "tensorizer"};
  constexpr std::string_view kOwn[] = {"auto", "safetensors", "sharded_state", "dummy"};
  if (engine == "vllm" && std::ranges::find(kOfVllm, given) == std::end(kOfVllm)) {
    fail(ExitCode::usage,
         "--load-format {}: is no form of vLLM's that plan knows{}; leave the flag out where a "
         "plugin loads the weights",
         given, did_you_mean(nearest_name(given, kOfVllm)));
  }
  if (engine == "plimsoll" && std::ranges::find(kOwn, given) == std::end(kOwn)) {
    fail(ExitCode::usage,
         "--load-format: expected auto, safetensors, sharded_state or dummy, found \"{}\"; plan "
         "--engine vllm takes vLLM's others too",
         given);
  }
}

void check_run_options(const RunOptions& options) {
  const auto refuse = [](const std::string& message) { throw Error(ExitCode::usage, message); };
  if (options.model.empty()) {
    refuse("run needs a MODEL: a folder, or a hub id in the local cache; plimsoll run -h");
  }
  launch::check_values(options.launch.args);
  if (!options.file_pattern.empty() && !options.sharded_state()) {
    refuse("--file-pattern: names shards; give --load-format sharded_state too");
  }
  if (options.wanted_part && options.inputs.empty()) refuse("--part: needs a file (-i FILE)");
  if (!options.errors.empty() && options.errors == options.output) {
    refuse("--errors: names the output; leave it out to have failed lines there");
  }
  const std::string& generation = options.generation_config;
  if (generation != "auto" && generation != "vllm" &&
      !files::exists(generation + "/generation_config.json")) {
    refuse(
        fmt::format("--generation-config {}: is neither auto, vllm, nor a folder with "
                    "generation_config.json",
                    generation));
  }
  if (options.skip_tokenizer_init && (options.chat_template || !options.tokenizer.empty())) {
    refuse("--skip-tokenizer-init: excludes --tokenizer and --chat-template");
  }
  if (options.skip_tokenizer_init && options.sampling.contains("structured_outputs")) {
    refuse("--skip-tokenizer-init: excludes --structured-outputs, which is of text");
  }
  if (options.skip_tokenizer_init && options.sampling.contains("stop")) {
    refuse("--skip-tokenizer-init: excludes --stop, which is text");
  }
}

}  // namespace plimsoll::cli
