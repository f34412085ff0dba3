// Processes of a launch as threads of a test: letters in place of MPI's messages.
#pragma once

#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "processes/control.h"

namespace plimsoll::processes {

constexpr int kAll = 3;  // processes; the last one is on a machine of its own

/// Letters on their way, by channel, sender, receiver and tag.
struct Post {
  struct Awaited {
    std::tuple<int, int, int, int> letter;
    void* bytes = nullptr;
    size_t room = 0;
  };
  std::mutex mutex;
  std::map<std::tuple<int, int, int, int>, std::deque<std::string>> letters;
  std::array<std::deque<std::pair<int, size_t>>, kAll> mail;  // of control, in order: from, bytes
  std::deque<Awaited> awaited;
  std::map<std::tuple<int, int, int32_t>, int> sent;  // of control: from, to, kind
  std::array<int, kAll> finished{}, cancelled{};
  std::set<int> unplugged;  // processes whose control letters are lost
};
inline Post post;

template <int kProcess>
PlimsollMpi mpi_of() {
  PlimsollMpi mpi{};
  mpi.start = [](int* process, int* processes) {
    *process = kProcess;
    *processes = kAll;
    return 0;
  };
  mpi.machine = [](int process) { return process == 2 ? 2 : 0; };
  mpi.host = [](int process) { return process == 2 ? "far" : "near"; };
  mpi.send = [](int channel, int to, int tag, const void* bytes, size_t count,
                PlimsollMpiRequest* request) {
    const std::lock_guard lock(post.mutex);
    request->handle = nullptr;
    if (channel == kPlimsollMpiControl) {
      int32_t kind = 0;
      std::memcpy(&kind, bytes, sizeof kind);
      ++post.sent[{kProcess, to, kind}];
      if (post.unplugged.contains(kProcess)) return 0;
      post.mail[static_cast<size_t>(to)].emplace_back(kProcess, count);
    }
    post.letters[{channel, kProcess, to, tag}].emplace_back(static_cast<const char*>(bytes), count);
    return 0;
  };
  mpi.receive = [](int channel, int from, int tag, void* bytes, size_t count,
                   PlimsollMpiRequest* request) {
    const std::lock_guard lock(post.mutex);
    request->handle =
        &post.awaited.emplace_back(std::tuple(channel, from, kProcess, tag), bytes, count);
    return 0;
  };
  mpi.test = [](PlimsollMpiRequest* request, int* done, size_t* count) {
    const std::lock_guard lock(post.mutex);
    *done = 1;
    *count = 0;
    const auto* awaited = static_cast<const Post::Awaited*>(request->handle);
    if (awaited == nullptr) return 0;  // it was sent
    const auto found = post.letters.find(awaited->letter);
    *done = found != post.letters.end() && !found->second.empty() ? 1 : 0;
    if (*done == 0) return 0;
    const std::string letter = found->second.front();
    found->second.pop_front();
    std::memcpy(awaited->bytes, letter.data(), std::min(awaited->room, letter.size()));
    *count = letter.size();
    return 0;
  };
  mpi.cancel = [](PlimsollMpiRequest*) {
    const std::lock_guard lock(post.mutex);
    ++post.cancelled[kProcess];
  };
  mpi.probe = [](int, int, int* found, int* from, size_t* count) {
    const std::lock_guard lock(post.mutex);
    auto& mail = post.mail[kProcess];
    *found = mail.empty() ? 0 : 1;
    if (mail.empty()) return 0;
    std::tie(*from, *count) = mail.front();
    mail.pop_front();
    return 0;
  };
  mpi.finish = [] {
    const std::lock_guard lock(post.mutex);
    ++post.finished[kProcess];
    return 0;
  };
  mpi.explain = [](int, char* text, size_t size) { std::strncpy(text, "a cut wire", size); };
  return mpi;
}

inline const std::array<PlimsollMpi, kAll> kMpi = {mpi_of<0>(), mpi_of<1>(), mpi_of<2>()};

inline void clear_post() {
  post.letters.clear();
  post.mail = {};
  post.awaited.clear();
  post.sent.clear();
  post.finished = post.cancelled = {};
  post.unplugged.clear();
}

inline int sent(int from, int to, Kind kind) {
  const std::lock_guard lock(post.mutex);
  return post.sent[{from, to, static_cast<int32_t>(kind)}];
}

/// Waits for something that comes, and says whether it did.
inline bool comes(const std::function<bool()>& there) {
  for (int i = 0; i < 2000 && !there(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return there();
}

}  // namespace plimsoll::processes
