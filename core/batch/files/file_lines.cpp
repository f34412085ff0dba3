#include "batch/files/file_lines.h"

#include <algorithm>

namespace plimsoll::batch {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

}  // namespace

// Longer lines than memory has are no records of ours either.
bool FileLines::next(std::string& line, Extent& extent) {
  while (true) {
    const size_t found = buffer_.find('\n', scanned_);
    if (found != std::string::npos) {
      line.assign(buffer_, start_, found - start_);
      extent = {at_, line.size() + 1};
      at_ += extent.bytes;
      start_ = scanned_ = found + 1;
      return true;
    }
    buffer_.erase(0, start_);
    start_ = 0;
    scanned_ = buffer_.size();
    const uint64_t behind = at_ + buffer_.size();
    const size_t more = std::min<uint64_t>(kChunkBytes, end_ - behind);
    if (more == 0) return false;
    buffer_.resize(scanned_ + more);
    file_.read_at(behind, buffer_.data() + scanned_, more);
  }
}

}  // namespace plimsoll::batch
