// Names of shard files: vLLM's pattern, filled as Python's str.format does.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::shard {

class FilePattern {
 public:
  /// Empty text is vLLM's default for the ranks. Fields are rank and tp_rank (the same), pp_rank,
  /// part; "{{" and "}}" are braces. Throws Error(usage) for other fields, for a rank that the
  /// names lack, for pp_rank without pipeline parallelism, and for names that lie in another
  /// folder.
  FilePattern(const std::string& text, int64_t tensor_parallel, int64_t pipeline_parallel);

  [[nodiscard]] std::string name(int64_t stage, int64_t rank, int64_t part) const;
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool numbers_parts() const { return has_part_; }

 private:
  std::string text_;
  bool has_part_ = false;
};

}  // namespace plimsoll::shard
