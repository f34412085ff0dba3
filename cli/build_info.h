// Sources and libraries of this build: constants that CMake writes (cmake/build_info.cmake).
#pragma once

namespace plimsoll::cli {

struct BuildInfo {
  const char* compiler;   // "GNU 12.2.0, Release"
  const char* cuda;       // "12.8 for sm 80-real;90, FlashInfer 0.6.9"; "none"
  const char* libraries;  // "fmt 9.1.0, ..."
};

extern const BuildInfo kBuildInfo;
/// The commit's short hash, followed by "+" when files differed; "unknown" outside a checkout.
/// Linked into the program alone, because it changes with every commit.
extern const char* const kCommit;

}  // namespace plimsoll::cli
