// Streams: input order, all of it.
#include "batch/files/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "batch/scratch.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using test::Scratch;

TEST_CASE("a stream is written in input order, all of it, whatever the pipe") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  // Standard output is taken as it is, not opened anew: with 4 KiB of room for a line of 1 MiB its
  // writes come back with short counts and EAGAIN.
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  fcntl(ends[1], F_SETPIPE_SZ, 4096);
  std::fflush(stdout);
  const int own = dup(STDOUT_FILENO);
  dup2(ends[1], STDOUT_FILENO);
  std::string seen;
  std::jthread reader([&] {
    char buffer[1000];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
      seen.append(buffer, static_cast<size_t>(got));
    }
  });
  const std::string big(1 << 20, 'b');
  size_t held_back = 0;
  size_t held_later = 0;
  {
    StreamOutput output("-");
    close(ends[1]);
    dup2(own, STDOUT_FILENO);  // before anything is said of a failure
    close(own);
    output.put(1, big + "\n");
    held_back = output.held_back();
    output.put(0, "a\n");
    held_later = output.held_back();
    output.put(3, "d\n");
    output.put(2, "");
    output.finish();
  }
  reader.join();
  close(ends[0]);
  CHECK(held_back == big.size() + 1);
  CHECK(held_later == 0);
  CHECK(seen == "a\n" + big + "\nd\n");
}

TEST_CASE("lines behind a gap are written when a stream stops early") {
  const Scratch scratch;
  REQUIRE(mkfifo(scratch.path("pipe").c_str(), 0600) == 0);
  const int reading = open(scratch.path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  {
    StreamOutput output(scratch.path("pipe"));
    output.put(4, "e\n");
    output.put(2, "c\n");
    output.finish();
  }
  char buffer[16];
  REQUIRE(read(reading, buffer, sizeof buffer) == 4);
  close(reading);
  CHECK(std::string(buffer, 4) == "c\ne\n");
}

TEST_CASE("a full device is an error") {
  StreamOutput output("/dev/full");
  CHECK_THROWS_AS(output.put(0, "x\n"), Error);
}
