#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "base/json.h"
#include "base/lower_case.h"
#include "base/nearest_name.h"

namespace plimsoll::cli {
namespace {

struct ShortName {
  std::string_view name, long_name;
};
constexpr ShortName kShortNames[] = {
    {"-tp", "--tensor-parallel-size"},
    {"-pp", "--pipeline-parallel-size"},
    {"-dp", "--data-parallel-size"},
    {"-dcp", "--decode-context-parallel-size"},
};

// vLLM's methods of quantization (vllm/model_executor/layers/quantization, 0.6 to 0.33).
constexpr std::string_view kMethods[] = {
    "aqlm",         "awq",          "awq_marlin", "bitblas", "bitsandbytes", "compressed-tensors",
    "deepspeedfp",  "experts_int8", "fbgemm_fp8", "fp8",     "gguf",         "gptq",
    "gptq_bitblas", "gptq_marlin",  "hqq",        "inc",     "ipex",         "marlin",
    "modelopt",     "modelopt_fp4", "moe_wna16",  "mxfp4",   "petit_nvfp4",  "ptpc_fp8",
    "quark",        "qqq",          "rtn",        "torchao", "tpu_int8"};

/// Its value is a text, which may begin with a flag.
constexpr std::string_view kPasted = "--from";

std::string before_equals(const std::string& text) {
  return text.substr(0, std::min(text.size(), text.find('=')));
}

/// Names that other programs have for flags of ours, or that people expect.
constexpr std::pair<std::string_view, std::string_view> kMeant[] = {
    {"--tp", "-tp"},
    {"--pp", "-pp"},
    {"--dp", "-dp"},
    {"-ep", "--enable-expert-parallel"},
    {"-cc", "--compilation-config"},
    {"-sc", "--speculative-config"},
    {"--input", "-i"},
    {"--output", "-o"},
    {"--max-new-tokens", "--max-tokens"},
    {"--max-completion-tokens", "--max-tokens"},
    {"--n-predict", "--max-tokens"},
    {"--batch-size", "--max-num-seqs"},
    {"--max-batch-size", "--max-num-seqs"},
    {"--context-length", "--max-model-len"},
    {"--ctx-size", "--max-model-len"},
    {"--mem-fraction-static", "--gpu-memory-utilization"},
    {"--gpu-name", "--gpu"},
    {"--card", "--gpu"},
};

bool has_flag(const CLI::App& command, std::string_view flag) {
  for (const ShortName& known : kShortNames)
    if (known.name == flag) flag = known.long_name;
  return command.get_option_no_throw(std::string(flag)) != nullptr;
}

std::string explain_flag(const std::string& name, const CLI::App& command) {
  if (name == "--resume" || name == "--continue")
    return name + ": run goes on by itself; start the same command again";
  for (const auto& [other, ours] : kMeant)
    if (name == other && has_flag(command, ours))
      return fmt::format("unknown flag {}{}", name, did_you_mean(ours));
  const std::string nearest = nearest_flag(name, command);
  return fmt::format("unknown flag {}{}", name,
                     nearest.empty() ? "; --help lists all" : did_you_mean(nearest));
}

std::string explain_word(const std::string& word, const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command.get_subcommands({})) names.push_back(sub->get_name());
  if (names.empty()) return fmt::format("unexpected argument '{}'", word);
  if (word == "serve" || word == "vllm" || word == "bench") {
    return fmt::format(
        "unknown command '{}'; a launch of vLLM is planned by: plimsoll plan --from 'vllm serve "
        "...'",
        word);
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view nearest = nearest_name(word, views);
  return fmt::format("unknown command '{}'; {}", word,
                     nearest.empty() ? fmt::format("there is {}", fmt::join(names, ", "))
                                     : fmt::format("did you mean {}?", nearest));
}

std::string explain_extra(const std::string& extra, const CLI::App& command) {
  const std::string name = before_equals(extra);
  if (!name.starts_with("-")) return explain_word(extra, command);
  return explain_flag(name, command);
}

std::string takes_none(const std::string& name, const std::string& value) {
  return fmt::format("{}: takes no value, found \"{}\"", name, value);
}

/// The flag whose value CLI11 misses ("--max-tokens: 1 required N missing") or does not want
/// ("Could not convert: --help = all").
std::string explain_value(const CLI::ParseError& error, const CLI::App& command) {
  std::string what = error.what();
  if (dynamic_cast<const CLI::ConversionError*>(&error)) {
    const size_t from = what.find(": "), to = what.find(" = ");
    if (from == std::string::npos || to == std::string::npos || to < from) return what;
    return takes_none(what.substr(from + 2, to - from - 2), what.substr(to + 3));
  }
  const std::string name = what.substr(0, what.find(':'));
  const CLI::Option* option = command.get_option_no_throw(name);
  if (option == nullptr || !what.ends_with(" missing")) return what;
  return fmt::format("{0}: its value is missing; write {0} {1}", name, option->get_type_name());
}

/// An error that begins with the name of a flag, where a variable has set it and no argument.
std::string name_variable(std::string message, const CLI::App& command,
                          const std::vector<std::string>& arguments) {
  const std::string name = message.substr(0, message.find(':'));
  const CLI::Option* option = name.empty() ? nullptr : command.get_option_no_throw(name);
  if (option == nullptr || option->get_envname().empty()) return message;
  const auto is_named = [&](const std::string& argument) {
    return option->check_name(before_equals(argument));
  };
  if (std::ranges::any_of(arguments, is_named)) return message;
  return message.replace(0, name.size(), option->get_envname());
}

// Whether the "-q" at `i` has a value. To `run`, where a model may follow, only a known method is
// one.
bool names_method(const std::vector<std::string>& arguments, size_t i, bool is_run) {
  if (i + 1 >= arguments.size() || arguments[i + 1].starts_with('-')) return false;
  return !is_run || std::ranges::find(kMethods, arguments[i + 1]) != std::end(kMethods);
}

/// "--flag.a.b": where the name of an object's flag ends; npos: the argument is no such flag.
size_t dot_of(const std::string& argument) {
  const std::string name = before_equals(argument);
  const bool is_flag =
      name.starts_with("--") || name.starts_with("-O.") || name.starts_with("-cc.");
  return is_flag ? name.find('.') : std::string::npos;
}

/// vLLM's dotted flags of one object as one flag with JSON, behind the others: "--flag.a.b 1" is
/// --flag '{"a": {"b": 1}}'.
std::vector<std::string> join_dotted(const std::vector<std::string>& arguments) {
  std::vector<std::string> joined;
  OrderedJson objects = OrderedJson::object();
  size_t i = 0;
  for (; i < arguments.size() && arguments[i] != "--"; ++i) {
    const size_t dot = dot_of(arguments[i]);
    if (dot == std::string::npos) {
      joined.push_back(arguments[i]);
      if (arguments[i] == kPasted && i + 1 < arguments.size()) joined.push_back(arguments[++i]);
      continue;
    }
    const std::string name = before_equals(arguments[i]);
    std::string text = arguments[i].substr(std::min(arguments[i].size(), name.size() + 1));
    if (name.size() == arguments[i].size() && i + 1 < arguments.size()) text = arguments[++i];
    std::string flag = name.substr(0, dot);
    std::ranges::replace(flag, '_', '-');
    if (!flag.starts_with("--")) flag = "--compilation-config";
    OrderedJson* at = &objects[flag];
    for (size_t from = dot + 1; from <= name.size();) {
      const size_t end = std::min(name.find('.', from), name.size());
      if (!at->is_object()) *at = OrderedJson::object();
      at = &(*at)[name.substr(from, end - from)];
      from = end + 1;
    }
    try {
      *at = parse_json<OrderedJson>(text, kOrderedLimits);
    } catch (const JsonError&) {
      *at = text;
    }
  }
  for (const auto& [flag, object] : objects.items()) {
    joined.push_back(flag);
    joined.push_back(object.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
  }
  joined.insert(joined.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  return joined;
}

/// vLLM's --enable-chunked-prefill False, to 0.8 (engine/arg_utils.py: StoreBoolean), as
/// --no-enable-chunked-prefill.
void take_truth(std::vector<std::string>& arguments, size_t at) {
  constexpr std::string_view kFlag = "--enable-chunked-prefill";
  std::string& argument = arguments[at];
  if (!argument.starts_with(kFlag)) return;
  const bool joined = argument.starts_with(std::string(kFlag) + "=");
  const bool apart = argument == kFlag && at + 1 < arguments.size();
  if (!joined && !apart) return;
  const std::string value =
      lower_case(joined ? argument.substr(kFlag.size() + 1) : arguments[at + 1]);
  if (value != "true" && value != "false") return;
  argument = value == "true" ? kFlag : "--no-enable-chunked-prefill";
  if (apart) arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(at) + 1);
}

bool is_switch(const CLI::Option& option) {
  return option.get_items_expected_max() == 0;
}

/// True where CLI11 takes the text as true or false; it throws no ParseError for others.
bool is_truth(const std::string& text) {
  try {
    (void)CLI::detail::to_flag_value(text);
    return true;
  } catch (const std::logic_error&) {
    return false;
  }
}

bool is_letter(std::string_view name) {
  return name.size() == 2 && name[0] == '-' &&
         std::isalpha(static_cast<unsigned char>(name[1])) != 0;
}

}  // namespace

std::vector<std::string> rewrite_arguments(std::vector<std::string> arguments) {
  if (!arguments.empty() && arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("-h");
  }
  std::error_code ignored;
  if (arguments.size() == 2 && arguments[1] == "help" && !std::filesystem::exists("help", ignored))
    arguments[1] = "-h";
  if (arguments == std::vector<std::string>{"-V"}) arguments = {"--version"};
  arguments = join_dotted(arguments);
  const bool is_run = !arguments.empty() && arguments.front() == "run";
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string& argument = arguments[i];
    if (argument == "--") break;
    if (argument == kPasted) {
      ++i;
      continue;
    }
    const std::string name = before_equals(argument);
    if (name == "-q" && (argument != name || names_method(arguments, i, is_run))) {
      argument.replace(0, name.size(), "--quantization");
      continue;
    }
    if (is_letter(name) && argument != name) {  // "-i=FILE" as argparse takes it
      std::string value = argument.substr(name.size() + 1);
      argument = name;
      ++i;
      arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(i), std::move(value));
      continue;
    }
    for (const ShortName& known : kShortNames) {
      if (name == known.name) argument.replace(0, name.size(), known.long_name);
    }
    if (!name.starts_with("--")) continue;
    std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(name.size()), '_',
                 '-');
    take_truth(arguments, i);
  }
  return arguments;
}

