#include "batch/files/output.h"

#include <utility>

namespace plimsoll::batch {

void StreamOutput::put(uint64_t slot, std::string line) {
  held_back_ += line.size();
  waiting_.emplace(slot, std::move(line));
  while (!waiting_.empty() && waiting_.begin()->first == next_) {
    write_first();
    ++next_;
  }
}

void StreamOutput::finish() {
  while (!waiting_.empty()) write_first();
  file_.sync();
  file_.close();
}

void StreamOutput::write_first() {
  const std::string line = std::move(waiting_.begin()->second);
  waiting_.erase(waiting_.begin());
  held_back_ -= line.size();
  file_.append(line);
}

}  // namespace plimsoll::batch
