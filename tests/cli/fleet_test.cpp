// The processes of a launch, here threads of this test with a post office in place of MPI: what
// they agree on, what each hears of the others' faults, and how they end.
#include "processes/fleet.h"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/post_office.h"
#include "processes/mpi_library.h"

namespace plimsoll::processes {

using namespace std::chrono_literals;
using Catch::Contains;

namespace {

/// The fleets of a launch's processes.
class Launch {
 public:
  Launch() {
    clear_post();
    for (const PlimsollMpi& mpi : kMpi) {
      fleets_.push_back(std::make_unique<Fleet>(mpi, [this](Fleet& fleet, const Fault& fault) {
        const std::lock_guard lock(mutex_);
        left_[fleet.process()] = fault.code;
      }));
    }
  }
  Fleet& operator[](size_t process) { return *fleets_[process]; }
  /// What each process does, side by side; returns their errors, "" where there was none.
  std::vector<std::string> all(const std::function<void(Fleet&)>& act) {
    std::vector<std::string> errors(kAll);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kAll; ++i) {
      threads.emplace_back([&, i] {
        try {
          act(*fleets_[i]);
        } catch (const std::exception& error) {
          errors[i] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }
  std::map<int64_t, ExitCode> left() {
    const std::lock_guard lock(mutex_);
    return left_;
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, ExitCode> left_;
  std::vector<std::unique_ptr<Fleet>> fleets_;
};

const std::vector<std::string> kNoErrors(kAll);

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

TEST_CASE("all find the least of their values, whoever has it, time after time") {
  Launch launch;
  std::array<std::vector<uint64_t>, kAll> found;
  const std::array<std::array<uint64_t, kAll>, 4> rounds = {
      {{5, 3, 9}, {2, 6, 7}, {8, 9, 1}, {4, 4, 4}}};
  const auto errors = launch.all([&](Fleet& fleet) {
    const auto process = static_cast<size_t>(fleet.process());
    for (const auto& round : rounds) {
      fleet.agree("a: 1\nb: 2\n");
      found[process].push_back(fleet.least(round[process]));
    }
    fleet.end();
  });
  CHECK(errors == kNoErrors);
  for (const auto& values : found) CHECK(values == std::vector<uint64_t>{3, 2, 1, 4});
  CHECK(post.finished == std::array<int, kAll>{1, 1, 1});
  CHECK(launch.left().empty());
  CHECK(launch[0].count() == kAll);
  CHECK(launch[1].same_node(0));
  CHECK(launch[1].same_node(1));
  CHECK_FALSE(launch[1].same_node(2));
  CHECK_FALSE(launch[2].same_node(0));
}

TEST_CASE("the first fact that differs ends the launch, and is told with both values") {
  struct Row {
    const char *first, *last, *told;
  };
  for (const Row& row :
       {Row{"-tp: 2\n--seed: 1\n", "-tp: 2\n--seed: 2\n", ": --seed: 2 here, 1 in process 0"},
        Row{"-tp: 2\n--seed: 1\n", "-tp: 4\n--seed: 2\n", ": -tp: 4 here, 2 in process 0"},
        Row{"-tp: 2\n", "-pp: 2\n", ": -pp: 2 here, -tp: 2 in process 0"},
        Row{"-tp: 2\n", "-tp: 2\nrank\n", "another number of ranks"},
        Row{"-tp: 2\nrank\n", "-tp: 2\n", "another number of ranks"}}) {
    INFO(row.told);
    Launch launch;
    std::atomic<int> usage = 0;
    const auto errors = launch.all([&](Fleet& fleet) {
      try {
        fleet.agree(fleet.process() == 2 ? row.last : row.first);
      } catch (const Error& error) {
        if (error.code() == ExitCode::usage) ++usage;
        if (fleet.process() == 2) fleet.report(error.code(), error.what());
        if (fleet.process() == 0) fleet.shut_down(error.code());
        throw;
      }
    });
    CHECK(usage == kAll);
    CHECK_THAT(errors[0], Catch::StartsWith("process 2 of 3, on far: the processes of one") &&
                              Contains(row.told));
    CHECK_THAT(errors[2], Catch::StartsWith("the processes of one") && Contains(row.told));
    CHECK(launch[1].fault().has_value());
  }
}

TEST_CASE("accounts reach the first one, which waits until all have ended") {
  Launch launch;
  std::array<std::string, kAll> accounts;
  double seconds = 0;
  const auto errors = launch.all([&](Fleet& fleet) {
    if (fleet.process() > 0) {
      if (fleet.process() == 2) std::this_thread::sleep_for(400ms);
      fleet.send_account("of " + std::to_string(fleet.process()));
      if (fleet.process() == 1) std::this_thread::sleep_for(1000ms);
      return fleet.end();
    }
    const auto start = std::chrono::steady_clock::now();
    for (const int other : {2, 1})
      accounts[static_cast<size_t>(other)] = fleet.receive_account(other);
    fleet.end();
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  });
  CHECK(errors == kNoErrors);
  CHECK(accounts[1] == "of 1");
  CHECK(accounts[2] == "of 2");
  CHECK(seconds > 0.9);
  CHECK(post.finished == std::array<int, kAll>{1, 1, 1});
  for (Fleet* fleet : {&launch[0], &launch[1], &launch[2]}) CHECK_FALSE(fleet->fault());
}

TEST_CASE("a fault in one wakes the others once, and the first one's code is theirs") {
  Launch launch;
  std::atomic<int> woken = 0, forgotten = 0, late = 0;
  const int who = 0, gone = 0;
  launch[0].when_lost(&who, [&] { ++woken; });
  launch[0].when_lost(&gone, [&] { ++forgotten; });
  launch[0].forget(&gone);
  std::string lost;
  std::thread waits([&] {
    std::string letter(4, ' ');
    try {
      launch[0].rank(0, 0, kAll).receive(1, std::as_writable_bytes(std::span(letter)));
    } catch (const std::exception& error) {
      lost = error.what();
    }
  });
  CHECK_FALSE(launch[0].aborted());
  launch[1].report(ExitCode::does_not_fit, "rank 1: no room");
  waits.join();
  CHECK(lost == std::string(engine::RankLost().what()));
  CHECK(post.cancelled[0] == 1);
  REQUIRE(comes([&] { return woken > 0; }));
  launch[2].report(ExitCode::checkpoint_unusable, "no file");  // too late to be the reason
  CHECK(launch[0].aborted());
  launch[0].when_lost(&gone, [&] { ++late; });
  CHECK(late == 1);
  const auto fault = launch[0].fault();
  REQUIRE(fault);
  CHECK(fault->code == ExitCode::does_not_fit);
  CHECK(fault->text == "rank 1: no room");
  CHECK_FALSE(launch[1].aborted());
  launch[0].shut_down(ExitCode::does_not_fit);
  launch[0].shut_down(ExitCode::bug);  // is said already
  for (const size_t other : {1, 2}) {
    INFO(other);
    REQUIRE(comes([&] { return launch[other].fault().has_value(); }));
    CHECK(launch[other].fault()->code == ExitCode::does_not_fit);
    CHECK(comes([&] { return launch[other].aborted(); }));
    CHECK(sent(0, static_cast<int>(other), Kind::left) == 1);
  }
  CHECK(woken == 1);
  CHECK(forgotten == 0);
  CHECK(launch[0].fault()->code == ExitCode::does_not_fit);
  // Who does not end by itself is made to; the first one has ended.
  CHECK(comes([&] { return launch.left().size() == 2; }));
  CHECK(launch.left() ==
        std::map<int64_t, ExitCode>{{1, ExitCode::does_not_fit}, {2, ExitCode::does_not_fit}});
}

TEST_CASE("a launch that has nothing to do lets all go") {
  Launch launch;
  launch[0].end_idle();
  for (const size_t other : {1, 2}) {
    REQUIRE(comes([&] { return launch[other].fault().has_value(); }));
    CHECK(launch[other].fault()->code == ExitCode::done);
    launch[other].end_idle();
  }
  CHECK(post.finished == std::array<int, kAll>{1, 1, 1});
  CHECK(sent(1, 0, Kind::left) == 0);
}

TEST_CASE("ranks of a replica are divided over all in their order") {
  Launch launch;
  constexpr int64_t kRanks = 6;
  launch[0].rank(1, 1, kRanks).send(4, bytes_of("1 to 4"));
  launch[1].rank(1, 2, kRanks).send(4, bytes_of("2 to 4"));
  launch[0].rank(1, 0, kRanks).send(5, bytes_of("0 to 5"));
  const auto received = [&](int64_t rank, int64_t from) {
    std::string text(6, ' ');
    launch[2].rank(1, rank, kRanks).receive(from, std::as_writable_bytes(std::span(text)));
    return text;
  };
  CHECK(received(5, 0) == "0 to 5");
  CHECK(received(4, 2) == "2 to 4");
  CHECK(received(4, 1) == "1 to 4");
  // One side of an exchange may have nothing to say.
  engine::Communicator &here = launch[0].rank(0, 0, kAll), &there = launch[1].rank(0, 1, kAll);
  std::string text(3, ' ');
  here.exchange(0, 1, bytes_of("abc"), {});
  there.exchange(1, 0, {}, std::as_writable_bytes(std::span(text)));
  CHECK(text == "abc");
  there.send(0, bytes_of("def"));  // nothing else was sent before it
  here.receive(1, std::as_writable_bytes(std::span(text)));
  CHECK(text == "def");
  // Lengths are those of the plan.
  for (const char* other : {"four", "ab"}) {
    here.send(1, bytes_of(other));
    CHECK_THROWS_AS(there.receive(0, std::as_writable_bytes(std::span(text))), std::logic_error);
  }
}

TEST_CASE("pulses tell who lives, and their absence who does not") {
  clear_post();
  Link near(kMpi[0]), far(kMpi[1]), third(kMpi[2]);
  std::atomic<int> left = 0;
  std::atomic<int> early = 0;
  const auto start_of = [&](Link& link, std::atomic<int>& leaves) {
    return std::make_unique<Control>(
        link,
        ControlOptions{
            .silence = 2000ms, .patience = 700ms, .leave = [&leaves](const Fault&) { ++leaves; }});
  };
  const auto first = start_of(near, left), second = start_of(far, early),
             last = start_of(third, early);
  std::this_thread::sleep_for(3500ms);
  for (Control* control : {first.get(), second.get(), last.get()}) CHECK_FALSE(control->fault());
  // Two in a second, each way between the first one and each other.
  for (const auto& [from, to] : {std::pair{0, 1}, {0, 2}, {1, 0}, {2, 0}}) {
    INFO(from << " to " << to);
    CHECK(sent(from, to, Kind::pulse) >= 3);
    CHECK(sent(from, to, Kind::pulse) <= 8);
  }
  CHECK(sent(1, 2, Kind::pulse) == 0);
  {
    const std::lock_guard lock(post.mutex);
    post.unplugged = {2};
  }
  REQUIRE(comes([&] { return first->fault().has_value(); }));
  const auto since = std::chrono::steady_clock::now();
  CHECK(first->fault()->code == ExitCode::device_lost);
  CHECK_THAT(first->fault()->text,
             Catch::StartsWith("process 2 of 3, on far, has not been heard for 2 seconds"));
  CHECK_FALSE(second->fault());
  CHECK(left == 0);
  REQUIRE(comes([&] { return left > 0; }));
  CHECK(std::chrono::steady_clock::now() - since > 500ms);
  CHECK(left == 1);
  // Its texts are refused with the reason; one that came before is not lost.
  CHECK_THROWS_WITH(first->await(1, Kind::account), Contains("has not been heard"));
  // The others miss the first one in their turn.
  {
    const std::lock_guard lock(post.mutex);
    post.unplugged = {0};
  }
  REQUIRE(comes([&] { return second->fault().has_value(); }));
  CHECK_THAT(second->fault()->text, Catch::StartsWith("process 0 of 3, on near, has not been"));
  CHECK(early == 0);
}

TEST_CASE("an MPI that fails is a fault that names its reason") {
  clear_post();
  PlimsollMpi broken = kMpi[0];
  broken.probe = [](int, int, int*, int*, size_t*) { return 1; };
  Link link(broken);
  Control control(link, {.abort = [] {}, .leave = [](const Fault&) {}});
  REQUIRE(comes([&] { return control.fault().has_value(); }));
  CHECK(control.fault()->code == ExitCode::device_lost);
  CHECK(control.fault()->text == "MPI: a cut wire");
  control.shut_down(ExitCode::device_lost);
}

TEST_CASE("a plug-in for MPI that is nowhere is told with all places where it was looked for") {
  CHECK_THROWS_WITH(open_mpi({"/nowhere", "/none"}, {"a.so", "b.so"}),
                    Contains("/nowhere/a.so") && Contains("/none/a.so") &&
                        Contains("/nowhere/b.so") && Contains("/none/b.so") &&
                        Contains("libopenmpi3") && Contains("libmpich12"));
}

}  // namespace plimsoll::processes
