#include "cli/build_info.h"
#include "cli/command_line.h"

int main(int argc, char** argv) {
  return plimsoll::cli::run_program(argc, argv, plimsoll::cli::kCommit);
}
