// Arguments of `plan --engine NAME` for engines with command lines of their own.
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "cli/help.h"
#include "cli/plan/options.h"
#include "cli/plan/paste/other_engines.h"
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

  /// `typed`: how many of the last arguments were typed beside a pasted line, whose MODEL they
  /// replace.
  void split(const Words& arguments, size_t typed) {
    bool has_model = false;
    for (at_ = 1; at_ < arguments.size(); ++at_) {
      const std::string& word = arguments[at_];
      if (at_ + typed == arguments.size()) has_model = false;
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
      } else if (name_of(word) == "-i" || name_of(word) == "--input-file") {
        fail(ExitCode::usage,
             "{}: goes with a plan of vllm or plimsoll, whose order (--reorder) suits other "
             "engines too",
             word);
      } else if (is_translated(name_of(word))) {
        translate(arguments);
      } else if (!word.starts_with('-') && !has_model) {
        model_ = word;
        has_model = true;
      } else if (word.starts_with('$') || word == "...") {
        left_out_.push_back(word);  // flags of a script's variable, in a pasted line
      } else {
        words_.push_back(word);
      }
    }
  }

  [[nodiscard]] const Words& engine_words() const { return words_; }
  [[nodiscard]] const Words& left_out() const { return left_out_; }
  [[nodiscard]] bool has_model() const { return !model_.empty(); }
  [[nodiscard]] Words own_arguments() const {
    Words words = {"plan"};
    words.insert(words.end(), own_words_.begin(), own_words_.end());
    if (!model_.empty()) words.push_back(model_);
    return words;
  }

 private:
  static bool is_model_flag(const std::string& name) {
    return name == "--model" || name == "--model-path" || name == "--force-model" || name == "-m";
  }

  /// A flag of plan in full is not the beginning of an engine's.
  bool is_only_begun(const std::string& word) const {
    if (find_own(own_, word) == nullptr && !is_translated(name_of(word))) return false;
    return engines::find_named(engine_.flags, name_of(word)) == nullptr;
  }

  [[nodiscard]] bool is_translated(const std::string& name) const {
    return std::ranges::find(engine_.own_flags, name, &engines::OwnFlag::first) !=
           engine_.own_flags.end();
  }

  /// Takes our flag at the current place as the engine spells it.
  void translate(const Words& arguments) {
    const std::string& word = arguments[at_];
    const std::string name = name_of(word);
    const engines::Flag* const own = engines::find_named(engine_.flags, engine_.own_name(name));
    if (own != nullptr && own->kind == engines::FlagKind::bare) {
      words_.emplace_back(engine_.own_name(name));
      return;
    }
    const bool joined = word.size() > name.size();
    const bool alone = at_ + 1 == arguments.size() || arguments[at_ + 1].starts_with("--");
    if (!joined && alone) {
      words_.emplace_back(engine_.own_name(name));  // the engine says what is missing
      return;
    }
    const std::string value = joined ? word.substr(name.size() + 1) : arguments[++at_];
    const Words theirs = engine_.translate(name, value);
    if (theirs.empty())
      fail(ExitCode::usage, "{} {}: {}'s plan takes a number", name, value, engine_.name);
    words_.insert(words_.end(), theirs.begin(), theirs.end());
  }

  /// Takes the flag at the current place, under `name`, with its values.
  void take(const Words& arguments, const std::string& name) {
    const std::string& word = arguments[at_];
    const size_t equals = word.find('=');
    words_.push_back(equals == std::string::npos ? name : name + word.substr(equals));
    const engines::Flag* const flag = engines::find_flag(engine_.flags, name);
    if (equals != std::string::npos || flag == nullptr) return;
    const size_t count = engines::count_values(*flag, std::span(arguments).subspan(at_ + 1));
    for (size_t i = 0; i < count; ++i) words_.push_back(arguments[++at_]);
  }

  const engines::Engine& engine_;
  const CLI::App& own_;
  size_t at_ = 0;
  std::string model_;
  Words own_words_, words_, left_out_;
};

/// Reads the file of settings that an engine's flag names, if it is there: a plan's arguments
/// without that flag, and with the flags that the file stands for.
Words with_file(const engines::Engine& engine, const Words& arguments, PlanOptions& options) {
  if (engine.file_use == engines::FileUse::none) return arguments;
  const engines::Flag* const flag = engines::find_flag(engine.flags, engine.file_flag);
  Words words = arguments;
  const std::optional<std::string> named = take_file_flag(words, [&](const std::string& word) {
    return engines::find_flag(engine.flags, word) == flag;
  });
  if (!named) return arguments;
  const std::string& file = *named;
  const std::optional<std::string> text = settings_text(file, options.engine_variables);
  if (!text && engine.file_use == engines::FileUse::fields)
    return arguments;  // the engine notes it
  if (!text) {
    options.left_out.push_back(fmt::format("{} {} (not on this machine)", engine.file_flag, file));
  } else if (engine.file_use == engines::FileUse::flags) {
    const Words flags = flags_of_yaml(*text);
    choose_release(engine, flags, options);
    words.insert(words.begin() + 1, flags.begin(), flags.end());  // behind "plan"
  } else if (const std::optional<Json> fields = json_of_yaml(*text);
             fields && fields->is_object()) {
    options.engine_file_fields = *fields;
  } else {
    fail(ExitCode::usage,
         "{} {}: expected a YAML mapping, such as 'kv_cache_config: {{dtype: fp8}}'",
         engine.file_flag, file);
  }
  return words;
}

/// Refuses a model that llama.cpp downloads by itself: its header is not here.
void check_download(const engines::Engine& engine, const Words& words) {
  constexpr std::string_view kDownloads[] = {"--hf-repo", "--model-url", "--docker-repo"};
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const engines::Flag* const flag = engines::find_flag(engine.flags, words[i]);
    if (flag == nullptr || !words[i].starts_with('-')) continue;
    const std::string_view key = flag->names.substr(0, flag->names.find(','));
    if (is_among(kDownloads, key)) {
      fail(ExitCode::usage,
           "{} {}: {} downloads that model; plan reads its header from a file: get it and add -m "
           "FILE.gguf",
           words[i], words[i + 1], engine.program);
    }
  }
}

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
  splitter.split(with_file(*engine, arguments, options), options.typed_beside);
  if (!splitter.has_model()) check_download(*engine, splitter.engine_words());
  const Words& left_out = splitter.left_out();
  options.left_out.insert(options.left_out.end(), left_out.begin(), left_out.end());
  const Words& words = splitter.engine_words();
  options.engine_words.insert(options.engine_words.end(), words.begin(), words.end());
  return splitter.own_arguments();
}

}  // namespace plimsoll::cli