std::string misplaced_value(const std::vector<std::string>& arguments, const CLI::App& command) {
  const auto flag_in = [&](const std::string& word) {
    const bool is_flag = word.size() > 1 && word.starts_with('-');
    return is_flag ? command.get_option_no_throw(before_equals(word)) : nullptr;
  };
  std::vector<const CLI::Option*> given;
  for (size_t i = 1; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& word = arguments[i];
    const CLI::Option* const option = flag_in(word);
    if (option == nullptr) continue;
    given.push_back(option);
    if (const size_t equals = word.find('='); equals != std::string::npos) {
      const std::string value = word.substr(equals + 1);
      if (is_switch(*option) && !is_truth(value)) return takes_none(before_equals(word), value);
      if (value.empty() && !is_switch(*option)) return before_equals(word) + std::string(kEmpty);
      continue;
    }
    const int values = is_switch(*option) ? 0 : option->get_items_expected_min();
    for (int n = 0; n < values && i + 1 < arguments.size(); ++n) {
      const std::string& value = arguments[++i];
      if (word == kPasted || flag_in(value) == nullptr) continue;
      return fmt::format(
          "{0}: its value is missing before {1}; write {0} {2} ({0}={1} where that is the value)",
          word, before_equals(value), option->get_type_name());
    }
  }
  for (const CLI::Option* option : command.get_options()) {
    const std::string& name = option->get_envname();
    if (name.empty() || !is_switch(*option) || std::ranges::find(given, option) != given.end())
      continue;
    const char* const value = std::getenv(name.c_str());
    if (value != nullptr && *value != '\0' && !is_truth(value)) return takes_none(name, value);
  }
  return "";
}

