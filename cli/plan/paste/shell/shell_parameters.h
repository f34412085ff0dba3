// Variables of a shell text: assignments, and what "${...}" stands for (POSIX, 2.6.2; arrays of
// bash).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/plan/paste/pasted_launch.h"

namespace plimsoll::cli {

/// Stands between the words of an array's value.
inline constexpr char kBetweenWords = '\x1f';

/// True for NAME=VALUE and NAME+=VALUE with a shell's name; vllm==0.12.0 is a requirement.
bool is_assignment(const std::string& word);
/// Sets a variable, or appends to it ("+=").
void assign(Variables& variables, const std::string& assignment);
/// Sets the variable of "NAME=" or "NAME+=" to an array.
void assign_array(Variables& variables, const std::string& begin, const Words& words);

/// What "${INSIDE}" stands for: NAME, NAME[@], @, *, and NAME with a default (:- - := =), an
/// alternative
/// (:+ +) or a message (:? ?). Nothing: the variable is not set, or the form is another.
std::optional<std::string> parameter_value(const std::string& inside, Variables& variables);

/// Takes the functions that begin at the begin of a line out of a shell text: their bodies by their
/// names.
Variables take_functions(std::string& text);

/// Makes "$1", "$2" ... and "$@" stand for a function's arguments: the words behind `at`.
void set_arguments(const Words& words, size_t at, Variables& variables);
/// Does what "shift" and "shift N" do with them.
void shift_arguments(const Words& command, Variables& variables);

/// The product of the numbers in "$((41 * 1024))"; 0 beyond 64 bits.
int64_t product_of(const std::string& text);

/// Keeps what a command writes to a file: echo [-e] "a: 1\nb: 2" > FILE (file_variable).
void keep_echo(const Words& command, const std::string& file, Variables& variables);

/// Gives the variable of "for NAME in WORD ..." its first word.
void begin_loop(const Words& command, Variables& variables);

/// Takes a terminal's prompt from a command: "$", "%", "llama.cpp$", "root@host:~#",
/// "~/llama.cpp $".
void drop_prompt(Words& words);

}  // namespace plimsoll::cli
