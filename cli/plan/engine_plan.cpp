// `plan` of an engine other than vLLM and ours.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/rounding.h"
#include "base/split_text.h"
#include "checkpoint/find_model.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/read_model.h"
#include "cli/arguments.h"
#include "cli/plan/parts.h"
#include "engines/llamacpp/conversion/conversion.h"
#include "model/config.h"
#include "plan/engines/buffers_plan.h"
#include "plan/engines/engine_plan.h"
#include "plan/report/report.h"
#include "plan/solver.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

/// The config of a draft model: a file, a folder, or a hub id in the cache.
Json draft_config(const std::string& model, const Environment& environment) {
  std::error_code ignored;
  if (fs::is_regular_file(model, ignored) ||
      fs::is_regular_file(fs::path(model) / "config.json", ignored))
    return model::read_config(model);
  return checkpoint::read_config(checkpoint::find_model(model, environment.stores));
}

/// The name that the engine is told: MODEL, or the folder of a config.json that stands for it.
std::string told_model(const PlanOptions& options) {
  const fs::path model = options.model;
  std::error_code ignored;
  if (!fs::is_regular_file(model, ignored)) return options.model;
  return model.filename() == "config.json" ? fs::absolute(model).parent_path().string()
                                           : model.stem().string();
}

/// The item at `i`, or the last one; nullptr: there is none.
template <typename T>
const T* item_or_last(const std::vector<T>& items, size_t i) {
  return items.empty() ? nullptr : &items[std::min(i, items.size() - 1)];
}

/// A card by name and total: the total that is stated, whatever the name, or the catalogue's.
struct NamedCard {
  std::string name;
  int64_t total_bytes = 0;
};

NamedCard card_of(const PlanOptions& options, const std::string_view* name, const int64_t* total) {
  if (total != nullptr) return {std::string(name == nullptr ? "" : *name), *total};
  PlanOptions one = options;
  one.gpu = *name;
  const std::optional<hardware::Gpu> gpu = choose_gpu(one);
  if (!gpu) {
    fail(ExitCode::usage, "--gpu {}: llama.cpp's plan needs cards by name, such as --gpu 4090,3090",
         *name);
  }
  return {gpu->name, gpu->visible_bytes()};
}

/// Cards of a launch of llama.cpp: as many as are named, or have a size stated; --gpus of one kind.
/// Free memory that nobody states is 0. `names` lists them for the report.
std::vector<engines::Card> cards_of(const PlanOptions& options, std::string& names) {
  if (options.gpus == 0) {
    fail(ExitCode::usage,
         "--gpus auto: llama.cpp keeps on the host what the cards do not hold, so that any number "
         "suffices; give --gpus N");
  }
  std::vector<std::string_view> named = split_text(options.gpu, ",");
  if (named.back().empty()) named.pop_back();
  std::vector<double> free;
  if (options.free_memory) free = options.free_memory->each;
  size_t count = std::max(named.size(), options.gpu_totals.size());
  if (count == 0 && !free.empty()) {
    fail(ExitCode::usage, "--free-memory: of which card? name it with --gpu NAME[,NAME]");
  }
  count = std::max(count, free.size());
  if (count == 1)
    count = static_cast<size_t>(
        std::clamp<int64_t>(options.gpus.value_or(options.gpus_pasted.value_or(1)), 1, kMostGpus));
  if (count > size_t{kMostGpus}) {
    fail(ExitCode::usage, "--gpu: {} cards, at most {} are planned", count, kMostGpus);
  }
  std::vector<engines::Card> cards;
  for (size_t i = 0; i < count; ++i) {
    const NamedCard one =
        card_of(options, item_or_last(named, i), item_or_last(options.gpu_totals, i));
    if (!one.name.empty()) names += (names.empty() ? "" : ", ") + one.name;
    engines::Card card{fmt::format("CUDA{}", i), one.total_bytes, 0};
    if (const double* const gib = item_or_last(free, i); gib != nullptr)
      card.free_bytes = std::llround(*gib * engines::kGib);
    cards.push_back(card);
  }
  return cards;
}

