#include "shard/shard_files.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "checkpoint/json_events.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "shard/file_names.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;

using Numbers = std::tuple<int64_t, int64_t, int64_t>;  // rank, stage, part

std::set<Numbers> matching(const fs::path& folder, const FilePattern& pattern) {
  std::set<Numbers> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (const auto numbers = pattern.match(at->path().filename().string())) {
      found.emplace(numbers->rank, numbers->stage, numbers->part);
    }
  }
  if (error) fail(ExitCode::checkpoint_unusable, "{}: {}", folder.string(), error.message());
  return found;
}

// Ranks, stages and parts are numbered from 0 without gaps, stages alike on all ranks.
void check_numbers(const fs::path& folder, const FilePattern& pattern,
                   const std::set<Numbers>& found) {
  const auto missing = [&](const Numbers& numbers) {
    const auto [rank, stage, part] = numbers;
    fail(ExitCode::checkpoint_unusable,
         "{} is missing, but files with higher numbers are there; is the folder complete?",
         (folder / pattern.name(stage, rank, part)).string());
  };
  int64_t stages = 0;
  for (const auto& [rank, stage, part] : found) stages = std::max(stages, stage + 1);
  Numbers previous{-1, stages - 1, 0};
  for (const Numbers& numbers : found) {
    const auto [rank, stage, part] = previous;
    const Numbers next_part{rank, stage, part + 1};
    const Numbers next_stage = stage + 1 < stages ? Numbers{rank, stage + 1, 0}  //
                                                  : Numbers{rank + 1, 0, 0};
    const bool same_stage =
        std::tie(rank, stage) == std::tie(std::get<0>(numbers), std::get<1>(numbers));
    if (numbers != (same_stage ? next_part : next_stage))
      missing(same_stage ? next_part : next_stage);
    previous = numbers;
  }
  if (std::get<1>(previous) + 1 != stages) {
    missing({std::get<0>(previous), std::get<1>(previous) + 1, 0});
  }
}

}  // namespace

ShardFiles find_shard_files(const fs::path& folder, const std::string& text) {
  std::optional<FilePattern> pattern(text.empty() ? kDefaultPattern : text);
  std::set<Numbers> found = matching(folder, *pattern);
  if (found.empty() && text.empty()) {
    found = matching(folder, pattern.emplace(std::string(kPipelinePattern)));
  }
  if (found.empty()) {
    fail(ExitCode::checkpoint_unusable,
         "{} holds no file {}; does --file-pattern say how the shards are named?", folder.string(),
         text.empty() ? fmt::format("{} or {}", kDefaultPattern, kPipelinePattern) : text);
  }
  check_numbers(folder, *pattern, found);
  ShardFiles files{.pattern = pattern->text(), .by_rank = {}};
  files.by_rank.resize(static_cast<size_t>(std::get<0>(*found.rbegin())) + 1);
  for (const auto& [rank, stage, part] : found) {
    files.by_rank[static_cast<size_t>(rank)].push_back(
        {.path = folder / pattern->name(stage, rank, part), .stage = stage});
  }
  return files;
}

bool looks_sharded(const fs::path& folder) {
  std::error_code error;
  return std::ranges::any_of(std::array{kDefaultPattern, kPipelinePattern}, [&](const char* text) {
    return fs::exists(folder / FilePattern(text).name(0, 0, 0), error);
  });
}

// ---- a rank ----

RankShard::RankShard(const std::vector<ShardFile>& files) : first_(files.front().path) {
  std::map<std::string, int64_t> stages;  // of the tensors
  for (const auto& [path, stage] : files) {
    files_.push_back(std::make_unique<checkpoint::MappedFile>(path));
    const checkpoint::MappedFile& file = *files_.back();
    checkpoint::Header header = checkpoint::read_header(file);
    for (checkpoint::HeaderEntry& entry : header.entries) {
      checkpoint::TensorEntry tensor{.name = entry.name,
                                     .dtype = entry.dtype,
                                     .shape = std::move(entry.shape),
                                     .data = file.data() + header.data_start + entry.begin,
                                     .bytes = entry.end - entry.begin,
                                     .file = &file};
      const auto [at, added] = tensors_.try_emplace(entry.name, std::move(tensor));
      const auto before = stages.try_emplace(entry.name, stage).first;
      if (added || before->second != stage) continue;
      fail(ExitCode::checkpoint_unusable,
           "tensor \"{}\" is both in {} and in {}; is one of them left over from other shards?",
           checkpoint::shown(entry.name), at->second.file->path().string(), path.string());
    }
  }
}

RankShard::RankShard(RankShard&&) noexcept = default;
RankShard::~RankShard() = default;

const checkpoint::TensorEntry& RankShard::find(const std::string& name,
                                               const std::vector<int64_t>& shape) const {
  const auto at = tensors_.find(name);
  if (at == tensors_.end()) {
    fail(ExitCode::checkpoint_unusable,
         "{} and the other files of its rank lack tensor {}; is a file missing, or do config.json "
         "and shards not belong together?",
         first_.string(), name);
  }
  if (at->second.shape != shape) {
    fail(ExitCode::checkpoint_unusable, "{}: tensor {} has shape {}, expected {}",
         at->second.file->path().string(), name, checkpoint::shape_text(at->second.shape),
         checkpoint::shape_text(shape));
  }
  return at->second;
}

}  // namespace plimsoll::shard
