// Calls and assignments in a pasted Python text.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/plan/paste/pasted_launch.h"
#include "cli/plan/paste/python_reader.h"

namespace plimsoll::cli {

/// The text with blanks in place of comments and of what is in strings, as long as it was: in it
/// calls are looked for.
std::string code_of(const std::string& text);

/// The place where the arguments of the first call of `function` ("LLM", "sgl.Engine") begin; npos:
/// it is not called.
size_t call_of(const std::string& text, const std::string& function);

/// The name that "from MODULE import NAME as ALIAS" gives to a name of a module, or of one within
/// it; empty: no line imports it.
std::string imported_as(const std::string& code, const std::string& module,
                        const std::string& name);

/// A literal as a word of a command line: a string as it is, the rest as JSON.
std::string word_of(const OrderedJson& value);

/// NAME = literal and os.environ["NAME"] = "VALUE", each at the beginning of a line; the second
/// goes to `variables`. Defaults of argparse's arguments are attributes: "args.model".
/// `expressions`: of f-strings, see NamedValues.
enum class Expressions { left_out, kept };
NamedValues assigned(const std::string& text, Variables& variables,
                     Expressions expressions = Expressions::left_out);

/// An argument as it stands: an empty name for one that has none, "**" and the text for **options
/// that are no literal. Names of **options that are one come by themselves. `written`: the value's
/// text within that of the call; empty for a name out of **options.
using TakeArgument =
    std::function<void(const std::string& name, const Literal& value, std::string_view written)>;
void for_each_argument(const std::string& text, size_t at, const NamedValues& names,
                       const TakeArgument& take_argument);

/// The launch by a Python call of an engine other than vLLM: SGLang's Engine(...), LMDeploy's
/// pipeline(...), TensorRT-LLM's LLM(...), llama-cpp-python's Llama(...); nothing where there is
/// none, or one of vLLM.
std::optional<PastedLaunch> launch_of_other_python(const std::string& text);

}  // namespace plimsoll::cli