/// The flags as given, a pair each, for --format args.
void add_words(plan::PlanResult& result, const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (equals != std::string::npos) {
      result.arguments.emplace_back(words[i].substr(0, equals),
                                    shell_quoted(words[i].substr(equals + 1)));
      continue;
    }
    std::string values;
    const std::string& flag = words[i];
    while (i + 1 < words.size() && engines::is_value(words[i + 1]))
      values += (values.empty() ? "" : " ") + shell_quoted(words[++i]);
    result.arguments.emplace_back(flag, values);
  }
}

/// Adds what the command line and what was pasted say beside the plan.
void finish(plan::PlanResult& result, const PlanOptions& options,
            const std::vector<std::string>& words) {
  add_words(result, words);
  if (!options.untold.empty())
    result.notes.push_back(fmt::format("{}{}, for which {} has no flag or value", kWithout,
                                       fmt::join(options.untold, ", "), options.engine));
  add_pasted_notes(result, options);
}

/// True where words or fields of the engine say among how many cards the launch is divided.
bool says_ranks(const engines::Engine& engine, const PlanOptions& options) {
  for (const Json* fields : {&options.engine_fields, &options.engine_file_fields})
    for (const char* name : {"tp", "tp_size", "tensor_parallel_size", "pp", "pp_size",
                             "pipeline_parallel_size", "dp", "dp_size", "data_parallel_size"})
      if (fields->is_object() && fields->contains(name)) return true;
  for (const char* ours :
       {"--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size"}) {
    const engines::Flag* const flag = engines::find_named(engine.flags, engine.own_name(ours));
    const bool given =
        flag != nullptr && std::ranges::any_of(options.engine_words, [&](const std::string& word) {
          return word.starts_with('-') && engines::find_flag(engine.flags, word) == flag;
        });
    if (given) return true;
  }
  return false;
}

/// The words of the launch, tensor parallel over `cards`.
std::vector<std::string> divided_words(const engines::Engine& engine, const PlanOptions& options,
                                       int64_t cards) {
  std::vector<std::string> words = options.engine_words;
  if (cards < 2) return words;
  const std::vector<std::string> more =
      engine.translate("--tensor-parallel-size", std::to_string(cards));
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// A plan with the words of its launch.
struct WordedPlan {
  plan::PlanResult result;
  std::vector<std::string> words;
};

/// The plan on the smallest card, or on the fewest cards, that suffice.
WordedPlan search_cards(const engines::Engine& engine, const engines::Question& question,
                        const ConfigView& config, const PlanOptions& options) {
  const bool by_card = options.gpu == "smallest";
  const std::string_view asked = by_card ? "--gpu smallest" : "--gpus auto";
  if (!by_card) check_searched_card(question.gpu);
  if (options.free_memory) {
    fail(ExitCode::usage,
         "--free-memory: is that of one launch, and {} tries several; leave one out", asked);
  }
  WordedPlan found{{}, question.words};
  const plan::PlanFunction plan = [&](const vllm::EngineArgs& args, const hardware::Gpu* gpu) {
    engines::Question changed = question;
    changed.gpu = gpu;
    if (!by_card) changed.words = divided_words(engine, options, args.tensor_parallel);
    plan::PlanResult result = plan::plan_engine(engine, changed, config, options.advise);
    if (!result.refused) found.words = changed.words;
    return result;
  };
  found.result =
      by_card ? plan::solve_card(plan, {}) : plan::solve_gpus(plan, {}, question.gpu, kMostGpus);
  return found;
}

}  // namespace

std::string engine_line(const engines::Engine& engine, const plan::PlanResult& result,
                        const PlanOptions& options) {
  std::string line(engine.program);
  if (!engine.model_flag.empty()) line += fmt::format(" {}", engine.model_flag);
  return fmt::format("{} {} {}", line, shell_quoted(options.model), plan::to_args(result));
}

