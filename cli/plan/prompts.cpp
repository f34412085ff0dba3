// Survey of a prompt file for `plan -i`: the cache that its lines need, read and rendered as `run`
// would.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/amount.h"
#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "batch/input_scan.h"
#include "batch/progress.h"
#include "batch/prompt_survey.h"
#include "cli/environment.h"
#include "cli/host_limits.h"
#include "cli/own_arguments.h"
#include "cli/plan/parts.h"
#include "cli/plan/reorder.h"
#include "cli/run/launch.h"
#include "cli/run/limits.h"
#include "cli/run/order.h"
#include "cli/run/prompt_setup.h"
#include "cli/run/scan.h"
#include "engine/schedule_shape.h"
#include "plan/plimsoll/image_room.h"
#include "plan/prompt_load.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kToldFields = 16;  // without effect, each once

int64_t vocabulary(const ConfigView& config) {
  const Json& json = config.json();
  for (const Json* holder : {&json, json.contains("text_config") ? &json["text_config"] : &json}) {
    const auto at = holder->is_object() ? holder->find("vocab_size") : holder->end();
    if (holder->is_object() && at != holder->end() && at->is_number_integer()) {
      return std::max<int64_t>(1, at->get<int64_t>());
    }
  }
  return std::numeric_limits<int32_t>::max();
}

/// Tokens per second, in and out together: a number, or what a report of `run` measured.
double tokens_per_second(const std::string& text) {
  double rate = 0;
  try {
    rate = static_cast<double>(parse_count(text));
  } catch (const std::invalid_argument&) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
    if (error != std::errc() || end != text.data() + text.size()) rate = 0;
  }
  if (rate == 0 && text.find_first_not_of("0.") != std::string::npos) {
    constexpr std::string_view kFlag = "--tokens-per-second";
    const Json report =
        parse_file_text(fmt::format("{} {}", kFlag, text), read_named_file(kFlag, text));
    const auto number = [&](const char* group, const char* key) {
      const auto at = report.is_object() ? report.find(group) : report.end();
      if (!report.is_object() || at == report.end() || !at->is_object()) return 0.0;
      const auto value = at->find(key);
      return value != at->end() && value->is_number() ? value->get<double>() : 0.0;
    };
    const double seconds = number("seconds", "run");
    if (seconds > 0) rate = (number("tokens", "prompt") + number("tokens", "completion")) / seconds;
  }
  if (rate > 0 && rate <= std::numeric_limits<double>::max()) return rate;
  fail(ExitCode::usage,
       "--tokens-per-second {}: expected a number above 0, or a report of run that measured one",
       text);
}

void fill_lengths(plan::PromptFigures& figures, const batch::PromptSurvey& survey) {
  std::vector<int64_t> lengths;
  lengths.reserve(survey.sequences.size());
  Amount answers = 0;
  for (const batch::SurveyedSequence& sequence : survey.sequences) {
    lengths.push_back(sequence.prompt);
    answers += sequence.answer;
  }
  figures.answer_tokens = answers.value();
  figures.sequences = std::ssize(lengths);
  if (lengths.empty()) return;
  std::ranges::sort(lengths);
  const auto at = [&](size_t tenths) { return lengths[(lengths.size() - 1) * tenths / 10]; };
  figures.shortest = lengths.front();
  figures.median = at(5);
  figures.ninth_decile = at(9);
  figures.longest = lengths.back();
}

plan::PromptFigures figures_of(const batch::PromptSurvey& survey) {
  plan::PromptFigures figures;
  figures.lines = survey.lines;
  figures.chats = survey.chats;
  figures.bad_lines = survey.bad_lines;
  figures.first_bad_line = static_cast<int64_t>(survey.first_bad_line);
  figures.first_bad_reason = survey.first_bad_reason;
  figures.duplicate_ids = survey.duplicate_ids;
  figures.cut_lines = survey.cut_lines;
  figures.dropped_tokens = survey.dropped_tokens;
  figures.split_lines = survey.split_lines;
  figures.over_context = survey.over_context;
  figures.first_over_context = static_cast<int64_t>(survey.first_over_context);
  figures.longest_over_context = survey.longest_over_context;
  figures.open_ended = survey.open_ended;
  figures.prompt_tokens = survey.prompt_tokens;
  figures.shared_tokens = survey.shared_tokens;
  figures.sharing_cut_off = survey.sharing_cut_off;
  fill_lengths(figures, survey);
  return figures;
}

