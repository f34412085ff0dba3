// Work on blocks in several threads: order, memory, and a system that has no more threads.
#include "batch/files/in_order.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <numeric>

#include "batch/other_user.h"
#include "batch/run_life.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using test::Scratch;

namespace {

struct Seen {
  std::vector<int> taken;
  size_t most_bytes = 0;      // read and not yet taken, as the functions saw it
  size_t returned_bytes = 0;  // the same, as work_in_order says
};

/// Works on `blocks` blocks of `bytes` each, of which number N becomes 2 N.
Seen work_on(int blocks, size_t bytes) {
  Seen seen;
  int read = 0;
  seen.returned_bytes = work_in_order<int>(
      [&](int& block) -> size_t {
        if (read == blocks) return 0;
        block = read++;
        const size_t in_hand = static_cast<size_t>(read) - seen.taken.size();
        seen.most_bytes = std::max(seen.most_bytes, in_hand * bytes);
        return bytes;
      },
      [](int& block) { block *= 2; }, [&](int& block) { seen.taken.push_back(block); });
  return seen;
}

std::vector<int> even_numbers(int count) {
  std::vector<int> numbers(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = 2 * i;
  return numbers;
}

/// From now on no thread can be started: returns "" where that is so.
std::string refuse_threads() {
  const rlimit none{0, 0};
  if (setrlimit(RLIMIT_NPROC, &none) != 0) return "no limit";
  try {
    std::thread([] {}).join();
    return "a thread was started";
  } catch (const std::system_error&) {
    return "";
  }
}

}  // namespace

TEST_CASE("blocks are taken in the order in which they were read") {
  CHECK(work_on(0, 1).taken.empty());
  CHECK(work_on(1000, 1).taken == even_numbers(1000));
}

TEST_CASE("blocks in hand have 16 MiB at most, but for the last one's bytes") {
  constexpr size_t kMiB = size_t{1} << 20;
  struct Row {
    size_t bytes, most;
  };
  for (const Row& row :
       {Row{5 * kMiB, 20 * kMiB}, Row{8 * kMiB, 16 * kMiB}, Row{15 * kMiB, 30 * kMiB},
        Row{16 * kMiB, 16 * kMiB}, Row{100 * kMiB, 100 * kMiB}}) {
    INFO(row.bytes);
    const Seen seen = work_on(40, row.bytes);
    CHECK(seen.taken == even_numbers(40));
    CHECK(seen.most_bytes == row.most);
    CHECK(seen.returned_bytes == row.most);
  }
}

TEST_CASE("long lines that are read again are in memory within that bound") {
  constexpr uint64_t kLines = 12;
  constexpr size_t kBytes = size_t{5} << 20;
  const Scratch scratch;
  scratch.write("in", "");
  std::ofstream input(scratch.path("in"), std::ios::binary);
  const std::string prompt(kBytes - 14, 'x');
  for (uint64_t line = 0; line < kLines; ++line) input << R"({"prompt":")" << prompt << "\"}\n";
  input.close();
  Journal journal(scratch.path("out"), Fsync::end);
  files::InputFile file = files::InputFile::open(scratch.path("in"));
  IdRegister ids(scratch.path(""));
  const DoneLines done =
      recover_lines(journal, nullptr, file, {.max_line_bytes = size_t{16} << 20, .slice = {}}, ids);
  CHECK(done.lines == kLines);
  CHECK(done.most_bytes == 4 * kBytes);
}

TEST_CASE("where the system refuses threads, blocks are worked on all the same") {
  const Scratch scratch;
  scratch.write("in", test::life_input(3000));
  REQUIRE_FALSE(live(scratch, {.lines = 3000, .stop_after = 2900}));
  const std::string told = test::as_other_user(scratch, [&]() -> std::string {
    const std::string refusal = refuse_threads();
    if (!refusal.empty()) return refusal;
    if (work_on(100, 1).taken != even_numbers(100)) return "blocks are lost";
    return live(scratch, {.lines = 3000}) ? "complete" : "not complete";
  });
  CHECK(told == "complete");
  CHECK(scratch.read("out") == test::life_expected(3000, 60, true, true));
}