std::string_view short_name(std::string_view long_name) {
  for (const ShortName& known : kShortNames) {
    if (known.long_name == long_name) return known.name;
  }
  return "";
}

std::string nearest_flag(const std::string& name, const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& known : option->get_lnames()) flags.push_back("--" + known);
  }
  const std::vector<std::string_view> names(flags.begin(), flags.end());
  return std::string(nearest_name(name, names));
}

std::string misspelt_command(const std::vector<std::string>& arguments, const CLI::App& app) {
  if (arguments.empty() || arguments.front().starts_with('-')) return "";
  const std::vector<const CLI::App*> commands = app.get_subcommands({});
  const bool known = std::ranges::any_of(
      commands, [&](const CLI::App* command) { return command->get_name() == arguments.front(); });
  return known ? "" : explain_word(arguments.front(), app);
}

std::vector<std::string> misspelt_variables(const CLI::App& command) {
  constexpr std::string_view kPrefix = "PLIMSOLL_";
  std::vector<std::string> variables;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_envname().empty()) variables.push_back(option->get_envname());
  std::vector<std::string_view> endings;
  for (const std::string_view variable : variables)
    endings.push_back(variable.substr(kPrefix.size()));
  std::vector<std::string> notes;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string name = before_equals(*entry);
    if (!name.starts_with(kPrefix) || std::ranges::find(variables, name) != variables.end())
      continue;
    const std::string_view near =
        nearest_name(std::string_view(name).substr(kPrefix.size()), endings);
    if (near.empty()) continue;
    notes.push_back(fmt::format("{}: no flag has this variable{}", name,
                                did_you_mean(fmt::format("{}{}", kPrefix, near))));
  }
  return notes;
}

std::string explain(const CLI::ParseError& error, const CLI::App& command,
                    const std::vector<std::string>& arguments) {
  const std::vector<std::string> extras = command.remaining(true);
  const bool unexpected = dynamic_cast<const CLI::ExtrasError*>(&error) ||
                          dynamic_cast<const CLI::RequiredError*>(&error);
  if (unexpected && !extras.empty()) {
    return explain_extra(extras.front(), command);
  }
  const bool of_value = dynamic_cast<const CLI::ArgumentMismatch*>(&error) ||
                        dynamic_cast<const CLI::ConversionError*>(&error);
  std::string message = of_value ? explain_value(error, command) : error.what();
  std::ranges::replace(message, '\n', ' ');
  return name_variable(std::move(message), command, arguments);
}

std::string shell_quoted(const std::string& text) {
  const bool plain = text.find_first_of(" \t\n'\"\\$`*?;&|<>(){}") == std::string::npos;
  if (plain && !text.empty()) return text;
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') word += "'\\'";
    word += c;
  }
  word += '\'';
  return word;
}

}  // namespace plimsoll::cli
