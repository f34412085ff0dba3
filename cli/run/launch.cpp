#include "cli/run/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/size_text.h"
#include "batch/line_error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/find_model.h"
#include "checkpoint/read_model.h"
#include "cli/host_limits.h"
#include "cli/measured_rates.h"
#include "cli/own_arguments.h"
#include "cli/run/limits.h"
#include "cli/terminal.h"
#include "engine/vision/image_processor.h"
#include "files/identity.h"
#include "launch/context.h"
#include "launch/draft_source.h"
#include "launch/images.h"
#include "launch/model_source.h"
#include "memory/available.h"
#include "shard/ranks/rank_source.h"

namespace plimsoll::cli {
namespace {

/// Threads that decode images, beside those that compute.
constexpr int kDecoders = 4;

// The config's or generation config's ids, and the tokenizer's own (vLLM stops at either).
std::vector<int32_t> eos_ids(const PromptSetup& prompts) {
  std::vector<int32_t> ids = prompts.generation.eos_token_ids;
  const auto eos = prompts.chat.special_tokens.find("eos_token");
  if (!prompts.tokenizer || eos == prompts.chat.special_tokens.end()) return ids;
  const auto id = prompts.tokenizer->token_id(eos->second);
  if (id && std::ranges::find(ids, *id) == ids.end()) ids.push_back(*id);
  return ids;
}

/// Makes a backend for each rank that this process has but the first: the ranks of all stages of a
/// replica, one replica after the other.
void make_backends(const launch::LaunchRequest& flags, const engine::Processes* processes,
                   Launch& launch) {
  const int64_t of_replica = launch.ranks_of_replica();
  const int64_t own = engine::local_ranks(processes, of_replica).size() * flags.args.data_parallel;
  for (int64_t rank = 1; rank < own; ++rank) {
    launch.others.push_back(make_backend(flags, launch.device, rank));
  }
}

/// Weights of a launch's ranks while they are loaded.
class RankWeights {
 public:
  /// `source` is null with random weights.
  RankWeights(const checkpoint::WeightSource* source, Launch& launch)
      : source_(source), launch_(launch) {}

  const checkpoint::WeightSource* of_rank(int64_t tensor_rank, const model::ModelSpec& stage) {
    if (source_ == nullptr) return nullptr;
    const auto& counted =
        launch_.sources.emplace_back(std::make_unique<checkpoint::CountedSource>(*source_));
    if (launch_.tensor_ranks() == 1) return counted.get();
    return shares_
        .emplace_back(std::make_unique<shard::RankSource>(
            *counted, launch_.resolved.spec, stage,
            shard::TensorRank{tensor_rank, launch_.tensor_ranks()}))
        .get();
  }
  void skip_rank() {
    if (source_ != nullptr) launch_.sources.emplace_back();
  }

