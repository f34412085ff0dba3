// Steps of `plan` beside printing: choosing the engine, reading prompts, checking a run's report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/config_view.h"
#include "batch/order/step_limits.h"
#include "batch/prompt_survey.h"
#include "checkpoint/gguf/model.h"
#include "cli/environment.h"
#include "cli/plan/options.h"
#include "engines/engine.h"
#include "hardware/gpu_catalogue.h"
#include "plan/plan_result.h"

namespace plimsoll::cli {

constexpr int64_t kMostGpus = 64;  // that a search tries

/// Lengths of the lines of -i, for a launch with the context, blocks and images of this plan.
using LengthsOf = std::function<batch::InputLengths(const plan::PlanResult&)>;

/// Makes the plan of the chosen engine, with the solver's results and the advice. `lengths_of` is
/// asked where limits of a step hang on lengths; null: there is no input, or the engine is another.
/// Throws Error.
plan::PlanResult make_plan(const ConfigView& config, const PlanOptions& options,
                           const Environment& environment, const std::optional<hardware::Gpu>& gpu,
                           const LengthsOf& lengths_of);

/// Makes the plan of an engine other than vLLM and ours.
plan::PlanResult make_engine_plan(const ConfigView& config, const PlanOptions& options,
                                  const Environment& environment,
                                  const std::optional<hardware::Gpu>& gpu);

/// Makes llama.cpp's plan of a GGUF file.
plan::PlanResult make_gguf_plan(const checkpoint::gguf::Model& model, const PlanOptions& options);

/// The plan of llama.cpp for the GGUF file that --gguf-type names. `file` is config.json.
plan::PlanResult make_converted_plan(const Json& config, const std::filesystem::path& file,
                                     const PlanOptions& options);

/// The card that --gpu and --gpu-total-memory name; nullopt: none. Throws Error(usage).
std::optional<hardware::Gpu> choose_gpu(const PlanOptions& options);

/// Refuses a search for the number of cards (--gpus auto) of which none is named. Throws
/// Error(usage).
void check_searched_card(const hardware::Gpu* gpu);

/// Says that a launch does not fit where it needs more cards than --gpus, or what was pasted, has;
/// `ranks` says what needs them.
void count_cards(plan::PlanResult& result, const PlanOptions& options, const std::string& ranks);
/// Adds what --from has to say.
void add_pasted_notes(plan::PlanResult& result, const PlanOptions& options);

/// Adds to result.arguments the launch's flags that were given and have an effect, unless the plan
/// resolves them.
void add_given(plan::PlanResult& result, const PlanOptions& options);
/// Notes the flags given that vLLM's release does not take.
void note_flags(plan::PlanResult& result, const PlanOptions& options);

/// A launch's options for each engine, with our flags under its names.
std::vector<PlanOptions> options_of_all(const PlanOptions& options);
/// How the note begins that names our flags which an engine has no words for.
inline constexpr std::string_view kWithout = "planned without ";
/// Plans of one launch by several engines, as a table and as JSON.
std::string table_of_all(const std::vector<plan::PlanResult>& results);
std::string json_of_all(const std::vector<plan::PlanResult>& results);

/// The line that launches another engine, to paste.
std::string engine_line(const engines::Engine& engine, const plan::PlanResult& result,
                        const PlanOptions& options);

/// The lines of `-i`, read, rendered and tokenized as `run` would. The input is opened once, when
/// something is first asked of it, and so is what reads it.
class Prompts {
 public:
  /// `folder`: the model's. The arguments must outlive this.
  Prompts(const PlanOptions& options, const ConfigView& config, std::filesystem::path folder);
  ~Prompts();
  Prompts(const Prompts&) = delete;
  Prompts& operator=(const Prompts&) = delete;

  /// Lengths of the lines in a launch of this plan. Throws as add_to.
  batch::InputLengths lengths(const plan::PlanResult& result);
  /// Adds the figures of the lines. Throws Error(input_unusable, checkpoint_unusable, usage).
  void add_to(plan::PlanResult& result);

 private:
  struct Reading;
  Reading& reading();
  batch::SurveyOptions survey_for(const plan::PlanResult& result);
  batch::Slice slice();

  const PlanOptions& options_;
  const ConfigView& config_;
  std::filesystem::path folder_;
  std::unique_ptr<Reading> reading_;
};

/// The text of a file, a pipe or standard input ("-") that a flag names. Throws
/// Error(checkpoint_unusable) naming both.
std::string read_named_file(std::string_view flag, const std::string& file);

/// Prints planned against measured memory of a run's report, the text of `file`. Returns
/// does_not_fit when the measured peak exceeded the plan.
int check_report(const std::string& text, const std::string& file);

/// Prints what a log of vLLM says beside the plan of its launch; 6 where it lies outside the
/// bounds.
int print_log_check(const std::string& text, const plan::PlanResult& planned);

}  // namespace plimsoll::cli
