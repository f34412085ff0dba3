// Flags of `plimsoll run`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "batch/files/run_files.h"
#include "batch/order/order_choice.h"
#include "batch/output_line.h"
#include "batch/progress.h"
#include "batch/prompt_builder.h"
#include "batch/runner.h"
#include "cli/cli11_names.h"
#include "cli/run/part.h"
#include "files/output_file.h"
#include "launch/request.h"

namespace plimsoll::cli {

struct PlanOptions;

struct RunOptions {
  std::string model;
  std::vector<std::string> inputs;  // none: standard input
  std::string output = "-";
  // model
  std::string tokenizer;  // empty: the model's folder
  bool skip_tokenizer_init = false;
  std::string served_model_name;  // empty: `model` as given
  std::string generation_config = "auto";
  std::string load_format = "auto";  // checked by check_load_format()
  /// For benchmarks.
  [[nodiscard]] bool random_weights() const { return load_format == "dummy"; }
  /// The weights' files are shards.
  [[nodiscard]] bool sharded_state() const { return load_format == "sharded_state"; }
  std::string file_pattern;  // of shards; empty: vLLM's
  launch::LaunchRequest launch;
  uint64_t seed = 0;
  // prompts
  OrderedJson sampling = OrderedJson::object();  // request fields for lines that do not state them
  std::string structured_outputs;                // file whose contents are in `sampling`
  std::optional<int64_t> max_tokens;
  int64_t max_logprobs = 20;
  std::optional<std::string> chat_template;
  std::string chat_template_given;  // as on the command line: a file's name, or the text
  OrderedJson chat_template_kwargs = OrderedJson::object();
  std::string tool_call_parser = "auto";  // a name of text::tool_formats(), "auto" or "none"
  std::string reasoning_parser = "none";  // a name of text::reasoning_formats(), "auto" or "none"
  batch::LongPrompt long_prompt = batch::LongPrompt::error;
  int64_t split_overlap = 64;
  int64_t max_image_pixels = batch::kPillowPixels;
  std::string media_path;  // --allowed-local-media-path; empty: no files are read
  // lines
  std::optional<WantedPart> wanted_part;
  /// Index and number, resolved from `wanted_part`.
  std::optional<std::pair<uint64_t, uint64_t>> part;
  uint64_t skip = 0;
  std::optional<uint64_t> limit;
  batch::Order order = batch::Order::automatic;
  size_t max_line_bytes = size_t{16} << 20;
  batch::UnknownFields unknown_fields = batch::UnknownFields::warn;
  std::optional<double> time_limit;   // seconds
  double grace = 5;                   // seconds
  std::optional<double> stall_limit;  // seconds
  batch::Failed retry_failed = batch::Failed::keep;
  // output
  batch::OutputFormat format = batch::OutputFormat::json;
  bool plan_as_json = false;       // --dry-run with --format json: prints the plan as JSON
  std::string errors;              // file of failed lines; empty: they go to the output
  std::string report;              // empty: none
  std::string metrics_file;        // empty: none
  std::optional<int> status_fd;    // descriptor for JSON lines
  std::string publish;             // an output to publish instead of a run
  std::vector<std::string> merge;  // outputs of parts to join instead of a run
  bool dry_run = false;            // check and plan instead of a run
  batch::Fsync fsync = batch::Fsync::interval;
  files::Existing existing = files::Existing::refuse;
  std::string progress = "auto";
  bool quiet = false;
  std::string build;                        // name of this program's build (cli/version.h); no flag
  std::vector<std::string> ignored;         // flags of `plan` that were given
  std::shared_ptr<const PlanOptions> plan;  // values of these flags
};

/// Declares -i, which may be given several times: the files are read one after the other.
CLI::Option* declare_inputs(CLI::App& command, RunOptions& options, const std::string& help);
/// The inputs of a run, at least one: "-" is standard input.
std::vector<std::string> input_paths(const RunOptions& options);

/// Flags of `run` alone, without those of a launch.
void declare_run_alone(CLI::App& command, RunOptions& options);

/// Declares every flag that `run` takes, each of its own also as an environment variable
/// PLIMSOLL_<FLAG>.
/// `options` must outlive the parsing.
void declare_run_flags(CLI::App& command, RunOptions& options);

/// Refuses forms of weights' files that the engine, "plimsoll" or "vllm", does not read, or whose
/// memory is not known. Throws Error(usage).
void check_load_format(const RunOptions& options, std::string_view engine);

/// Checks that need several flags or a file. Throws Error(usage).
void check_run_options(const RunOptions& options);

}  // namespace plimsoll::cli
