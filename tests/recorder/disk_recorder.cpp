#include "recorder/disk_recorder.h"

#include <algorithm>
#include <atomic>

namespace plimsoll::test {

namespace fs = std::filesystem;

namespace {

std::atomic<DiskRecorder*> recording = nullptr;

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::ranges::mismatch(folder, path).in1 == folder.end();
}

std::string shown(const DiskCall& call) {
  return call.name + " " + call.path.string() + (call.to.empty() ? "" : " to " + call.to.string());
}

}  // namespace

DiskRecorder* disk_recorder() {
  return recording;
}

DiskRecorder::DiskRecorder(const fs::path& folder) : folder_(fs::canonical(folder)) {
  recording = this;
}

DiskRecorder::~DiskRecorder() {
  recording = nullptr;
}

bool DiskRecorder::sees(const fs::path& path) const {
  return is_below(path, folder_);
}

std::optional<DiskAnswer> DiskRecorder::ask(const DiskCall& call) {
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
  }
  return disk_ ? disk_(call) : std::nullopt;
}

void DiskRecorder::done(const DiskCall& call) {
  const std::lock_guard lock(mutex_);
  if (call.name == "write" || call.name == "ftruncate") {
    unsynced_[call.path] = Unsynced::bytes;
  } else if (call.name == "fsync") {
    unsynced_.erase(call.path);
  } else if (call.name == "mkdir" || call.name == "open") {
    unsynced_.try_emplace(call.path.parent_path(), Unsynced::names);
  } else if (call.name == "rename") {
    on_rename(call);
  } else if (call.name == "unlink") {
    check_renames(call.path.parent_path(), call);
    unsynced_.erase(call.path);
  }
}

void DiskRecorder::check_renames(const fs::path& folder, const DiskCall& call) {
  const auto at = unsynced_.find(folder);
  if (at == unsynced_.end() || at->second != Unsynced::renames) return;
  losses_.push_back(shown(call) + ": an earlier rename in that folder is not synced");
}

void DiskRecorder::on_rename(const DiskCall& call) {
  check_renames(call.to.parent_path(), call);
  std::map<fs::path, Unsynced> moved;
  for (auto at = unsynced_.begin(); at != unsynced_.end();) {
    if (!is_below(at->first, call.path)) {
      ++at;
      continue;
    }
    losses_.push_back(shown(call) + ": " + at->first.string() + " is not synced");
    const fs::path rest = at->first.lexically_relative(call.path);
    moved[rest == "." ? call.to : call.to / rest] = at->second;
    at = unsynced_.erase(at);
  }
  unsynced_.merge(moved);
  unsynced_[call.to.parent_path()] = Unsynced::renames;
}

std::vector<DiskCall> DiskRecorder::calls(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<DiskCall> found;
  std::ranges::copy_if(calls_, std::back_inserter(found),
                       [&](const DiskCall& call) { return call.name == name; });
  return found;
}

std::vector<std::string> DiskRecorder::losses() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all = losses_;
  for (const auto& [path, what] : unsynced_) {
    if (what == Unsynced::renames) all.push_back(path.string() + ": a rename in it is not synced");
  }
  return all;
}

}  // namespace plimsoll::test
