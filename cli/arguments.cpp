#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <string_view>

#include "base/json.h"
#include "batch/nearest_name.h"

namespace plimsoll::cli {
namespace {

struct ShortName {
  std::string_view name, long_name;
};
constexpr ShortName kShortNames[] = {
    {"-tp", "--tensor-parallel-size"},
    {"-pp", "--pipeline-parallel-size"},
    {"-dp", "--data-parallel-size"},
};

// vLLM's methods of quantisation (vllm/model_executor/layers/quantization, 0.6 to 0.32).
constexpr std::string_view kMethods[] = {
    "aqlm",         "awq",          "awq_marlin", "bitblas", "bitsandbytes", "compressed-tensors",
    "deepspeedfp",  "experts_int8", "fbgemm_fp8", "fp8",     "gguf",         "gptq",
    "gptq_bitblas", "gptq_marlin",  "hqq",        "inc",     "ipex",         "marlin",
    "modelopt",     "modelopt_fp4", "moe_wna16",  "mxfp4",   "petit_nvfp4",  "ptpc_fp8",
    "quark",        "qqq",          "rtn",        "torchao", "tpu_int8"};

std::string before_equals(std::string text) {
  return text.substr(0, std::min(text.size(), text.find('=')));
}

std::string explain_word(const std::string& word, const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command.get_subcommands({})) names.push_back(sub->get_name());
  if (names.empty()) return fmt::format("unexpected argument '{}'", word);
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view nearest = batch::nearest_name(word, views);
  return fmt::format("unknown command '{}'; {}", word,
                     nearest.empty() ? fmt::format("there is {}", fmt::join(names, ", "))
                                     : fmt::format("did you mean {}?", nearest));
}

std::string explain_extra(const std::string& extra, const CLI::App& command) {
  const std::string name = before_equals(extra);
  if (!name.starts_with("-")) return explain_word(extra, command);
  const std::string nearest = nearest_flag(name, command);
  if (nearest.empty()) return fmt::format("unknown flag {}; --help lists all", name);
  return fmt::format("unknown flag {}; did you mean {}?", name, nearest);
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

}  // namespace

std::vector<std::string> rewrite_arguments(std::vector<std::string> arguments) {
  arguments = join_dotted(arguments);
  const bool is_run = !arguments.empty() && arguments.front() == "run";
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string& argument = arguments[i];
    if (argument == "--") break;
    const std::string name = before_equals(argument);
    if (name == "-q" && (argument != name || names_method(arguments, i, is_run))) {
      argument.replace(0, name.size(), "--quantization");
      continue;
    }
    for (const ShortName& known : kShortNames) {
      if (name == known.name) argument.replace(0, name.size(), known.long_name);
    }
    if (!name.starts_with("--")) continue;
    std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(name.size()), '_',
                 '-');
  }
  return arguments;
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
  return std::string(batch::nearest_name(name, names));
}

std::string explain(const CLI::ParseError& error, const CLI::App& command) {
  const std::vector<std::string> extras = command.remaining(true);
  const bool unexpected = dynamic_cast<const CLI::ExtrasError*>(&error) ||
                          dynamic_cast<const CLI::RequiredError*>(&error);
  if (unexpected && !extras.empty()) {
    return explain_extra(extras.front(), command);
  }
  std::string message = error.what();
  std::ranges::replace(message, '\n', ' ');
  return message;
}

}  // namespace plimsoll::cli
