#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "session.h"
#include "skipped.h"

namespace {

const std::thread::id main_thread = std::this_thread::get_id();

/// Catch2's checks are not made for several threads: what passes nine times corrupts its memory
/// the tenth. A check in another thread ends the program each time.
class OneThread final : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;
  void assertionStarting(const Catch::AssertionInfo& check) override {
    if (std::this_thread::get_id() == main_thread) return;
    std::fprintf(stderr, "%s:%zu: a check outside the main thread; throw an exception there\n",
                 check.lineInfo.file, check.lineInfo.line);
    std::abort();
  }
};
CATCH_REGISTER_LISTENER(OneThread)

}  // namespace

int plimsoll::testing::run_session(int argc, char** argv) {
  return status_after(Catch::Session().run(argc, argv));
}
