#include "shard/verify.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "shard/ranks/rank_file.h"
#include "shard/ranks/rank_stream.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBuffer = size_t{4} << 20;

/// Compares the bytes of one tensor after the other with those of a file, each up to the first
/// difference.
class Comparison : public Sink {
 public:
  explicit Comparison(const checkpoint::MappedFile& file) : file_(file), buffer_(kBuffer) {}

  /// The bytes that follow are a tensor's, which the file has from `offset` on.
  void begin_tensor(int64_t offset) {
    offset_ = static_cast<size_t>(offset);
    done_ = 0;
    difference_ = -1;
  }

  std::span<std::byte> room(size_t least) override {
    if (least > buffer_.size()) buffer_.resize(least);
    return buffer_;
  }

  void commit(size_t count) override {
    if (difference_ < 0) compare(count);
    done_ += count;
  }

  /// Bytes from the start of the tensor to the first difference; -1: none.
  [[nodiscard]] int64_t difference() const { return difference_; }

 private:
  void compare(size_t count) {
    const checkpoint::GuardedRead guard(file_);
    const std::byte* there = file_.data() + offset_ + done_;
    if (std::memcmp(there, buffer_.data(), count) != 0) {
      const auto at = std::mismatch(buffer_.begin(),
                                    buffer_.begin() + static_cast<std::ptrdiff_t>(count), there);
      difference_ = static_cast<int64_t>(done_) + (at.first - buffer_.begin());
    }
    guard.finish();
  }

  const checkpoint::MappedFile& file_;
  size_t offset_ = 0;
  size_t done_ = 0;
  int64_t difference_ = -1;
  std::vector<std::byte> buffer_;
};

// A shard file in the folder that is none of the known ones.
std::optional<std::string> find_stranger(const fs::path& folder, std::vector<std::string> known) {
  std::ranges::sort(known);
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.ends_with(".safetensors") || std::ranges::binary_search(known, name)) continue;
    return fmt::format("{}: does not belong to these shards, and vLLM might read it",
                       at->path().string());
  }
  return std::nullopt;
}

std::optional<std::string> compare_file(const Job& job, const PartPlan& part, int64_t rank,
                                        const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return fmt::format("{}: is missing", path.string());
  const auto size = static_cast<int64_t>(fs::file_size(path, error));
  if (size != part.bytes()) {
    return fmt::format("{}: has {} bytes, expected {}", path.string(), size, part.bytes());
  }
  const checkpoint::MappedFile file(path);
  if (file.head(part.header.size()) != part.header) {
    return fmt::format("{}: its header differs", path.string());
  }
  const std::vector<int64_t> ends = tensor_ends(part);
  Comparison comparison(file);
  for (size_t i = 0; i < part.tensors.size(); ++i) {
    comparison.begin_tensor(ends[i]);
    stream_tensor(job.source(), *part.tensors[i], rank, job.layout().tensor_parallel, comparison);
    if (comparison.difference() < 0) continue;
    return fmt::format("{}: tensor {} differs at its byte {} (byte {} of the file)", path.string(),
                       part.tensors[i]->name, comparison.difference(),
                       ends[i] + comparison.difference());
  }
  return std::nullopt;
}

std::optional<std::string> compare_digests(const fs::path& path, const FileRecord& known) {
  const checkpoint::MappedFile file(path);
  const checkpoint::Header header = checkpoint::read_header(file);
  std::vector<int64_t> ends = {static_cast<int64_t>(header.data_start)};
  for (const auto& entry : header.entries) {
    ends.push_back(static_cast<int64_t>(header.data_start + entry.end));
  }
  const FileRecord found = digest_file(path, ends);
  if (found.digest == known.digest) return std::nullopt;
  const auto at = std::ranges::mismatch(found.prefixes, known.prefixes).in1;
  const auto index = at - found.prefixes.begin();
  if (index == 0 || at == found.prefixes.end()) {
    return fmt::format("{}: its header is not the one that was written", path.string());
  }
  return fmt::format("{}: tensor {} is not what was written (digest)", path.string(),
                     header.entries[static_cast<size_t>(index - 1)].name);
}

}  // namespace

std::optional<std::string> verify_digests(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / kSidecar, error)) {
    fail(ExitCode::checkpoint_unusable,
         "{}: there is no {} in it; compare with the model itself: --verify DIR --source MODEL",
         folder.string(), kSidecar);
  }
  std::vector<std::string> names;
  for (const auto& [name, known] : read_record(folder / kSidecar).files) {
    names.push_back(name);
    if (name.find('/') != std::string::npos) {
      fail(ExitCode::checkpoint_unusable, "{}: {} is no plain file name",
           (folder / kSidecar).string(), name);
    }
    if (auto difference = compare_digests(folder / name, known)) return difference;
  }
  return find_stranger(folder, std::move(names));
}

std::map<std::string, FileRecord> side_records(const fs::path& folder) {
  std::map<std::string, FileRecord> records;
  const auto add = [&](const fs::path& path) {
    const auto bytes = static_cast<int64_t>(fs::file_size(path));
    FileRecord record = digest_file(path, {bytes});
    record.prefixes.clear();
    records[path.lexically_relative(folder).string()] = std::move(record);
  };
  for (const std::string& name : side_files(folder)) {
    if (name == kSidecar || name == kJournal) continue;
    const fs::path path = folder / name;
    std::error_code error;
    if (fs::is_regular_file(path, error)) add(path);
    if (!fs::is_directory(path, error)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(path, error)) {
      if (entry.is_regular_file(error)) add(entry.path());
    }
  }
  return records;
}

std::optional<std::string> verify_side_files(const std::map<std::string, FileRecord>& known,
                                             const fs::path& folder) {
  const std::map<std::string, FileRecord> found = side_records(folder);
  for (const auto& [name, record] : known) {
    const auto there = found.find(name);
    if (there == found.end()) return fmt::format("{}: is missing", (folder / name).string());
    if (there->second.digest == record.digest) continue;
    return fmt::format("{}: is not what was written ({} bytes, {} then)", (folder / name).string(),
                       there->second.bytes, record.bytes);
  }
  return std::nullopt;
}

std::optional<std::string> verify_source(const Job& job, const fs::path& folder) {
  for (size_t stage = 0; stage < job.stages().size(); ++stage) {
    const auto& parts = job.stages()[stage].parts;
    for (size_t part = 0; part < parts.size(); ++part) {
      for (int64_t rank = 0; rank < job.layout().tensor_parallel; ++rank) {
        const fs::path path = folder / job.file_name(stage, rank, part);
        if (auto difference = compare_file(job, parts[part], rank, path)) return difference;
      }
    }
  }
  return find_stranger(folder, job.file_names());
}

}  // namespace plimsoll::shard
