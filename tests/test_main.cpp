// Main of the test programs.
#include "session.h"

int main(int argc, char** argv) {
  return plimsoll::testing::run_session(argc, argv);
}
