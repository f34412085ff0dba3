// One sharding job: what the user asked for, the files that it makes, and its record in the output.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "shard/file_names.h"
#include "shard/layout.h"
#include "shard/parts.h"
#include "shard/source.h"

namespace plimsoll::shard {

inline constexpr const char* kSidecar = "plimsoll-shard.json";
/// The record of a job that is not finished.
inline constexpr const char* kJournal = "plimsoll-shard.json.part";

struct JobOptions {
  int64_t tensor_parallel = 1;
  int64_t pipeline_parallel = 1;
  std::string dtype = "auto";
  std::optional<int64_t> max_file_size = int64_t{5} << 30;
  std::string file_pattern = {};  // empty: vLLM's
  Release release = kNewestRelease;
  std::vector<int64_t> pipeline_partition = {};  // layers of each stage; empty: vLLM's choice
};

/// A stage's files, equal on all its tensor-parallel ranks.
struct StagePlan {
  Stage tensors;
  std::vector<PartPlan> parts;  // point into `tensors`
};

class Job {
 public:
  /// Throws Error(usage) for what vLLM refuses as well. `source` must outlive the job.
  Job(const Source& source, const JobOptions& options);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] const Source& source() const { return source_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] const std::vector<StagePlan>& stages() const { return stages_; }
  [[nodiscard]] std::string file_name(size_t stage, int64_t rank, size_t part) const;
  /// Names of all files.
  [[nodiscard]] std::vector<std::string> file_names() const;
  /// Bytes of all files.
  [[nodiscard]] int64_t bytes() const;
  /// The job as the sidecar stores it; two jobs are equal when these are.
  [[nodiscard]] Json description() const;

 private:
  const Source& source_;
  JobOptions options_;
  Layout layout_;
  FilePattern pattern_;
  std::vector<StagePlan> stages_;
};

/// Size and digests of a file in the sidecar.
struct FileRecord {
  int64_t bytes = 0;
  std::string digest;  // XXH3 of 128 bits
  /// The first 16 digits of the digest of the file up to the end of its header, and up to the end
  /// of each tensor, in the order of the file.
  std::vector<std::string> prefixes;
};

struct Record {
  Json job;
  std::map<std::string, FileRecord> files;
  std::map<std::string, FileRecord> side_files = {};  // config.json, the tokenizer's, ...
  std::vector<std::string> left_out = {};             // names or patterns of the source's tensors
};

std::string record_text(const Record& record, const std::string& tool_version);
/// Reads a sidecar or journal. Throws Error(foreign_output) for anything else.
Record read_record(const std::filesystem::path& file);
/// The options that a record's job states. Throws Error(foreign_output).
JobOptions options_of(const Record& record, const std::filesystem::path& file);

}  // namespace plimsoll::shard
