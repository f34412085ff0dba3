// The flags of a pasted launch, as `plan` reads them.
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/backend_variable.h"
#include "cli/plan/options.h"
#include "cli/plan/paste/other_engines.h"
#include "cli/plan/paste/vllm_flag_names.h"
#include "vllm/launch/engine_choice.h"

namespace plimsoll::cli {
namespace {

/// vLLM's short names; -tp and its kin are rewrite_arguments()'.
std::string long_name(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"-ep", "--enable-expert-parallel"},
      {"-cc", "--compilation-config"},
      {"-sc", "--speculative-config"},
      {"-n", "--nnodes"},
      {"-r", "--node-rank"},
      {"-dpa", "--data-parallel-address"},
      {"-dpb", "--data-parallel-backend"},
      {"-dpe", "--data-parallel-external-lb"},
      {"-dph", "--data-parallel-hybrid-lb"},
      {"-dpl", "--data-parallel-size-local"},
      {"-dpm", "--data-parallel-multi-port-external-lb"},
      {"-dpn", "--data-parallel-rank"},
      {"-dpp", "--data-parallel-rpc-port"},
      {"-dpr", "--data-parallel-start-rank"}};
  for (const auto& [brief, full] : kNames)
    if (name == brief) return std::string(full);
  return name;
}

bool is_unmoved(std::string_view name) {
  return std::ranges::any_of(kUnmovedFlags, [&](std::string_view known) {
    return known.ends_with("*") ? name.starts_with(known.substr(0, known.size() - 1))
                                : name == known;
  });
}

bool looks_like_value(const std::string& word) {
  return !word.starts_with("-") ||
         (word.size() > 1 && std::isdigit(static_cast<unsigned char>(word[1])) != 0);
}

/// True when the value of a flag of run may name a file that only the server has.
bool names_absent_file(const std::string& name, const std::string& value) {
  if (name != "--tokenizer" && name != "--chat-template" && name != "--generation-config")
    return false;
  std::error_code ignored;
  return value != "auto" && value != "vllm" && !std::filesystem::exists(value, ignored);
}

/// Sorts vLLM's words: flags of a launch, flags that move no device memory, unknown ones.
class FlagReader {
 public:
  /// `typed`: the arguments beside --from, which have the last word.
  FlagReader(const CLI::App& known, Words typed, PlanOptions& options)
      : known_(known), typed_(std::move(typed)), options_(options) {}

  Words read(Words given) {
    given_ = std::move(given);
    for (at_ = 0; at_ < given_.size(); ++at_) {
      if (given_[at_] == "--") continue;
      if (given_[at_].starts_with("-")) {
        read_flag(given_[at_]);
      } else if (model_.empty()) {
        model_ = given_[at_];
      } else {
        options_.left_out.push_back(given_[at_]);
      }
    }
    if (!model_.empty()) flags_.push_back("--model=" + model_);
    return std::move(flags_);
  }

 private:
  /// The flag of this name, or the only one that begins so, as argparse reads "--max-model 4096".
  [[nodiscard]] const CLI::Option* find_option(std::string& name) const {
    const CLI::Option* const named = known_.get_option_no_throw(name);
    constexpr size_t kShortest = 4;  // "--a" and less names nothing
    if (named != nullptr || !name.starts_with("--") || name.size() < kShortest) return named;
    Words begun;
    const auto begins = [&](std::string_view flag) { return flag.starts_with(name); };
    for (const CLI::Option* const option : known_.get_options())
      for (const std::string& known : option->get_lnames())
        if (begins("--" + known)) begun.push_back("--" + known);
    if (begun.size() != 1 || is_unmoved(name) || std::ranges::any_of(kFlagsWithoutValue, begins) ||
        std::ranges::any_of(kUnmovedFlags, begins))
      return nullptr;
    name = begun.front();
    return known_.get_option_no_throw(name);
  }

  void read_flag(const std::string& given) {
    const bool is_level = given.size() == 3 && given.starts_with("-O") && given[2] != '=';  // -O3
    const std::string word = is_level ? "-O=" + given.substr(2) : given;
    const size_t equals = word.find('=');
    std::string name = long_name(word.substr(0, equals));
    const CLI::Option* option = find_option(name);
    const bool is_model = option != nullptr && option->check_lname("model");
    const bool of_plan = option != nullptr && option->get_group() == "Subject and answer";
    if (of_plan && !is_model) option = nullptr;  // -i and --gpus are not vLLM's
    const bool bare = option != nullptr
                          ? option->get_items_expected_max() == 0
                          : is_among(kFlagsWithoutValue, name) || name.starts_with("--no-");
    Words values;
    if (equals != std::string::npos) {
      values.push_back(word.substr(equals + 1));
    } else if (!bare && at_ + 1 < given_.size() &&
               (looks_like_value(given_[at_ + 1]) ||
                (option != nullptr && !is_among(kFlagsWithValues, name)))) {
      values.push_back(given_[++at_]);
    }
    while (is_among(kFlagsWithValues, name) && at_ + 1 < given_.size() &&
           looks_like_value(given_[at_ + 1]))
      values.push_back(given_[++at_]);
    const bool chooses_engine = vllm::may_choose_engine(name);
    if (chooses_engine) options_.launch.args.beside[name] = values.empty() ? "" : values.front();
    if (is_model) {
      if (!values.empty()) model_ = values.front();
    } else if (option != nullptr) {
      add(name, *option, values);
    } else if (is_unmoved(name)) {
      options_.ignored.push_back(name);
    } else if (!chooses_engine) {
      const std::string nearest = nearest_flag(name, known_);
      options_.left_out.push_back(nearest.empty() || nearest == name
                                      ? name
                                      : fmt::format("{} (did you mean {}?)", name, nearest));
    }
  }

