// A rank's file while it is written, and its digests.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "shard/job.h"
#include "shard/output_folder.h"
#include "shard/rank_stream.h"
#include "shard/sha256.h"

namespace plimsoll::shard {

class RankFile : public Sink {
 public:
  RankFile(OutputFolder& folder, const std::string& name, int64_t bytes, size_t buffer_bytes)
      : file_(folder, name, bytes), buffer_(buffer_bytes) {}

  void add(const std::string& bytes);
  std::span<std::byte> room(size_t least) override;
  void commit(size_t count) override;
  void pass(std::span<const std::byte> bytes) override;
  /// A tensor, or the header, ends here.
  void end_tensor();
  /// Everything to the disk; the file still has its temporary name.
  void finish();
  void publish() { file_.publish(); }
  [[nodiscard]] const FileRecord& record() const { return record_; }

 private:
  void flush();

  TemporaryFile file_;
  std::vector<std::byte> buffer_;
  size_t filled_ = 0;
  size_t hashed_ = 0;  // of the bytes in the buffer
  Sha256 hash_;
  FileRecord record_;
};

/// SHA-256 of a file and of its prefixes as RankFile records them; `ends` are their byte counts.
/// Throws Error(checkpoint_unusable) for a file that is shorter.
FileRecord digest_file(const std::filesystem::path& path, const std::vector<int64_t>& ends);
/// Where header and tensors of a part end, in bytes of the file.
std::vector<int64_t> tensor_ends(const PartPlan& part);

}  // namespace plimsoll::shard
