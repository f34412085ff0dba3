// Flags of `plimsoll plan`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/cli11_names.h"
#include "cli/run/options.h"
#include "engines/question.h"
#include "launch/request.h"

namespace plimsoll::cli {

enum class PlanFormat { text, json, html, args, serve, log };

struct PlanOptions {
  std::string model;
  std::string engine = "plimsoll";
  launch::LaunchRequest launch;
  // For an engine other than vLLM and ours: its own flags, fields of its Python config, version.
  std::vector<std::string> engine_words;
  Json engine_fields;
  Json engine_file_fields;                              // of a YAML file that its flags name
  std::map<std::string, std::string> engine_variables;  // of a pasted launch's environment
  std::string engine_version;
  std::string gguf_type;  // mixture of the GGUF file that is planned in place of MODEL; empty: none
  std::optional<engines::FreeMemory> free_memory;
  std::string gpu;              // empty: none; a name, "auto", "list" or "smallest"
  std::optional<int64_t> gpus;  // cards at hand; 0: as few as it takes
  std::optional<int64_t> gpu_total_memory;
  std::vector<int64_t> gpu_totals;  // of each card, as given
  PlanFormat format = PlanFormat::text;
  std::string explain;
  std::pair<std::string, std::string> diff;
  std::string check;             // a report of `run`
  std::filesystem::path folder;  // the model's, where it is one
  bool is_lone_config = false;   // MODEL is a file
  bool advise = false;
  bool on_host = false;              // plans a run on this machine's processor
  std::string reorder;               // the file of -i, its lines ordered by prefixes
  std::string rate;                  // tokens per second, measured: a number or a report of `run`
  std::vector<std::string> ignored;  // flags given that move no memory
  std::vector<std::string> untold;   // flags given that the engine has no words for
  // Results of --from: words that plan does not know, with the nearest known flags; why a release
  // was chosen, where that needs saying; number of GPUs that the process sees.
  std::vector<std::string> left_out;
  std::string release_note;
  std::optional<int64_t> gpus_pasted;
  size_t typed_beside = 0;  // the last so many arguments stood beside another engine's --from
  bool flags_choose_release = false;  // of a pasted launch whose release nothing else says
  /// Flags of `run`: prompts (-i, --part), --max-tokens, --chat-template, ...
  RunOptions run;
  bool has_prompts = false;  // -i was given
};

/// Flags of `plan` alone, without those of a launch.
void declare_plan_alone(CLI::App& command, PlanOptions& options);

/// Declares every flag of `plan` on `command`. `options` must outlive the parsing.
void declare_plan_flags(CLI::App& command, PlanOptions& options);

/// Flags that were given and have no effect on the plan.
std::vector<std::string> ignored_flags(const PlanOptions& options);

/// Reads `--from TEXT` of a plan's arguments into `options`, and returns the others, which have the
/// last word. TEXT, or the file of that name, is a shell line, a compose file, a Kubernetes
/// manifest or a Python call of LLM(...). Throws Error(usage).
std::vector<std::string> expand_pasted_line(std::vector<std::string> arguments,
                                            PlanOptions& options);

/// Sets the flags of --engine NAME apart, where NAME is an engine other than vLLM and ours: its own
/// flags, and ours that it has under another name, become `options.engine_words`. Returns plan's
/// own arguments.
std::vector<std::string> take_engine_words(std::vector<std::string> arguments,
                                           PlanOptions& options);

/// " (left out of what was pasted: ...)", for messages of refusals; empty when nothing was left
/// out.
std::string left_out_text(const PlanOptions& options);

}  // namespace plimsoll::cli
