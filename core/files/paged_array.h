// Long arrays, such as one entry for each line of a batch: in memory up to a bound, and beyond it
// in a temporary file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "files/descriptor.h"

namespace plimsoll::files {

/// The folder in which temporary files are made where that is possible, instead of those that
/// PagedBytes is given (the variable TMPDIR); empty: none. Not while other threads run.
void set_temporary_folder(std::string folder);

/// Pages of bytes that are zero at first. Page N is in memory in frame N modulo their number; the
/// page that it takes the frame from goes to a temporary file without a name, whose space the
/// system frees when the process ends. Not for several threads at once.
class PagedBytes {
 public:
  static constexpr size_t kPage = 1024;  // most entries of a hash table are alone on theirs
  using Page = std::array<std::byte, kPage>;

  /// The file is made when it is first needed: in the folder of set_temporary_folder(), else in
  /// `folder`; empty: in /var/tmp. Where it cannot be made or written, pages stay in memory beyond
  /// `most_bytes`.
  PagedBytes(std::string folder, size_t most_bytes);

  /// A page, until the next call. Throws Error(output_unwritable) where the file cannot be read.
  const Page& read(uint64_t page) { return *frame_of(page).bytes; }
  Page& write(uint64_t page);
  /// From now on as many bytes of pages may be in memory.
  void allow(size_t most_bytes) { most_bytes_ = most_bytes; }
  /// True once pages have gone to the file.
  [[nodiscard]] bool is_on_disk() const { return file_.get() >= 0; }

 private:
  struct Frame {
    std::unique_ptr<Page> bytes;  // null: no page
    uint64_t page = 0;
    bool changed = false;  // since it was read from the file
  };
  Frame& frame_of(uint64_t page);
  void add_frames();
  void open();
  void load(Frame& frame, uint64_t page) const;
  [[nodiscard]] bool save(Frame& frame);

  std::string folder_;
  size_t most_bytes_;
  bool may_save_ = true;  // false: the file failed
  Descriptor file_;
  uint64_t file_pages_ = 0;
  std::vector<Frame> frames_;  // a power of two of them; page N is in frame N modulo their number
};

/// Entries by number; one that was never set has zero bytes.
template <typename T>
class PagedArray {
  static_assert(std::is_trivially_copyable_v<T> && PagedBytes::kPage % sizeof(T) == 0);

 public:
  /// Bytes in memory of an array that is read and written from one end to the other.
  static constexpr size_t kInOrder = size_t{1} << 20;

  /// See PagedBytes.
  explicit PagedArray(std::string folder = {}, size_t most_bytes = kInOrder)
      : pages_(std::move(folder), most_bytes) {}

  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T operator[](uint64_t index) const {
    T entry;
    std::memcpy(&entry, pages_.read(index / kOfPage).data() + index % kOfPage * sizeof(T),
                sizeof(T));
    return entry;
  }
  /// Sets an entry; the array then reaches to it at least.
  void set(uint64_t index, const T& entry) {
    std::memcpy(pages_.write(index / kOfPage).data() + index % kOfPage * sizeof(T), &entry,
                sizeof(T));
    if (index >= size_) size_ = index + 1;
  }
  void push_back(const T& entry) { set(size_, entry); }
  void allow(size_t most_bytes) { pages_.allow(most_bytes); }
  [[nodiscard]] bool is_on_disk() const { return pages_.is_on_disk(); }

 private:
  static constexpr uint64_t kOfPage = PagedBytes::kPage / sizeof(T);

  mutable PagedBytes pages_;  // reading brings pages into memory
  uint64_t size_ = 0;
};

}  // namespace plimsoll::files
