#include "batch/output.h"

#include <map>
#include <vector>

namespace plimsoll::batch {
namespace {

constexpr size_t kCopyBytes = size_t{1} << 20;

// Appends to PATH.part in order of completion and remembers where each slot's line lies.
class JournalOutput final : public Output {
 public:
  JournalOutput(std::string path, files::Existing existing)
      : path_(std::move(path)),
        part_(files::OutputFile::open_owned(path_ + ".part")),
        existing_(existing) {
    if (existing == files::Existing::refuse && part_.size() > 0) {
      fail(ExitCode::foreign_output,
           "{}: holds the finished lines of an earlier run that did not end; keep it elsewhere, or "
           "start anew with --overwrite",
           part_.path());
    }
    part_.truncate(0);
    // Only now, under the lock: another process may just have published it.
    if (existing == files::Existing::refuse && files::exists(path_)) {
      files::remove_file(part_.path());
      fail(ExitCode::foreign_output,
           "{}: is there already; choose another name, or replace it with --overwrite", path_);
    }
  }

  // A run that fails before its first line leaves nothing behind.
  ~JournalOutput() override {
    if (end_ == 0 && !published_) files::remove_if_possible(part_.path());
  }

  void put(uint64_t slot, std::string line) override {
    if (line.empty()) return;
    part_.append(line);
    if (slot >= index_.size()) index_.resize(slot + 1);
    in_order_ = in_order_ && slot + 1 == index_.size();
    index_[slot] = {end_, line.size()};
    end_ += line.size();
  }

  void publish() override {
    part_.sync();
    if (in_order_) {
      files::rename_file(part_.path(), path_, existing_);
    } else {
      const std::string ordered_path = path_ + ".ordered.part";
      files::OutputFile ordered = files::OutputFile::open_owned(ordered_path);
      ordered.truncate(0);
      copy_in_order(ordered);
      ordered.sync();
      files::rename_file(ordered_path, path_, existing_);
      ordered.close();
      files::remove_file(part_.path());
    }
    published_ = true;
    part_.close();
  }

  void keep() override { part_.sync(); }
  const std::string& kept_at() const override { return part_.path(); }

 private:
  struct Extent {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  void copy_in_order(files::OutputFile& to) const {
    std::string buffer;
    for (const Extent& extent : index_) {
      if (extent.bytes == 0) continue;
      const size_t before = buffer.size();
      buffer.resize(before + extent.bytes);
      part_.read_at(extent.offset, buffer.data() + before, extent.bytes);
      if (buffer.size() < kCopyBytes) continue;
      to.append(buffer);
      buffer.clear();
    }
    to.append(buffer);
  }

  std::string path_;
  files::OutputFile part_;
  files::Existing existing_;
  std::vector<Extent> index_;  // by slot
  uint64_t end_ = 0;
  bool in_order_ = true;
  bool published_ = false;
};

// Writes as soon as all earlier slots are written.
class StreamOutput final : public Output {
 public:
  explicit StreamOutput(const std::string& path) : file_(files::OutputFile::open_stream(path)) {}

  void put(uint64_t slot, std::string line) override {
    held_back_ += line.size();
    waiting_.emplace(slot, std::move(line));
    while (!waiting_.empty() && waiting_.begin()->first == next_) {
      write_first();
      ++next_;
    }
  }

  size_t held_back() const override { return held_back_; }
  void publish() override {
    file_.sync();
    file_.close();
  }

  void keep() override {
    while (!waiting_.empty()) write_first();
    publish();
  }
  const std::string& kept_at() const override { return file_.path(); }

 private:
  void write_first() {
    const std::string line = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    held_back_ -= line.size();
    file_.append(line);
  }

  files::OutputFile file_;
  std::map<uint64_t, std::string> waiting_;
  uint64_t next_ = 0;
  size_t held_back_ = 0;
};

}  // namespace

std::unique_ptr<Output> open_output(const std::string& path, files::Existing existing) {
  if (files::is_folder(path)) {
    fail(ExitCode::output_unwritable, "{}: is a folder; the output is a file", path);
  }
  if (files::is_stream(path)) return std::make_unique<StreamOutput>(path);
  return std::make_unique<JournalOutput>(path, existing);
}

}  // namespace plimsoll::batch
