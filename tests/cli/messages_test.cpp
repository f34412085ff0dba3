// Messages between the ranks of several processes, over a post office in place of MPI.
#include "processes/messages.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "processes/control.h"

using namespace plimsoll;

namespace {

/// Letters that were sent and not yet received, by sender, receiver and tag; in the order of MPI.
std::map<std::tuple<int, int, int>, std::deque<std::string>> post;

/// Receives that have been asked for.
struct Awaited {
  std::tuple<int, int, int> letter;
  void* bytes = nullptr;
  size_t room = 0;
};
std::deque<Awaited> all_awaited;

template <int kProcess>
PlimsollMpi post_office() {
  PlimsollMpi mpi{};
  mpi.start = [](int* process, int* processes) {
    *process = kProcess;
    *processes = 2;
    return 0;
  };
  mpi.send = [](int, int to, int tag, const void* bytes, size_t count, PlimsollMpiRequest* sent) {
    post[{kProcess, to, tag}].emplace_back(static_cast<const char*>(bytes), count);
    sent->handle = nullptr;
    return 0;
  };
  mpi.receive = [](int, int from, int tag, void* bytes, size_t count, PlimsollMpiRequest* request) {
    request->handle = &all_awaited.emplace_back(std::tuple(from, kProcess, tag), bytes, count);
    return 0;
  };
  mpi.test = [](PlimsollMpiRequest* request, int* done, size_t* count) {
    *done = 1;
    *count = 0;
    const auto* awaited = static_cast<const Awaited*>(request->handle);
    if (awaited == nullptr) return 0;  // it was sent
    const auto found = post.find(awaited->letter);
    if (found == post.end() || found->second.empty()) return 1;  // a real one would wait for ever
    const std::string letter = found->second.front();
    found->second.pop_front();
    std::memcpy(awaited->bytes, letter.data(), std::min(awaited->room, letter.size()));
    *count = letter.size();
    return 0;
  };
  mpi.explain = [](int, char* text, size_t size) { std::strncpy(text, "no such letter", size); };
  return mpi;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string receive(engine::Communicator& rank, int64_t from, size_t length) {
  std::string text(length, ' ');
  rank.receive(from, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

TEST_CASE("each rank of each replica gets the messages that are meant for it") {
  const PlimsollMpi mpi[] = {post_office<0>(), post_office<1>()};
  for (const int64_t each : {1, 2, 3}) {
    INFO(each << " ranks of a replica in a process");
    post.clear();
    all_awaited.clear();
    processes::Link here(mpi[0]), there(mpi[1]);
    processes::Messages sender(here), receiver(there);
    struct Letter {
      int64_t replica, from, to;
      std::string text;
    };
    std::vector<Letter> letters;
    for (int64_t replica = 0; replica < 3; ++replica)
      for (int64_t from = 0; from < each; ++from)
        for (int64_t to = each; to < 2 * each; ++to)
          letters.push_back({replica, from, to,
                             std::to_string(replica) + ": " + std::to_string(from) + " to " +
                                 std::to_string(to)});
    // Ranks of a process run as they like: what was sent last is received first.
    for (const auto& [replica, from, to, text] : letters) {
      sender.rank(replica, from, each).send(to, bytes_of(text));
      receiver.rank(replica, to, each).send(from, bytes_of("<" + text));
    }
    for (auto letter = letters.rbegin(); letter != letters.rend(); ++letter) {
      const auto& [replica, from, to, text] = *letter;
      CHECK(receive(receiver.rank(replica, to, each), from, text.size()) == text);
      // Its answer, against another message.
      std::string answer(text.size() + 1, ' ');
      sender.rank(replica, from, each)
          .exchange(from, to, bytes_of(text), std::as_writable_bytes(std::span(answer)));
      CHECK(answer == "<" + text);
      CHECK(receive(receiver.rank(replica, to, each), from, text.size()) == text);
    }
  }
}

TEST_CASE("a process that was stopped itself does not take the others for lost") {
  using namespace std::chrono_literals;
  PlimsollMpi mpi = post_office<0>();
  mpi.probe = [](int, int, int* found, int*, size_t*) { return *found = 0; };
  mpi.host = [](int) { return "there"; };
  processes::Link link(mpi);
  processes::Control control(
      link, {.silence = 1000ms, .abort = [] {}, .leave = [](const processes::Fault&) {}});
  const pid_t wakes = ::fork();
  REQUIRE(wakes >= 0);
  if (wakes == 0) {
    ::usleep(1'500'000);
    ::kill(::getppid(), SIGCONT);
    ::_exit(0);
  }
  ::raise(SIGSTOP);
  std::this_thread::sleep_for(100ms);
  CHECK_FALSE(control.fault());
  ::waitpid(wakes, nullptr, 0);
  std::this_thread::sleep_for(1500ms);
  CHECK(control.fault());
  control.shut_down(ExitCode::done);
}
