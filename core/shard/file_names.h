// Names of shard files: vLLM's pattern, filled as Python's str.format does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll::shard {

inline constexpr const char* kDefaultPattern = "model-rank-{rank}-part-{part}.safetensors";
/// vLLM's file names with pipeline parallelism.
inline constexpr const char* kPipelinePattern =
    "model-pp-{pp_rank}-tp-{tp_rank}-part-{part}.safetensors";

/// Numbers in a file name; fields that the pattern lacks are 0.
struct FileNumbers {
  int64_t stage = 0, rank = 0, part = 0;
};

class FilePattern {
 public:
  /// Parses a pattern; empty text is vLLM's default for the ranks. Fields are rank and tp_rank
  /// (equal), pp_rank, part, perhaps with zeros ("{rank:03d}"); "{{" and "}}" are braces. Throws
  /// Error(usage) for other fields, for a rank that the names lack, for pp_rank without pipeline
  /// parallelism, and for names that lie in another folder.
  FilePattern(const std::string& text, int64_t tensor_parallel, int64_t pipeline_parallel);

  /// Parses a pattern for names of existing files, whatever the ranks.
  explicit FilePattern(const std::string& text);

  [[nodiscard]] std::string name(int64_t stage, int64_t rank, int64_t part) const;
  /// The numbers in a name that follows the pattern, with no more leading zeros than the pattern
  /// asks for.
  [[nodiscard]] std::optional<FileNumbers> match(const std::string& name) const;
  [[nodiscard]] const std::string& text() const { return text_; }
  /// The pattern as vLLM's loader can fill it (its str.format gets `rank`, and "*" as `part`):
  /// "{rank}" for "{tp_rank}" where no stage is named, "*" for a part with zeros.
  [[nodiscard]] std::string loader_text() const;
  [[nodiscard]] bool numbers_parts() const { return has_part_; }

 private:
  void parse();

  std::string text_;
  bool has_rank_ = false;
  bool has_stage_ = false;
  bool has_part_ = false;
};

}  // namespace plimsoll::shard
