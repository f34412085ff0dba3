// A rank's file while it is written, and its digests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "files/digest.h"
#include "shard/background_writer.h"
#include "shard/job.h"
#include "shard/output_folder.h"
#include "shard/ranks/rank_stream.h"

namespace plimsoll::shard {

class RankFile : public Sink {
 public:
  /// Allocates two buffers of `buffer_bytes`: one is filled while the other is written.
  RankFile(OutputFolder& folder, const std::string& name, int64_t bytes, size_t buffer_bytes);

  void add(const std::string& bytes);
  std::span<std::byte> room(size_t least) override;
  void commit(size_t count) override;
  /// Marks the end of a tensor or of the header.
  void end_tensor();
  /// Syncs all bytes to the disk; the file still has its temporary name.
  void finish();
  void publish() { file_.publish(); }
  [[nodiscard]] const FileRecord& record() const { return record_; }

 private:
  /// Memory that begins on a page.
  struct Buffer {
    struct Free {
      void operator()(std::byte* bytes) const { std::free(bytes); }
    };
    void grow(size_t least, size_t kept);
    std::unique_ptr<std::byte, Free> bytes;
    size_t size = 0;
  };

  void flush(size_t least);

  TemporaryFile file_;
  size_t buffer_bytes_;
  std::array<Buffer, 2> buffers_;
  size_t current_ = 0;  // of the buffers: the one being filled
  size_t filled_ = 0;
  files::Digest digest_;
  FileRecord record_;
  BackgroundWriter writer_;  // the last member: it reads buffers and file
};

/// Digest of a file and of its prefixes as RankFile records them; `ends` are the prefixes' byte
/// counts. Throws Error(checkpoint_unusable) for a file that is shorter.
FileRecord digest_file(const std::filesystem::path& path, const std::vector<int64_t>& ends);
/// Ends of the header and of each tensor of a part, in bytes of the file.
std::vector<int64_t> tensor_ends(const PartPlan& part);

}  // namespace plimsoll::shard
