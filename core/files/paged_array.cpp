#include "files/paged_array.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "files/names.h"
#include "files/seam.h"

namespace plimsoll::files {
namespace {

std::string& temporary_folder() {
  static std::string folder;
  return folder;
}

// A file that has no name, or loses it at once where the file system knows no other way.
Descriptor open_nameless(const std::string& folder) {
  const int nameless = open_to_write(folder.c_str(), O_TMPFILE | O_RDWR);
  if (nameless >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return Descriptor(nameless);
  std::string name = folder + "/.plimsoll.XXXXXX";
  Descriptor named(mkostemp(name.data(), O_CLOEXEC));
  if (named.get() >= 0) unlink(name.c_str());
  return named;
}

bool write_all(int file, const std::byte* bytes, size_t count, uint64_t offset) {
  while (count > 0) {
    const ssize_t written = write_at(file, bytes, count, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    count -= static_cast<size_t>(written);
    offset += static_cast<uint64_t>(written);
  }
  return true;
}

}  // namespace

void set_temporary_folder(std::string folder) {
  temporary_folder() = std::move(folder);
}

PagedBytes::PagedBytes(std::string folder, size_t most_bytes)
    : folder_(folder.empty() ? "/var/tmp" : std::move(folder)), most_bytes_(most_bytes) {}

PagedBytes::Page& PagedBytes::write(uint64_t page) {
  Frame& frame = frame_of(page);
  frame.changed = true;
  return *frame.bytes;
}

PagedBytes::Frame& PagedBytes::frame_of(uint64_t page) {
  while (true) {
    if (!frames_.empty()) {
      Frame& frame = frames_[page & (frames_.size() - 1)];
      if (frame.bytes && frame.page == page) return frame;
      const bool is_full = 2 * frames_.size() * kPage > std::min(most_bytes_, page_bound());
      if (!frame.bytes || (is_full && save(frame))) {
        load(frame, page);
        return frame;
      }
    }
    add_frames();
  }
}

void PagedBytes::add_frames() {
  std::vector<Frame> old(std::max<size_t>(1, 2 * frames_.size()));
  old.swap(frames_);
  for (Frame& frame : old) {
    if (frame.bytes) frames_[frame.page & (frames_.size() - 1)] = std::move(frame);
  }
}

void PagedBytes::load(Frame& frame, uint64_t page) const {
  if (!frame.bytes) frame.bytes = std::make_unique<Page>();
  size_t read = 0;
  while (page < file_pages_ && read < kPage) {
    const ssize_t got = pread(file_.get(), frame.bytes->data() + read, kPage - read,
                              static_cast<off_t>(page * kPage + read));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      fail(ExitCode::output_unwritable, "{}: a temporary file there cannot be read back: {}",
           folder_, got == 0 ? "it ends too early" : reason());
    }
    read += static_cast<size_t>(got);
  }
  std::memset(frame.bytes->data() + read, 0, kPage - read);
  frame.page = page;
  frame.changed = false;
}

void PagedBytes::open() {
  const std::string& wanted = temporary_folder();
  if (!wanted.empty()) file_ = open_nameless(wanted);
  if (file_.get() < 0) {
    file_ = open_nameless(folder_);
  } else {
    folder_ = wanted;
  }
}

// Writes a page to the file before another page takes its frame; false: it cannot be written, and
// must stay.
bool PagedBytes::save(Frame& frame) {
  if (!frame.changed) return true;
  if (file_.get() < 0 && may_save_) open();
  may_save_ = may_save_ && file_.get() >= 0 &&
              write_all(file_.get(), frame.bytes->data(), kPage, frame.page * kPage);
  if (may_save_) file_pages_ = std::max(file_pages_, frame.page + 1);
  return may_save_;
}

}  // namespace plimsoll::files