void weigh(plan::PlanResult& result, plan::PromptFigures& figures,
           const batch::PromptSurvey& survey) {
  std::vector<plan::SequenceLength> sequences;
  sequences.reserve(survey.sequences.size());
  for (const batch::SurveyedSequence& s : survey.sequences)
    sequences.push_back({s.prompt, s.answer});
  const plan::PromptLoad load = plan::weigh_sequences(result, sequences);
  figures.peak_blocks = load.peak_blocks;
  figures.peak_bytes = (Amount{load.peak_blocks} * result.bytes_per_block).value();
  figures.longest_bytes = (Amount{load.longest_blocks} * result.bytes_per_block).value();
  figures.concurrency = load.concurrency;
}

/// The loader with which `run` would process the lines' images; null where it could not launch
/// the model.
std::shared_ptr<batch::ImageLoader> image_loader(const PlanOptions& options,
                                                 const ConfigView& config, const fs::path& folder,
                                                 const Environment& environment) {
  model::ModelSpec spec;
  try {
    spec = model::make_model_spec(config.json());
  } catch (const Error&) {
    return nullptr;
  }
  launch::Arguments arguments = own_arguments(options.launch, environment);
  arguments.folder = folder;
  // Ranks and cards have no effect on the length of prompts.
  arguments.args.tensor_parallel = arguments.args.pipeline_parallel = 1;
  return std::make_shared<batch::ImageLoader>(
      image_rules(options.run, spec, arguments, backend::cpu_footprint()));
}

plan::ScheduleFigures schedule_figures(const batch::ScheduleForecast& forecast) {
  return {static_cast<int64_t>(forecast.cached_tokens), static_cast<int64_t>(forecast.steps),
          forecast.kv_blocks_peak};
}

/// The order that `run` would choose for this input.
plan::OrderFigures order_figures(const RunOptions& run, const files::InputFile& input,
                                 const batch::PrefixIndex& index,
                                 std::optional<uint64_t> shared_tokens,
                                 const engine::ScheduleShape& schedule) {
  const batch::OrderChoice choice =
      batch::choose_order(run.order, index, schedule, shared_tokens).choice;
  std::string bound = bound_by_input(input);
  if (bound.empty() && run.dry_run) bound = bound_by_outputs(run);
  if (bound.empty() && run.order == batch::Order::automatic) {
    bound = not_worth_a_look(input, schedule.cache.prefix_caching, index.lines());
  }
  return {std::string(batch::order_name(run.order)),
          std::string(batch::order_name(bound.empty() ? choice.used : batch::Order::file)),
          bound.empty() ? choice.reason : bound, schedule_figures(*choice.in_file_order),
          schedule_figures(*choice.in_prefix_order)};
}

/// What vLLM's scheduler makes of the input: it shares whole blocks, also with requests of the same
/// step, and computes each prompt's last token (vllm/v1/core/sched/scheduler.py). Absent where it
/// is not forecast, where lines share too little for any order to matter, and where our scheduler,
/// which needs more blocks before a window than vLLM's, could not hold the longest request.
std::optional<plan::OrderFigures> vllm_figures(const plan::PlanResult& result,
                                               const files::InputFile& input,
                                               const batch::PrefixIndex& index,
                                               std::optional<uint64_t> shared_tokens) {
  engine::KvLayout kv;
  kv.block_size = result.block_size;
  for (const int64_t window : result.shared_windows) kv.groups.push_back({window, {}});
  const int64_t blocks = result.num_gpu_blocks - 1;  // one is held back from requests
  const int64_t tokens = result.max_num_batched_tokens;
  if (!not_worth_a_look(input, true, index.lines()).empty()) return std::nullopt;
  if (engine::blocks_of_sequence(kv, result.launched_model_len(), tokens) > blocks) {
    return std::nullopt;
  }
  engine::ScheduleShape schedule;
  schedule.cache = engine::cache_options(kv, blocks, true, 0);
  schedule.limits = {.sequences = result.max_num_seqs, .tokens = tokens};
  const batch::OrderChoice choice = batch::choose_order(batch::Order::automatic, index, schedule,
                                                        shared_tokens, batch::Forecasts::deciding)
                                        .choice;
  if (!choice.in_file_order) return std::nullopt;
  const char* cure = choice.used == batch::Order::prefix
                         ? "; vLLM takes lines as they come, --reorder FILE writes them by prefixes"
                         : "";
  return plan::OrderFigures{"file", "file", choice.reason + cure,
                            schedule_figures(*choice.in_file_order),
                            schedule_figures(*choice.in_prefix_order)};
}

}  // namespace

