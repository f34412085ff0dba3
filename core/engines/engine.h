// The engines beside vLLM and ours whose launches `plan` knows.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/answer.h"
#include "engines/command_line.h"
#include "engines/question.h"
#include "engines/release.h"

namespace plimsoll::engines {

/// A flag of `run` and `plan`, and the engine's own flag for it.
using OwnFlag = std::pair<std::string_view, std::string_view>;

/// A change that may let a launch fit, in the engine's flags.
struct Remedy {
  std::string_view words;  // to add to its line
  std::string_view change, cost;
  /// Where it is set, the words are a flag whose value is to be found: the largest multiple of
  /// `unit` below that figure of the launch.
  int64_t Figures::*below = nullptr;
  int64_t unit = 1;
};

/// How an engine reads the YAML file that its `file_flag` names.
enum class FileUse {
  none,
  flags,   // flags in front of the line's own, which win
  fields,  // fields of a Python config, which win over the line's flags
};

struct Engine {
  std::string_view name;
  std::vector<std::string_view> aliases;
  std::string_view program;     // of a line to paste, such as "sglang serve"
  std::string_view model_flag;  // in front of MODEL in that line; empty: MODEL stands alone
  std::span<const Flag> flags;
  std::span<const OwnFlag> own_flags;
  std::span<const Remedy> remedies;
  std::string_view file_flag = {};  // names a YAML file of settings
  FileUse file_use = FileUse::none;
  /// Prefix of environment variables that set flags: LLAMA_ARG_CTX_SIZE=N is --ctx-size N; empty:
  /// none do. `variables`: names that differ from their flag's; without a flag: the engine ignores
  /// them.
  std::string_view variable_prefix = {};
  std::span<const OwnFlag> variables = {};
  Version newest;      // the newest release whose rules are known
  bool dated = false;  // older releases have rules of their own; else each is planned as `newest`
  /// The last release that takes all flags of a command line, where it is an old one; null: no
  /// names were given up.
  std::optional<Version> (*last_release)(std::span<const std::string>) = nullptr;
  /// Fills the answer for a question. Throws Refusal for a launch that the engine refuses, and
  /// Error(usage, checkpoint_unusable) for a question that is none.
  void (*answer_to)(const Question&, Version, Answer&) = nullptr;

  /// The engine's name of a flag of ours; empty: it has none.
  [[nodiscard]] std::string_view own_name(std::string_view flag) const;
  /// A flag of ours as the engine spells it, with its value: --max-model-len 16k as
  /// --context-length 16000, fp8 as fp8_e4m3 where it knows that name alone. Empty: it has no such
  /// flag or value.
  [[nodiscard]] std::vector<std::string> translate(const std::string& flag,
                                                   const std::string& value) const;

  /// Answers for the release asked for, or the nearest known one below; a refusal is an answer.
  /// Throws Error(usage, checkpoint_unusable).
  [[nodiscard]] Answer ask(const Question& question) const;
};

/// All engines, in the order in which they are listed.
std::span<const Engine> engines();

/// The engine of a name or an alias, in any case; null: none of these.
const Engine* find_engine(std::string_view name);

}  // namespace plimsoll::engines