plan::PlanResult make_engine_plan(const ConfigView& config, const PlanOptions& options,
                                  const Environment& environment,
                                  const std::optional<hardware::Gpu>& gpu) {
  const engines::Engine& engine = *engines::find_engine(options.engine);
  if (options.launch.args.available_kv > 0) {
    fail(ExitCode::usage,
         "--available-kv-memory: is for plans of vllm and plimsoll; --free-memory after=SIZE says "
         "what {} has left",
         engine.name);
  }
  if (engine.name == "sglang" && !options.engine_fields.is_null())
    fail(ExitCode::usage, "--engine-args: SGLang's plan has flags alone, no Python config");
  engines::Question question;
  question.config = &config.json();
  question.config_path = config.path();
  question.model = told_model(options);
  question.version = options.engine_version;
  const bool divided = says_ranks(engine, options);
  question.words = divided_words(engine, options, divided ? 1 : options.gpus.value_or(1));
  question.fields = options.engine_fields;
  question.file_fields = options.engine_file_fields;
  question.variables = options.engine_variables;
  question.gpu = gpu ? &*gpu : nullptr;
  question.card_bytes = options.gpu_total_memory.value_or(0);
  question.free = options.free_memory;
  question.read_config = [&environment](const std::string& model) {
    return draft_config(model, environment);
  };
  const bool searches = options.gpu == "smallest" || (options.gpus == 0 && !divided);
  if (!searches && engine.name == "sglang" && options.free_memory &&
      options.free_memory->before == 0) {
    fail(ExitCode::usage,
         "--free-memory: SGLang leaves a share of what is free before it loads the weights; give "
         "before=SIZE too, as its log prints it (\"Load weight begin\")");
  }
  auto [result, words] =
      searches
          ? search_cards(engine, question, config, options)
          : WordedPlan{plan::plan_engine(engine, question, config, options.advise), question.words};
  finish(result, options, words);
  if (divided && !result.refused) count_cards(result, options, "the launch's own flags");
  if (divided && options.gpus == 0)
    result.notes.emplace_back("--gpus auto: the launch's own flags say on how many cards it runs");
  if (result.refused && !searches && words.size() > options.engine_words.size())
    result.reason = fmt::format("--gpus {}, taken as {} {}: {}", *options.gpus,
                                words[words.size() - 2], words.back(), result.reason);
  return result;
}

plan::PlanResult make_gguf_plan(const checkpoint::gguf::Model& model, const PlanOptions& options) {
  const engines::Engine& engine = *engines::find_engine(options.engine);
  if (!options.engine_fields.is_null())
    fail(ExitCode::usage, "--engine-args: llama.cpp has flags alone, no Python config");
  engines::Question question;
  question.gguf = &model;
  question.config_path = model.path().string();
  question.model = options.model;
  question.version = options.engine_version;
  question.words = options.engine_words;
  std::string names;
  question.cards = cards_of(options, names);
  plan::PlanResult result = plan::plan_buffers(engine, question, options.advise);
  result.gpu = names;
  finish(result, options, options.engine_words);
  return result;
}

plan::PlanResult make_converted_plan(const Json& config, const fs::path& file,
                                     const PlanOptions& options) {
  const auto model = engines::llamacpp::converted(config, file.string(), options.gguf_type);
  plan::PlanResult result = make_gguf_plan(model, options);
  int64_t bytes = 0;
  for (const auto& tensor : model.tensors())
    bytes += round_up(static_cast<int64_t>(tensor.bytes), model.alignment());
  result.notes.push_back(fmt::format(
      "planned as the GGUF file that llama-quantize makes of this model for {} {}: {} of "
      "tensors; published files may choose other types",
      options.gguf_type,
      engines::llamacpp::needs_importance_matrix(options.gguf_type)
          ? "with an importance matrix, which that type needs"
          : "without an importance matrix",
      plan::readable_bytes(bytes)));
  if (const int64_t layers = engines::llamacpp::left_out_layers(config, file.string());
      layers > 0) {
    result.notes.push_back(fmt::format(
        "{} layers of multi-token prediction are left out, as convert_hf_to_gguf.py --no-mtp does",
        layers));
  }
  return result;
}

}  // namespace plimsoll::cli
