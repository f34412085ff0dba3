#include "cli/plan/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "checkpoint/gguf/model.h"
#include "cli/host_limits.h"
#include "cli/measured_rates.h"
#include "cli/own_arguments.h"
#include "cli/run/fleet.h"
#include "cli/run/launch.h"
#include "cli/run/limits.h"
#include "launch/parameters.h"
#include "plan/plimsoll/plimsoll_plan.h"
#include "plan/solver.h"
#include "plan/vllm_plan.h"
#include "vllm/launch/engine_choice.h"

namespace plimsoll::cli {
namespace {

// What our own engine is asked. On a card this machine's threads do not matter.
launch::Arguments own_arguments_of(const PlanOptions& options, const Environment& environment) {
  launch::Arguments arguments = own_arguments(options.launch, environment);
  if (!options.gpu.empty()) arguments.threads = 1;
  arguments.folder = options.folder;
  arguments.has_prompts = options.has_prompts;
  arguments.on_host = options.on_host;
  return arguments;
}

/// The model that a plan of our own engine is of, with the headers of its weights.
std::shared_ptr<launch::ModelSource> model_source(const ConfigView& config,
                                                  const PlanOptions& options) {
  const std::filesystem::path path(config.path());
  launch::ModelFolder folder =
      model_folder(options.run, checkpoint::gguf::is_gguf_path(path) ? path : path.parent_path(),
                   options.run.dry_run ? launch::Weights::checkpoint : launch::Weights::if_present);
  if (options.is_lone_config) folder.weights = launch::Weights::none;
  return std::make_shared<launch::ModelSource>(plan::own::read_spec(config, options.launch.args),
                                               config.json(), std::move(folder),
                                               launch::Experts::first_alone);
}

/// The arguments with vLLM's share of a card that --gpu-memory SIZE comes to.
vllm::EngineArgs with_ceiling(vllm::EngineArgs args, const PlanOptions& options,
                              const hardware::Gpu* gpu) {
  if (options.launch.gpu_memory && gpu != nullptr && options.engine == "vllm") {
    args.gpu_memory_utilization = std::min(1.0, static_cast<double>(*options.launch.gpu_memory) /
                                                    static_cast<double>(gpu->visible_bytes()));
  }
  return args;
}

plan::PlanFunction plan_function(const ConfigView& config, const PlanOptions& options,
                                 const Environment& environment) {
  if (options.engine == "vllm") {
    return [&config](const vllm::EngineArgs& args, const hardware::Gpu* gpu) {
      return plan::plan_vllm(config, args, gpu);
    };
  }
  launch::Arguments given = own_arguments_of(options, environment);
  given.draft =
      draft_source(given.args, environment,
                   options.run.dry_run ? draft_weights(options.run) : launch::Weights::if_present);
  if (options.is_lone_config) given.lone_config = &config.json();
  return [model = model_source(config, options), arguments = std::move(given)](
             const vllm::EngineArgs& args, const hardware::Gpu* gpu) {
    launch::Arguments changed = arguments;
    changed.args = args;
    return plan::own::make_plan(*model, changed, gpu);
  };
}

/// The processor that `run` would take.
backend::CpuOptions processor_of(const launch::LaunchRequest& flags,
                                 const Environment& environment) {
  const backend::CpuIsa best = backend::detect_isa();
  const auto asked = flags.cpu_isa ? backend::isa_from_name(*flags.cpu_isa) : std::nullopt;
  return {asked.value_or(best), host_threads(flags.threads, environment)};
}

/// The plan with the limits that `run` would choose by the lengths of its input.
plan::PlanResult solve_limits(const plan::PlanFunction& plan, vllm::EngineArgs args,
                              const PlanOptions& options, const Environment& environment,
                              const hardware::Gpu* gpu, const LengthsOf& lengths_of) {
  const launch::LaunchRequest& flags = options.launch;
  const StepRates rates =
      step_rates(environment, gpu != nullptr ? card_subject(gpu->name)
                                             : processor_subject(processor_of(flags, environment)));
  const auto with = [&](const batch::StepLimits& limits) {
    vllm::EngineArgs changed = args;
    changed.max_num_seqs = limits.sequences;
    changed.max_num_batched_tokens = limits.tokens;
    return plan(changed, gpu);
  };
  const auto schedule_of =
      [&](const batch::StepLimits& limits) -> std::optional<engine::ScheduleShape> {
    try {
      const plan::PlanResult result = with(limits);
      if (!result.schedule || !result.fits.value_or(true)) return std::nullopt;
      return *result.schedule;
    } catch (const Error& error) {
      if (error.code() == ExitCode::usage) return std::nullopt;
      throw;
    }
  };
  const batch::AskedLimits asked = asked_limits(flags, rates);
  const batch::InputLengths lengths = lengths_of(with(batch::smallest_limits(asked)));
  std::optional<batch::ChosenLimits> chosen;
  if (lengths.index)
    chosen = batch::choose_limits(*lengths.index, lengths.shared_tokens, asked, schedule_of);
  plan::PlanResult result = chosen                  ? with(chosen->limits)
                            : flags.solve_sequences ? plan::solve_sequences(plan, args, gpu)
                                                    : plan(args, gpu);
  result.solved = limits_text(flags, {result.max_num_seqs, result.max_num_batched_tokens},
                              reason_of(flags, lengths, rates, chosen)) +
                  ".";
  return result;
}

/// A plan with what a search chose for it.
struct Solved {
  plan::PlanResult result;
  vllm::EngineArgs args;
  const hardware::Gpu* gpu;
};

/// The plan with the sequences and tokens of a step that flags leave open.
plan::PlanResult solve_step(const plan::PlanFunction& plan, const vllm::EngineArgs& args,
                            const PlanOptions& options, const Environment& environment,
                            const hardware::Gpu* gpu, const LengthsOf& lengths_of) {
  if (lengths_of && limits_are_open(options.launch))
    return solve_limits(plan, args, options, environment, gpu, lengths_of);
  if (options.launch.solve_sequences) return plan::solve_sequences(plan, args, gpu);
  return plan(args, gpu);
}

/// The card or their number is searched first, for one sequence where their number is open; then
/// the limits of a step on these.
Solved solve(const plan::PlanFunction& plan, const vllm::EngineArgs& args,
             const PlanOptions& options, const Environment& environment, const hardware::Gpu* gpu,
             const LengthsOf& lengths_of) {
  const bool by_card = options.gpu == "smallest";
  if (!by_card && options.gpus != 0)
    return {solve_step(plan, args, options, environment, gpu, lengths_of), args, gpu};
  if (!by_card) check_searched_card(gpu);
  const bool open =
      options.launch.solve_sequences || (lengths_of && limits_are_open(options.launch));
  vllm::EngineArgs wanted = args;
  if (options.launch.solve_sequences) wanted.max_num_seqs = 1;
  Solved solved{{}, args, gpu};
  const plan::PlanFunction noting = [&](const vllm::EngineArgs& tried, const hardware::Gpu* on) {
    const vllm::EngineArgs changed = by_card ? with_ceiling(tried, options, on) : tried;
    plan::PlanResult result = plan(changed, on);
    if (!result.refused) {
      solved.args = changed;
      solved.args.max_num_seqs = args.max_num_seqs;
      solved.gpu = on;
    }
    return result;
  };
  solved.result =
      by_card ? plan::solve_card(noting, wanted) : plan::solve_gpus(noting, wanted, gpu, kMostGpus);
  if (!open || !solved.result.fits.value_or(false)) return solved;
  const std::string found = solved.result.solved;
  solved.result = solve_step(plan, solved.args, options, environment, solved.gpu, lengths_of);
  solved.result.solved = fmt::format("{} {}", found, solved.result.solved);
  return solved;
}

/// True where a flag says among how many cards the launch is divided; of tensor parallelism one,
/// too.
bool says_ranks(const launch::LaunchRequest& request) {
  const auto is_tensor = [](const launch::Given& given) {
    return given.parameter->flag() == "--tensor-parallel-size";
  };
  return std::ranges::any_of(request.given, is_tensor) || request.args.pipeline_parallel > 1 ||
         request.args.data_parallel > 1;
}

/// True for a flag of ours that says what a card has: a plan of vLLM heeds it too.
bool is_of_card(std::string_view flag) {
  return flag == "--gpu-memory" || flag == "--reserved-memory";
}

void note_ignored(plan::PlanResult& result, const PlanOptions& options) {
  std::vector<std::string> ignored = ignored_flags(options);
  if (result.first_engine) std::erase_if(ignored, vllm::may_choose_engine);
  if (!ignored.empty()) {
    result.notes.push_back(fmt::format("moves no device memory: {}", fmt::join(ignored, ", ")));
  }
  add_pasted_notes(result, options);
  const std::vector<std::string> for_vllm = launch::given_for_vllm(options.launch);
  const bool by_lengths = options.engine == "plimsoll" && options.has_prompts;
  if (options.launch.solve_tokens && !by_lengths) {
    result.notes.push_back(
        fmt::format("--max-num-batched-tokens auto: {}, the default; by lengths where our own "
                    "engine has the lines of -i",
                    result.max_num_batched_tokens));
  }
  if (options.engine == "plimsoll" && !for_vllm.empty()) {
    result.notes.push_back(
        fmt::format("without effect on our own engine: {}", fmt::join(for_vllm, ", ")));
  }
  if (options.engine != "vllm") return;
  std::vector<std::string> for_own = launch::given_for_own_engine(options.launch);
  std::erase_if(for_own, is_of_card);
  if (!for_own.empty())
    result.notes.push_back(fmt::format("without effect on vLLM: {}", fmt::join(for_own, ", ")));
}

void note_launcher(plan::PlanResult& result, const PlanOptions& options,
                   const Environment& environment) {
  if (options.engine != "plimsoll" || !environment.mpi || options.run.wanted_part) return;
  const std::string refusal = sharing_refusal(options.launch.args, *environment.mpi);
  if (!refusal.empty()) result.notes.push_back("run refuses this: " + refusal);
}

/// The cards of --gpus, else of what was pasted; 0: neither says how many.
int64_t cards_at_hand(const PlanOptions& options) {
  return options.gpus.value_or(options.gpus_pasted.value_or(0));
}

}  // namespace

void add_pasted_notes(plan::PlanResult& result, const PlanOptions& options) {
  if (!options.left_out.empty()) {
    result.notes.push_back(
        fmt::format("left out, not known to plan: {}", fmt::join(options.left_out, ", ")));
  }
  if (!options.release_note.empty()) result.notes.push_back(options.release_note);
  const int64_t at_hand = cards_at_hand(options);
  if (!result.refused && result.gpus < at_hand)
    result.notes.push_back(fmt::format("the launch uses {} of {} GPUs", result.gpus, at_hand));
}

void count_cards(plan::PlanResult& result, const PlanOptions& options, const std::string& ranks) {
  const int64_t at_hand = cards_at_hand(options);
  if (at_hand == 0 || result.gpus <= at_hand) return;
  result.fits = false;
  result.reason =
      fmt::format("{} GPUs are needed for {}, and {} are at hand.", result.gpus, ranks, at_hand);
}

plan::PlanResult make_plan(const ConfigView& config, const PlanOptions& options,
                           const Environment& environment, const std::optional<hardware::Gpu>& card,
                           const LengthsOf& lengths_of) {
  const hardware::Gpu* gpu = card ? &*card : nullptr;
  vllm::EngineArgs args = with_ceiling(options.launch.args, options, gpu);
  if (options.gpus.value_or(0) > 0 && !says_ranks(options.launch))
    args.tensor_parallel = *options.gpus;
  const plan::PlanFunction plan = plan_function(config, options, environment);
  const bool by_cards = args.tensor_parallel != options.launch.args.tensor_parallel;
  Solved solved = [&] {
    try {
      return solve(plan, args, options, environment, gpu, lengths_of);
    } catch (const Error& error) {
      if (!by_cards) throw;
      fail(error.code(), "--gpus {}, taken as --tensor-parallel-size {}: {}", *options.gpus,
           args.tensor_parallel, error.what());
    }
  }();
  plan::PlanResult& result = solved.result;
  if (options.engine == "plimsoll") result.version = PLIMSOLL_VERSION;
  const int64_t at_hand = cards_at_hand(options);
  count_cards(result, options,
              fmt::format("tensor parallel {}, pipeline parallel {}, data parallel {}",
                          args.tensor_parallel, args.pipeline_parallel, args.data_parallel));
  const bool wanted = options.advise || (result.fits && !*result.fits && args.available_kv == 0);
  // More cards than there are help nobody.
  const plan::PlanFunction at_hand_alone = [&](const vllm::EngineArgs& changed,
                                               const hardware::Gpu* on) {
    plan::PlanResult other = plan(changed, on);
    if (at_hand > 0 && other.gpus > at_hand) fail(ExitCode::usage, "{} GPUs", other.gpus);
    return other;
  };
  if (wanted && !result.refused && solved.gpu != nullptr)
    result.advice = plan::advise(at_hand_alone, solved.args, solved.gpu, result);
  add_given(result, options);
  note_flags(result, options);
  note_ignored(result, options);
  note_launcher(result, options, environment);
  return std::move(result);
}

}  // namespace plimsoll::cli