  void add(const std::string& name, const CLI::Option& option, const Words& values) {
    const std::string value = fmt::format("{}", fmt::join(values, ","));
    constexpr std::string_view kRead[] = {"--tokenizer", "--chat-template", "--generation-config"};
    if (option.get_group().empty() && !is_among(kRead, name)) {  // run's, read otherwise by vLLM
      options_.ignored.push_back(name);
    } else if (names_absent_file(name, value)) {
      options_.left_out.push_back(fmt::format("{} {} (not on this machine)", name, value));
    } else if (!is_replaced(option, value)) {
      flags_.push_back(values.empty() || name.starts_with("--")
                           ? name + (values.empty() ? "" : "=" + value)
                           : name + value);
    }
  }

  /// True for a value with a variable that the text does not state, where the flag is typed too.
  [[nodiscard]] bool is_replaced(const CLI::Option& option, const std::string& value) const {
    return value.find('$') != std::string::npos &&
           std::ranges::any_of(typed_, [&](const std::string& word) {
             return option.check_name(word.substr(0, word.find('=')));
           });
  }

  const CLI::App& known_;
  const Words typed_;
  PlanOptions& options_;
  Words given_;
  size_t at_ = 0;
  std::string model_;
  Words flags_;
};

/// The line's variables become this process's before read_environment() looks.
void read_variables(PastedLaunch& launch, PlanOptions& options) {
  for (const auto& [name, value] : launch.variables) {
    const bool of_vllm = name.starts_with("VLLM_");
    const VllmVariable use = of_vllm ? vllm_variable(name) : VllmVariable::unmoved;
    if (use == VllmVariable::read) {
      ::setenv(name.c_str(), value.c_str(), 1);
    } else if (name == "CUDA_VISIBLE_DEVICES" || name == "NVIDIA_VISIBLE_DEVICES") {
      limit_gpus(launch, value, true);
    } else if (of_vllm && use == VllmVariable::unmoved) {
      options.ignored.push_back(name);
    } else if (of_vllm) {
      if (name == kBackendVariable) ::setenv(name.c_str(), value.c_str(), 1);
      options.left_out.push_back(name);
    }
  }
}

/// True for the line of one node of several, whose GPUs are a part of the launch's.
bool is_of_several_nodes(const PastedLaunch& launch) {
  const Words words = rewrite_arguments(launch.words);
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string given = words[i].substr(0, equals);
    const std::string name = launch.engine.empty() ? long_name(given) : given;
    if (is_among(kNodeFlags, name)) return true;
    if (name != "--nnodes") continue;
    const bool beside = equals == std::string::npos && i + 1 < words.size();
    return (beside ? words[i + 1] : words[i].substr(equals + 1)) != "1";
  }
  return false;
}

}  // namespace

void check_word_count(const Words& words, size_t most) {
  if (words.size() > most) fail(ExitCode::usage, "--from: a command has more than {} words", most);
}

std::vector<std::string> expand_pasted_line(std::vector<std::string> arguments,
                                            PlanOptions& options) {
  if (arguments.empty() || arguments.front() != "plan") return arguments;
  const auto is_from = [](const std::string& argument) {
    return argument == "--from" || argument.starts_with("--from=");
  };
  const auto from = std::ranges::find_if(arguments, is_from);
  if (from == arguments.end()) return arguments;
  if (std::find_if(from + 1, arguments.end(), is_from) != arguments.end())
    fail(ExitCode::usage, "--from: is given twice; give one launch, and other flags beside it");
  std::string text = from->substr(std::min(from->size(), std::string("--from=").size()));
  auto end = from + 1;
  if (*from == "--from") {
    if (end == arguments.end())
      fail(ExitCode::usage, "--from: a command line is missing, such as 'vllm serve MODEL'");
    text = *end++;
  }
  text = pasted_text(text);
  arguments.erase(from, end);
  options.engine = "vllm";
  CLI::App known("", "");
  declare_plan_flags(known, options);
  PastedLaunch launch = launch_of(text);
  check_word_count(launch.words);
  use_mounts(launch);
  if (is_of_several_nodes(launch)) launch.gpus.reset();
  if (!launch.engine.empty()) return expand_other_engine(launch, arguments, options);
  read_config_file(launch);
  check_word_count(launch.words);
  options.left_out = launch.left_out;
  read_variables(launch, options);
  options.gpus_pasted = launch.gpus;
  options.launch.args.usage = launch.usage;
  read_release(launch, options);
  const Words flags = FlagReader(known, rewrite_arguments(arguments), options)
                          .read(rewrite_arguments(launch.words));
  try {
    known.parse(Words(flags.rbegin(), flags.rend()));  // CLI11 takes the first from the back
  } catch (const CLI::ParseError& error) {
    std::string why = explain(error, known, flags);
    if (why.find("found \"$") != std::string::npos)
      why +=
          "; what was pasted does not say that value: set the variable before the line, or give "
          "the flag beside --from";
    throw Error(ExitCode::usage, "--from: " + why + left_out_text(options));
  }
  return arguments;
}

std::string left_out_text(const PlanOptions& options) {
  if (options.left_out.empty()) return "";
  return fmt::format(" (left out of what was pasted: {})", fmt::join(options.left_out, ", "));
}

}  // namespace plimsoll::cli
