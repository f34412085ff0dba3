// The release of vLLM that a pasted launch runs: the one that its text installs, else its image's.
#include <fmt/format.h>

#include <algorithm>

#include "cli/plan/options.h"
#include "cli/plan/paste/pasted_launch.h"

namespace plimsoll::cli {
namespace {

struct ImageOfMonth {
  std::string_view month, release;
};

// nvcr.io/nvidia/vllm:25.10-py3, by
// docs.nvidia.com/deeplearning/frameworks/vllm-release-notes; 25.11, 26.01 and 26.08 by logs of
// vLLM in them (the notes of 26.01 repeat 25.12's), 25.12 by vllm-project/vllm#31424.
constexpr ImageOfMonth kNvidia[] = {{"25.10", "0.10.2"}, {"25.11", "0.11.0"}, {"25.12", "0.11.1"},
                                    {"26.01", "0.13.0"}, {"26.03", "0.17.1"}, {"26.05", "0.20.1"},
                                    {"26.08", "0.27.1"}, {"26.10", "0.31.0"}};

/// Builds from a source without tags call themselves 0.1.dev1234.
bool is_untagged(const vllm::VllmVersion& version) {
  return version < vllm::VllmVersion{0, 2, 0};
}

/// The image of that month, else the last known before it; the first where all known are later.
const ImageOfMonth& nvidia_image(std::string_view month) {
  const auto after = std::ranges::upper_bound(kNvidia, month, {}, &ImageOfMonth::month);
  return after == std::begin(kNvidia) ? *after : *std::prev(after);
}

}  // namespace

std::string tag_of(const std::string& image) {
  const size_t mark = image.find_first_of(":@", image.rfind('/') + 1);
  std::string tag = mark == std::string::npos ? "" : image.substr(mark + 1);
  if (mark != std::string::npos && image[mark] == ':') tag = tag.substr(0, tag.find('@'));
  if (tag.starts_with("v")) tag.erase(0, 1);
  return tag;
}

void read_release(const PastedLaunch& launch, PlanOptions& options) {
  vllm::EngineArgs& args = options.launch.args;
  const auto say_untold = [&](const std::string& what) {
    options.release_note = fmt::format(
        "{} does not say its release of vLLM: planned as {}, the newest known "
        "(--vllm-version X.Y.Z says another)",
        what, vllm::version_text(args.version));
  };
  if (const auto installed = launch.releases.find("vllm"); installed != launch.releases.end()) {
    const vllm::VllmVersion version = vllm::parse_version(installed->second);
    if (is_untagged(version)) return say_untold(installed->second);
    args.version = version;
    return;
  }
  const std::string& image = launch.image;
  if (image.empty()) return;
  const std::string tag = tag_of(image);
  const bool of_vllm = image.find("vllm") != std::string::npos;
  const bool of_month = image.find("nvidia/vllm:") != std::string::npos && tag.size() >= 5 &&
                        tag[2] == '.' && tag.find_first_not_of("0123456789.") >= 5;
  if (of_vllm && tag.starts_with("0.") && !is_untagged(vllm::parse_version(tag))) {
    args.version = vllm::parse_version(tag);
  } else if (of_month) {
    const ImageOfMonth& known = nvidia_image(tag.substr(0, 5));
    args.version = vllm::parse_version(std::string(known.release));
    if (!tag.starts_with(known.month))
      options.release_note = fmt::format(
          "the release of vLLM in {} is not known: planned as {}, that of {} (--vllm-version X.Y.Z "
          "says another)",
          image, known.release, known.month);
  } else {
    return say_untold("the image " + image);
  }
  args.flashinfer_installed = true;  // in these images
}

}  // namespace plimsoll::cli
