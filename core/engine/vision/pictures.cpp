#include "engine/vision/pictures.h"

namespace plimsoll::engine {

std::vector<std::vector<PictureRun>> find_runs(std::span<const int32_t> prompt, int32_t placeholder,
                                               std::span<const int64_t> counts) {
  std::vector<std::vector<PictureRun>> pictures;
  int64_t embedding = 0;  // of the picture at hand
  for (size_t at = 0; at < prompt.size(); ++at) {
    if (prompt[at] != placeholder) continue;
    if (pictures.empty() || embedding == counts[pictures.size() - 1]) {
      if (pictures.size() == counts.size()) return pictures;
      pictures.emplace_back();
      embedding = 0;
    }
    std::vector<PictureRun>& runs = pictures.back();
    const auto position = static_cast<int64_t>(at);
    if (runs.empty() || runs.back().end() != position) runs.push_back({position, 0, embedding});
    ++runs.back().count;
    ++embedding;
  }
  return pictures;
}

}  // namespace plimsoll::engine
