// Arguments of `plan --engine NAME` for engines with command lines of their own.
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/help.h"
#include "cli/plan/options.h"
#include "engines/engine.h"

namespace plimsoll::cli {
namespace {

using Words = std::vector<std::string>;

std::string name_of(const std::string& word) {
  return word.substr(0, word.find('='));
}

/// The last --engine of the arguments; empty: none.
std::string engine_in(const Words& arguments) {
  std::string name;
  for (size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    constexpr std::string_view kFlag = "--engine";
    if (arguments[i] == kFlag && i + 1 < arguments.size()) name = arguments[i + 1];
    if (arguments[i].starts_with("--engine=")) name = arguments[i].substr(kFlag.size() + 1);
  }
  return name;
}

/// Flags of plan that an engine never has: where both know a name, the engine's meaning counts.
const CLI::Option* find_own(const CLI::App& own, const std::string& word) {
  if (!word.starts_with('-') || word == "-") return nullptr;
  return own.get_option_no_throw(name_of(word));
}

class Splitter {
 public:
  Splitter(const engines::Engine& engine, const CLI::App& own) : engine_(engine), own_(own) {}

  void split(const Words& arguments) {
    bool has_model = false;
    for (at_ = 1; at_ < arguments.size(); ++at_) {
      const std::string& word = arguments[at_];
      if (is_model_flag(name_of(word))) {
        model_ = word.find('=') != std::string::npos ? word.substr(word.find('=') + 1)
                 : at_ + 1 < arguments.size()        ? arguments[++at_]
                                                     : "";
        has_model = true;
      } else if (engines::find_flag(engine_.flags, name_of(word)) != nullptr &&
                 !is_only_begun(word)) {
        take(arguments, name_of(word));
      } else if (const CLI::Option* option = find_own(own_, word); option != nullptr) {
        own_words_.push_back(word);
        const bool value =
            option->get_items_expected_max() > 0 && word.find('=') == std::string::npos;
        for (int i = 0; value && i < option->get_items_expected_min() && at_ + 1 < arguments.size();
             ++i)
          own_words_.push_back(arguments[++at_]);
      } else if (const std::string_view theirs = translated(name_of(word)); !theirs.empty()) {
        take(arguments, std::string(theirs));
      } else if (!word.starts_with('-') && !has_model) {
        model_ = word;
        has_model = true;
      } else {
        words_.push_back(word);
      }
    }
  }

  [[nodiscard]] const Words& engine_words() const { return words_; }
  [[nodiscard]] Words own_arguments() const {
    Words words = {"plan"};
    words.insert(words.end(), own_words_.begin(), own_words_.end());
    if (!model_.empty()) words.push_back(model_);
    return words;
  }

 private:
  static bool is_model_flag(const std::string& name) {
    return name == "--model" || name == "--model-path" || name == "-m";
  }

  /// A flag of plan in full is not the beginning of an engine's.
  bool is_only_begun(const std::string& word) const {
    if (find_own(own_, word) == nullptr && translated(name_of(word)).empty()) return false;
    return std::ranges::none_of(engine_.flags, [&](const engines::Flag& flag) {
      const std::string names = "," + std::string(flag.names) + ",";
      return names.find("," + name_of(word) + ",") != std::string::npos;
    });
  }

  [[nodiscard]] std::string_view translated(const std::string& name) const {
    const auto at = std::ranges::find(engine_.own_flags, name, &engines::OwnFlag::first);
    return at == engine_.own_flags.end() ? "" : at->second;
  }

  /// Takes the flag at the current place, under `name`, with its values.
  void take(const Words& arguments, const std::string& name) {
    const std::string& word = arguments[at_];
    const size_t equals = word.find('=');
    words_.push_back(equals == std::string::npos ? name : name + word.substr(equals));
    const engines::Flag* const flag = engines::find_flag(engine_.flags, name);
    if (equals != std::string::npos || flag == nullptr || flag->kind == engines::FlagKind::bare)
      return;
    const size_t most = flag->kind == engines::FlagKind::list ? arguments.size() : 1;
    for (size_t i = 0; i < most && at_ + 1 < arguments.size(); ++i) {
      if (!engines::is_value(arguments[at_ + 1])) break;
      words_.push_back(arguments[++at_]);
    }
  }

  const engines::Engine& engine_;
  const CLI::App& own_;
  size_t at_ = 0;
  std::string model_;
  Words own_words_, words_;
};

}  // namespace

std::vector<std::string> take_engine_words(std::vector<std::string> arguments,
                                           PlanOptions& options) {
  if (arguments.empty() || arguments.front() != "plan") return arguments;
  std::string name = engine_in(arguments);
  if (name.empty()) name = options.engine;
  const engines::Engine* const engine = engines::find_engine(name);
  if (engine == nullptr) return arguments;
  CLI::App own("", "");
  PlanOptions scratch;
  add_help_flags(own);
  declare_plan_alone(own, scratch);
  Splitter splitter(*engine, own);
  splitter.split(arguments);
  const Words& words = splitter.engine_words();
  options.engine_words.insert(options.engine_words.end(), words.begin(), words.end());
  return splitter.own_arguments();
}

}  // namespace plimsoll::cli
