#include "cli/plan/options.h"

#include <algorithm>
#include <CLI/CLI.hpp>
#include <stdexcept>

#include "base/units.h"
#include "cli/borrowed_flags.h"
#include "cli/launch_flags.h"
#include "cli/value_flag.h"

namespace plimsoll::cli {
namespace {

void declare_answer(CLI::App& command, PlanOptions& o) {
  choice_flag(command, "--engine", o.engine,
              {{"plimsoll", std::string("plimsoll")}, {"vllm", "vllm"}},
              "whose launch (default plimsoll)");
  value_flag(command, "--vllm-version", "X.Y[.Z]", "vLLM's version (default 0.33.0)",
             [&o](const std::string& text) {
               o.engine = "vllm";
               o.launch.args.version = vllm::parse_version(text);
               o.launch.args.development_build = model::is_development_build(text) ? text : "";
             });
  text_flag(command, "--gpu", o.gpu, "NAME|auto|smallest|list",
            "card by a loose name; list prints them");
  value_flag(command, "--gpus", "N|auto", "cards at hand; auto: as few as it takes",
             [&o](const std::string& text) {
               o.gpus = text == "auto" ? 0 : parse_count(text);
               if (text != "auto" && *o.gpus < 1)
                 throw std::invalid_argument("expected at least 1, or auto");
             });
  size_flag(command, "--gpu-total-memory", o.gpu_total_memory,
            "the card's total as nvidia-smi shows it");
  choice_flag(
      command, "--format", o.format,
      {{"text", PlanFormat::text},
       {"json", PlanFormat::json},
       {"html", PlanFormat::html},
       {"args", PlanFormat::args},
       {"serve", PlanFormat::serve},
       {"ids", PlanFormat::text}},  // run's
      "what to print (default text); args: the launch's flags, to paste; serve: the whole line");
  size_flag(command, "--available-kv-memory", o.launch.args.available_kv,
            "stands in for the KV budget left after weights");
  text_flag(command, "--explain", o.explain, "PART", "the formula of a part with its numbers");
  command.add_flag("--advise", o.advise, "what would save memory, also when it fits");
  text_flag(command, "--tokens-per-second,--rate", o.rate, "N|REPORT",
            "measured, by hand or in a report of run: gives hours for -i");
  text_flag(command, "--check", o.check, "FILE", "a report of run: was the plan exceeded?");
  command.add_option("--diff", o.diff, "what two plans, printed with --format json, differ in")
      ->type_name("FILE FILE");
}

/// Flags of vLLM's server, which people paste.
void declare_unmoved(CLI::App& command, PlanOptions& o) {
  const auto note = [&o](const std::string& name) {
    return [&o, name](const std::string&) { o.ignored.push_back(name); };
  };
  for (const char* name : {"--host", "--port", "--api-key", "--tool-call-parser",
                           "--reasoning-parser", "--swap-space"}) {
    value_flag(command, name, "X", "moves no device memory", note(name));
  }
  for (const char* name : {"--trust-remote-code", "--disable-log-requests", "--disable-log-stats",
                           "--enable-auto-tool-choice"}) {
    command.add_flag_callback(
        name, [&o, name] { o.ignored.emplace_back(name); }, "moves no device memory");
  }
}

/// Flags of run that decide which prompts plan makes of the lines of -i.
constexpr const char* kAboutPrompts[] = {"--tokenizer",
                                         "--chat-template",
                                         "--chat-template-kwargs",
                                         "--max-tokens",
                                         "--part",
                                         "--skip",
                                         "--limit",
                                         "--max-line-bytes",
                                         "--strict",
                                         "--long-prompt",
                                         "--split-overlap",
                                         "--allowed-local-media-path",
                                         "--max-image-pixels",
                                         "--min-tokens",
                                         "-n",
                                         "--logprobs",
                                         "--generation-config"};

}  // namespace

void declare_plan_alone(CLI::App& command, PlanOptions& options) {
  command.option_defaults()->group("Subject and answer");
  declare_answer(command, options);
  command.option_defaults()->group("Accepted, but moves no device memory");
  declare_unmoved(command, options);
}

void declare_plan_flags(CLI::App& command, PlanOptions& options) {
  command.option_defaults()->group("Subject and answer");
  command
      .add_option("-m,--model,MODEL", options.model,
                  "folder with config.json, a config.json, or a hub id in the cache")
      ->type_name("DIR|FILE|ID")
      ->take_last();
  declare_inputs(command, options.run, "prompts: lengths, faults, need for cache")
      ->each([&options](const std::string&) { options.has_prompts = true; });
  declare_plan_alone(command, options);
  declare_launch_flags(command, options.launch);
  const auto flags = std::make_shared<CLI::App>();
  declare_run_alone(*flags, options.run);
  borrow_flags(command, {flags, nullptr}, {}, options.ignored);
}

std::vector<std::string> ignored_flags(const PlanOptions& options) {
  std::vector<std::string> names = options.ignored;
  if (!options.has_prompts) return names;
  std::erase_if(names, [](const std::string& name) {
    return std::ranges::find(kAboutPrompts, name) != std::end(kAboutPrompts);
  });
  return names;
}

}  // namespace plimsoll::cli