struct Prompts::Reading {
  Environment environment;
  PromptSetup setup;
  files::InputFile input;
  std::optional<batch::Slice> slice;  // of the lines that the run would answer, once they are known
};

Prompts::Prompts(const PlanOptions& options, const ConfigView& config, fs::path folder)
    : options_(options), config_(config), folder_(std::move(folder)) {}

Prompts::~Prompts() = default;

Prompts::Reading& Prompts::reading() {
  if (reading_) return *reading_;
  const RunOptions& run = options_.run;
  const Environment environment = read_environment();
  reading_ = std::make_unique<Reading>(
      Reading{.environment = environment,
              .setup = read_prompt_setup(run, environment, folder_, config_.json()),
              .input = files::InputFile::open(input_paths(run)),
              .slice = std::nullopt});
  // Grammars are compiled for the tokenizer at its place.
  make_grammars(reading_->setup, vocabulary(config_),
                host_threads(run.launch.threads, environment));
  return *reading_;
}

batch::SurveyOptions Prompts::survey_for(const plan::PlanResult& result) {
  Reading& read = reading();
  const int64_t context =
      result.auto_max_model_len > 0 ? result.auto_max_model_len : result.max_model_len;
  batch::SurveyOptions survey =
      survey_options(options_.run, read.setup, context, vocabulary(config_),
                     image_loader(options_, config_, folder_, read.environment));
  survey.block_size = result.block_size;
  if (result.image_room) {
    survey.image_fault = [room = result.image_room](const engine::Images& images) {
      return room->find_fault(images);
    };
  }
  return survey;
}

batch::Slice Prompts::slice() {
  Reading& read = reading();
  if (!read.slice) {
    RunOptions quiet = options_.run;  // the survey reports bad lines
    quiet.quiet = true;
    if (quiet.wanted_part)
      quiet.part = resolve_part(*quiet.wanted_part, read.environment.job_place);
    read.slice = scan(quiet, read.input).slice;
  }
  return *read.slice;
}

batch::InputLengths Prompts::lengths(const plan::PlanResult& result) {
  batch::SurveyOptions survey = survey_for(result);
  if (reading().input.is_regular()) survey.slice = slice();
  return survey_lengths(options_.launch, reading().input, std::move(survey));
}

void Prompts::add_to(plan::PlanResult& result) {
  const PlanOptions& options = options_;
  const RunOptions& run = options.run;
  batch::SurveyOptions survey_options = survey_for(result);
  files::InputFile& input = reading().input;
  std::set<std::string, std::less<>> told;
  survey_options.unknown = [&](uint64_t line, std::string_view name, std::string_view reason) {
    const std::string shown(batch::shortened_name(name));
    if (told.size() > kToldFields || !told.insert(shown).second) return;
    result.notes.push_back(batch::printable(
        told.size() > kToldFields ? "further fields without effect are not named"
                                  : fmt::format("line {}: {}: {}", line, shown, reason)));
  };
  batch::LineIndex index(result.block_size);
  const bool is_vllm_forecast = result.fits.value_or(false) && !result.shared_windows.empty();
  if (result.schedule || is_vllm_forecast || !options.reorder.empty()) {
    survey_options.each = [&](const batch::SurveyedLine& line) { index.add(line, false); };
  }
  survey_options.slice = slice();
  const batch::PromptSurvey survey = batch::survey_prompts(input, survey_options);

  plan::PromptFigures figures = figures_of(survey);
  figures.file = fmt::format("{}", fmt::join(input_paths(run), ", "));
  weigh(result, figures, survey);
  if (run.dry_run) check_order(run, input);
  if (result.schedule) {
    figures.order =
        order_figures(run, input, index.prompts, survey.all_shared_tokens(), *result.schedule);
    if (options.launch.args.draft_tokens > 0) {
      result.notes.emplace_back("steps are forecast without speculation, which takes fewer");
    }
  } else if (is_vllm_forecast) {
    figures.order = vllm_figures(result, input, index.prompts, survey.all_shared_tokens());
  }
  if (!options.reorder.empty()) {
    index.arrange(index.prompts.prefix_order());
    write_in_order(options, input, index.order);
  }
  if (!options.rate.empty()) {
    figures.tokens_per_second = tokens_per_second(options.rate);
    figures.hours = static_cast<double>(figures.prompt_tokens + figures.answer_tokens) /
                    figures.tokens_per_second / 3600;
  }
  result.prompts = std::move(figures);
}

}  // namespace plimsoll::cli
