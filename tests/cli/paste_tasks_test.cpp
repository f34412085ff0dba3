// Cards that a pasted text asks for: tasks of SkyPilot, whose resources may be one of several, and
// variables that tell no number.
#include <catch2/catch.hpp>
#include <string>

#include "cli/plan/options.h"
#include "cli/program.h"

using namespace plimsoll;
using namespace plimsoll::cli;

TEST_CASE("of several choices of accelerators the first that has any is planned") {
  struct Row {
    const char* resources;
    int64_t gpus;
  };
  for (const Row& row : {
           Row{"  any_of:\n  - accelerators: L4:2\n  - accelerators: A100:8\n", 2},
           Row{"  any_of:\n  - accelerators: A100:8\n  - accelerators: L4:2\n", 8},
           Row{"  any_of:\n  - cloud: aws\n  - accelerators: L4:2\n  - accelerators: A100:8\n", 2},
           Row{"  any_of:\n  - accelerators: L4\n  - accelerators: A100:8\n", 1},
           Row{"  any_of:\n  - accelerators: {L4: 2, A100: 4}\n  - accelerators: A100:8\n", 2},
           Row{"  any_of:\n  - accelerators: [L4:2, A100:4]\n  - accelerators: A100:8\n", 2},
           Row{"  ordered:\n  - accelerators: H100:4\n  - accelerators: L4:8\n", 4},
           Row{"  ordered:\n  - {}\n  - accelerators: H100:4\n  - accelerators: L4:8\n", 4},
           Row{"  accelerators: [A10G:4, L4:8]\n", 4},
       }) {
    INFO(row.resources);
    PlanOptions options;
    expand_pasted_line({"plan", "--from",
                        std::string("resources:\n") + row.resources +
                            "run: vllm serve m -tp $SKYPILOT_NUM_GPUS_PER_NODE"},
                       options);
    CHECK(options.gpus_pasted == row.gpus);
    CHECK(options.launch.args.tensor_parallel == row.gpus);
  }
}

TEST_CASE("a variable that shows or hides all cards tells no number of them") {
  for (const char* variable :
       {"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_VISIBLE_DEVICES=none",
        "CUDA_VISIBLE_DEVICES=-1", "CUDA_VISIBLE_DEVICES="}) {
    INFO(variable);
    PlanOptions options;
    expand_pasted_line({"plan", "--from", std::string(variable) + " vllm serve m"}, options);
    CHECK_FALSE(options.gpus_pasted);
  }
}