 private:
  const checkpoint::WeightSource* source_;
  Launch& launch_;
  std::vector<std::unique_ptr<shard::RankSource>> shares_;
};

void make_engine(const checkpoint::WeightSource* source, engine::Processes* processes,
                 Launch& launch) {
  const model::ModelSpec& spec = launch.resolved.spec;
  const engine::EngineOptions& options = launch.resolved.engine;
  std::vector<engine::Rank> ranks;
  RankWeights weights(source, launch);
  const int64_t tensor = launch.tensor_ranks();
  const int64_t of_replica = launch.ranks_of_replica();
  const engine::RankRange here = engine::local_ranks(processes, of_replica);
  const RankBackends backends = launch.backends();
  auto next = backends.begin();
  for (int64_t i = 0; i < of_replica * options.replicas; ++i) {
    const int64_t rank = i % of_replica;
    const shard::StageModel& stage = launch.resolved.stages[static_cast<size_t>(rank / tensor)];
    engine::Rank& parts = ranks.emplace_back(engine::Rank{&stage.spec, stage.first_layer});
    if (!here.has(rank)) {
      weights.skip_rank();
      continue;
    }
    parts.backend = *next++;
    parts.weights = weights.of_rank(rank % tensor, stage.spec);
  }
  if (processes != nullptr && processes->process() > 0) {
    launch.server = std::make_unique<engine::RankServer>(spec, ranks, options, *processes);
    return;
  }
  const text::Tokenizer* tokenizer =
      launch.prompts.tokenizer ? &*launch.prompts.tokenizer : nullptr;
  launch.engine = std::make_unique<engine::Engine>(spec, ranks, tokenizer, options, processes);
}

/// Prints a note for the user, unless --quiet, and keeps it for the report.
void note(const RunOptions& options, Launch& launch, const std::string& text) {
  launch.setup.notes.push_back(text);
  if (!options.quiet) say(text);
}

/// Notes what the launched cards' backends report, and checks that no card uses more than its
/// ceiling.
void check_cards(const RunOptions& options, Launch& launch) {
  const std::vector<std::string>& known = launch.setup.notes;
  for (const backend::Backend* backend : launch.backends()) {
    for (const std::string& text : backend::device_notes(*backend)) {
      if (std::ranges::find(known, text) == known.end()) note(options, launch, text);
    }
    const backend::DeviceMemory now = backend::device_memory(
        *backend, launch.resolved.spec, launch.setup.graphs, launch.device.nccl_shape);
    check_ceiling(launch.setup, now, launch.device.ranks_per_card);
  }
}

/// The name of the launch's device among measured rates.
std::string subject_of(const DeviceChoice& device) {
  return device.card ? card_subject(device.card->name) : processor_subject(device.cpu);
}

/// Holds the images that are kept against what `before` had of the host's memory.
void bound_images(const RunOptions& options, const memory::Available& before, Launch& launch) {
  const engine::EnginePlan& plan = launch.engine->plan();
  const size_t own = launch.device.card ? plan.host_bytes : plan.total_bytes;
  size_t& kept = launch.images.cache_bytes;
  const size_t asked = kept;
  kept = kept_image_bytes(asked, before.bytes, own * launch.backends().size());
  if (kept == asked || !launch.images.refusal.empty()) return;
  note(options, launch,
       fmt::format("--mm-processor-cache-gb: {} of processed images are kept in place of {}: "
                   "what is left of the host's memory ({}) has no room for more",
                   size_text(kept), size_text(asked), before.bound));
}

/// What the limits became that the flags leave open.
std::string settled_limits(const launch::LaunchRequest& flags, const Launch& launch) {
  const engine::EngineLayout layout =
      engine::resolve_stages(launch.resolved.spec, launch.resolved.stage_views(),
                             launch.resolved.engine, launch.backend->footprint())
          .front();
  return limits_text(flags, {layout.limits.sequences, layout.limits.batched_tokens}, launch.limits);
}

/// Facts, beside their layouts, that all processes must have alike, a line each.
std::string facts_of(const RunOptions& options, const Environment& environment,
                     const std::filesystem::path& folder, const Launch& launch) {
  const vllm::EngineArgs& args = options.launch.args;
  return fmt::format(
      "program: {}\ndevice: {}\ninstruction set: {}\n-tp: {}\n-pp: {}\n-dp: {}\n"
      "VLLM_PP_LAYER_PARTITION: {}\ndtype: {}\n--seed: {}\nmodel: {}\n",
      options.build, launch.device.card ? launch.device.card->name : "cpu",
      backend::isa_name(launch.device.cpu.isa), args.tensor_parallel, args.pipeline_parallel,
      args.data_parallel, environment.layer_partition.value_or("not set"),
      torch_name(launch.resolved.dtype), options.seed, files::model_digests(folder).dump());
}

// Applies fields that did not come from a line; their errors end the command.
batch::RequestFields apply(const OrderedJson& fields, const batch::RequestFields& over,
                           int64_t max_logprobs) {
  // Ids of the vocabulary do not occur here.
  const batch::FieldLimits limits{.vocab_size = 0, .max_logprobs = max_logprobs};
  return batch::read_fields(fields, batch::Endpoint::completions, batch::Envelope::plain, over,
                            limits, [](std::string_view, std::string_view) {});
}

}  // namespace

RankBackends Launch::backends() const {
  RankBackends backends{backend.get()};
  for (const auto& other : others) backends.push_back(other.get());
  return backends;
}

launch::ModelFolder model_folder(const RunOptions& options, const std::filesystem::path& path,
                                 launch::Weights usual) {
  launch::ModelFolder folder{.path = path, .weights = usual, .file_pattern = options.file_pattern};
  if (options.sharded_state()) folder.weights = launch::Weights::sharded_state;
  if (options.random_weights()) folder.weights = launch::Weights::none;
  return folder;
}

launch::Weights draft_weights(const RunOptions& options) {
  return options.random_weights() ? launch::Weights::none : launch::Weights::checkpoint;
}

DeviceChoice choose_device(const RunOptions& options, const Environment& environment,
                           const CardPlace& place) {
  DeviceChoice choice;
  choice.place = place;
  choice.nccl = environment.nccl;
  choice.ranks_per_card = environment.ranks_per_device;
  choose_card(options.launch, choice);
  choice.overlap = kernels_may_overlap();
  choice.hopper_from = environment.hopper_from;
  backend::CpuOptions& cpu = choice.cpu;
  cpu.isa = backend::detect_isa();
  if (options.launch.cpu_isa) {
    const auto wanted = backend::isa_from_name(*options.launch.cpu_isa);
    if (!wanted || *wanted > cpu.isa) {
      fail(ExitCode::usage, "--cpu-isa {}: is not there; this processor has {} at best",
           *options.launch.cpu_isa, backend::isa_name(cpu.isa));
    }
    cpu.isa = *wanted;
  }
  cpu.threads = host_threads(options.launch.threads, environment);
  return choice;
}

std::unique_ptr<Launch> launch(const RunOptions& options, const Environment& environment,
                               DeviceChoice device, const InputQuestions& input,
                               engine::Processes* processes) {
  const std::filesystem::path folder = checkpoint::find_model(options.model, environment.stores);
  auto launch = std::make_unique<Launch>();
  launch->device = std::move(device);
  launch->backend = make_backend(options.launch, launch->device, 0);
  const backend::Footprint& footprint = launch->backend->footprint();
  launch::Arguments arguments = own_arguments(options.launch, environment);
  arguments.folder = folder;
  arguments.draft = draft_source(arguments.args, environment, draft_weights(options));
  auto [config, spec] = checkpoint::read_model(folder);
  launch::ModelSource model(std::move(spec), config,
                            model_folder(options, folder, launch::Weights::checkpoint),
                            launch::Experts::all);
  launch->resolved = launch::resolve(model, arguments, footprint);
  launch->prompts = read_prompt_setup(options, environment, folder, config);
  make_grammars(launch->prompts, launch->resolved.spec.vocab_size, launch->device.cpu.threads);
  launch->images = image_rules(options, launch->resolved.spec, arguments, footprint);
  if (input.before_weights) input.before_weights(*launch);
  if (processes != nullptr) processes->agree(facts_of(options, environment, folder, *launch));
  make_backends(options.launch, processes, *launch);
  launch->resolved.engine.seed = options.seed;
  launch->resolved.engine.eos_token_ids = eos_ids(launch->prompts);
  std::function<void()> settle;
  if (limits_are_open(options.launch)) {
    const auto lengths_of = [&](int64_t context) { return input.lengths(*launch, context); };
    settle = [&, lengths_of] {
      const StepRates rates = step_rates(environment, subject_of(launch->device));
      launch->limits =
          settle_limits(options.launch, rates, lengths_of, footprint, processes, launch->resolved);
    };
  }
  launch->setup = apply_device(options.launch, launch->device, launch->backends(), processes,
                               settle, launch->resolved);
  launch::resolve_context(arguments, footprint, launch->resolved);
  std::vector<std::string>& notes = launch->setup.notes;
  notes.insert(notes.end(), launch->resolved.notes.begin(), launch->resolved.notes.end());
  if (settle) notes.push_back(settled_limits(options.launch, *launch));
  for (const std::string& note : notes) {
    if (!options.quiet) say(note);
  }
  if (auto& draft = launch->resolved.engine.draft) {
    draft->weights = launch->resolved.draft->reader(*draft->spec);
  }
  const memory::Available before = memory::available_memory();
  make_engine(model.reader(launch->resolved.spec, arguments.args), processes, *launch);
  if (launch->engine) bound_images(options, before, *launch);
  if (launch->device.card) check_cards(options, *launch);
  return launch;
}

batch::RequestFields default_fields(const RunOptions& options,
                                    const model::GenerationConfig& generation) {
  OrderedJson model_fields = OrderedJson::object();
  const auto add = [&](const char* name, const auto& value) {
    if (value) model_fields[name] = *value;
  };
  add("temperature", generation.temperature);
  add("top_p", generation.top_p);
  add("top_k", generation.top_k);
  add("min_p", generation.min_p);
  add("repetition_penalty", generation.repetition_penalty);
  batch::RequestFields fields;
  fields.chat_template_kwargs = options.chat_template_kwargs;
  fields.return_token_ids = options.skip_tokenizer_init;  // nothing else would be in the answer
  try {
    fields = apply(model_fields, fields, options.max_logprobs);
  } catch (const batch::LineError& error) {
    fail(ExitCode::checkpoint_unusable,
         "generation_config.json: {} (--generation-config vllm leaves its values out)",
         error.what());
  }
  try {
    return apply(options.sampling, fields, options.max_logprobs);
  } catch (const batch::LineError& error) {
    std::string flag = (error.param().size() == 1 ? "-" : "--") + error.param();
    std::ranges::replace(flag, '_', '-');
    const std::string name = error.param() + ": ";  // members of the field keep their names
    std::string_view reason = error.what();
    if (reason.starts_with(name)) reason.remove_prefix(name.size());
    fail(ExitCode::usage, "{}: {}", flag, reason);
  }
}

batch::ImageRules image_rules(const RunOptions& options, const model::ModelSpec& spec,
                              const launch::Arguments& arguments,
                              const backend::Footprint& footprint) {
  batch::ImageRules rules;
  rules.refusal = launch::image_refusal(spec, arguments, footprint);
  if (!rules.refusal.empty()) return rules;
  rules.vision = spec.vision;
  rules.settings = engine::read_processor_settings(*spec.vision, arguments.folder);
  rules.overrides = OrderedJson(arguments.processor_kwargs);
  rules.most_images = launch::most_items(arguments.args, "image");
  rules.most_videos = launch::most_items(arguments.args, "video");
  rules.threads = std::min(arguments.threads, kDecoders);
  rules.most_pixels = options.max_image_pixels;
  rules.allowed_folder = options.media_path;
  const double gib = arguments.args.processor_cache_gib;
  rules.cache_bytes = static_cast<size_t>(std::min(gib, 1e6) * static_cast<double>(1u << 30));
  return rules;
}

std::optional<int64_t> max_tokens_cap(const RunOptions& options,
                                      const model::GenerationConfig& generation) {
  return options.max_tokens ? options.max_tokens : generation.max_new_tokens;
}

}  // namespace plimsoll::cli
