// Outputs for lines: a journal, or a stream in input order.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "batch/files/journal.h"
#include "files/output_file.h"

namespace plimsoll::batch {

/// A destination of output lines. They come by slot: 0, 1, 2 ... in input order, each once, in any
/// order of time.
class Output {
 public:
  virtual ~Output() = default;
  /// Takes the line of a slot with its line end; empty: the slot has no line here, or no new one.
  virtual void put(uint64_t slot, std::string line) = 0;
  /// Bytes held back in memory until earlier slots come.
  [[nodiscard]] virtual size_t held_back() const { return 0; }
  /// Syncs to the disk what has come so far.
  virtual void sync() = 0;
};

/// Output to a journal: lines are appended as they come.
class JournalOutput final : public Output {
 public:
  explicit JournalOutput(Journal& journal) : journal_(journal) {}
  void put(uint64_t slot, std::string line) override {
    if (!line.empty()) journal_.append(slot, line);
  }
  void sync() override { journal_.sync(); }

 private:
  Journal& journal_;
};

/// Output to "-", a pipe or a device: a line is written as soon as all earlier slots are.
class StreamOutput final : public Output {
 public:
  explicit StreamOutput(const std::string& path) : file_(files::OutputFile::open_stream(path)) {}
  void put(uint64_t slot, std::string line) override;
  [[nodiscard]] size_t held_back() const override { return held_back_; }
  void sync() override { file_.sync(); }
  /// Writes the lines that wait for earlier slots too, and closes the stream.
  void finish();

 private:
  void write_first();

  files::OutputFile file_;
  std::map<uint64_t, std::string> waiting_;
  uint64_t next_ = 0;
  size_t held_back_ = 0;
};

}  // namespace plimsoll::batch
