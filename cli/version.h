// --version.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::cli {

/// Text of --version: the first line is "plimsoll X.Y.Z"; then a line each for commit, compiler,
/// instruction sets, CUDA and libraries.
std::string version_text(std::string_view commit);

/// "X.Y.Z, commit C": two programs with equal names are the same build.
std::string build_name(std::string_view commit);

}  // namespace plimsoll::cli
