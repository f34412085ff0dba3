// Flags of where to run.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "backend/pci_cards.h"
#include "cli/program.h"
#include "cli/run/device.h"
#include "cli/run/no_card.h"

using namespace plimsoll;
using namespace plimsoll::cli;
using Catch::Contains;
using test::json_lines;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

constexpr const char* kLine =
    "{\"id\":\"x\",\"prompt\":\"To be\",\"max_tokens\":8,\"temperature\":0}";

Outcome run(const std::string& flags) {
  const Scratch scratch;
  scratch.write("in", std::string(kLine) + "\n");
  return shell(scratch, "plimsoll run $MODEL --progress none -i in " + flags);
}

constexpr uint64_t kGiB = uint64_t{1} << 30;

}  // namespace

TEST_CASE("flags for cards mean nothing on the CPU, which is said once") {
  const Outcome plain = run("");
  const Outcome flagged =
      run("--gpu-memory-utilization 0.5 --enforce-eager --cudagraph-capture-sizes 1,2,4 "
          "--kv-cache-dtype float16 --deterministic");
  CHECK(flagged.status == 0);
  CHECK(flagged.out == plain.out);
  CHECK_THAT(flagged.err, Contains("--gpu-memory-utilization, --enforce-eager, "
                                   "--cudagraph-capture-sizes: without effect on the CPU"));
  CHECK_THAT(flagged.err, Contains("--kv-cache-dtype: the CPU keeps the cache in the model's"));
  CHECK_THAT(plain.err, !Contains("effect"));
  CHECK_THAT(run("--enforce-eager -q").err, !Contains("effect"));
}

TEST_CASE("a card that is not there is missed before the model is read") {
  if (!backend::list_devices().empty()) return;
  const Scratch scratch;
  const Outcome outcome = shell(scratch, "plimsoll run ./none -i in --device cuda");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.err, Contains("--device cuda: ") && Contains("; use --device cpu\n"));
}

TEST_CASE("why there is no card to run on is told with the cure") {
  const auto why = [](const backend::DriverState& driver, int pci_cards, bool has_backend = true) {
    return why_no_card({.has_backend = has_backend, .driver = driver, .pci_cards = pci_cards});
  };
  // A machine without a card has nothing to say.
  CHECK(why({}, 0) == "");
  CHECK(why({}, 0, false) == "");
  CHECK(why({.driver = 13000, .runtime = 13000, .trouble = {}}, 0) == "");
  CHECK_THAT(why({}, 1, false), Contains("no CUDA backend"));
  CHECK_THAT(why({.runtime = 13000, .trouble = "insufficient"}, 1), Contains("no driver"));
  CHECK_THAT(why({.driver = 12040, .runtime = 13000, .trouble = "insufficient"}, 1),
             Contains("CUDA up to 12.4") && Contains("13.0: update the driver"));
  CHECK_THAT(why({.driver = 13010, .runtime = 13000, .trouble = "not ready (999)"}, 1),
             Contains("not ready (999)") && Contains("13.1"));
  CHECK_THAT(why({.driver = 13000, .runtime = 13000, .devices = 2, .trouble = {}}, 2),
             Contains("2 devices none has compute capability 8.0"));
  CHECK_THAT(why({.driver = 13000, .runtime = 13000, .trouble = {}}, 1),
             Contains("CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("PLIMSOLL_PDL=0 keeps kernels apart") {
  const char* before = std::getenv("PLIMSOLL_PDL");
  const std::string kept = before != nullptr ? before : "";
  unsetenv("PLIMSOLL_PDL");
  CHECK(kernels_may_overlap());
  setenv("PLIMSOLL_PDL", "1", 1);
  CHECK(kernels_may_overlap());
  setenv("PLIMSOLL_PDL", "0", 1);
  CHECK_FALSE(kernels_may_overlap());
  if (before == nullptr) {
    unsetenv("PLIMSOLL_PDL");
  } else {
    setenv("PLIMSOLL_PDL", kept.c_str(), 1);
  }
}

TEST_CASE("cards are counted on the PCI bus, with or without a driver") {
  const Scratch scratch;
  const auto device = [&](const char* name, const char* vendor, const char* type) {
    std::filesystem::create_directories(scratch.path(std::string("bus/") + name));
    scratch.write(std::string("bus/") + name + "/vendor", std::string(vendor) + "\n");
    scratch.write(std::string("bus/") + name + "/class", std::string(type) + "\n");
  };
  CHECK(backend::count_pci_cards(scratch.path("bus")) == 0);
  device("0000:00:01.0", "0x8086", "0x030000");  // another's
  device("0000:3b:00.0", "0x10de", "0x030200");
  device("0000:3b:00.1", "0x10de", "0x040300");  // its sound
  device("0000:af:00.0", "0x10de", "0x030000");
  CHECK(backend::count_pci_cards(scratch.path("bus")) == 2);
}

TEST_CASE("random weights are read from no file") {
  const Scratch scratch;
  scratch.write("in", std::string(kLine) + "\n");
  const std::string line = "plimsoll run bare -q -i in --load-format dummy --skip-tokenizer-init";
  scratch.write("in", "{\"id\":\"x\",\"prompt\":[1,2,3],\"max_tokens\":8,\"ignore_eos\":true}\n");
  const Outcome outcome = shell(scratch, "mkdir bare; cp $MODEL/config.json bare; " + line);
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  CHECK(json_lines(outcome.out).at(0)["usage"]["completion_tokens"] == 8);
}

TEST_CASE("a card's ceiling is divided") {
  launch::LaunchRequest flags;
  const backend::DeviceMemory idle{.total = 80 * kGiB, .free = 79 * kGiB, .outside = kGiB};
  SECTION("by share") {
    flags.args.gpu_memory_utilization = 0.5;
    CHECK(card_budget(flags, idle).ceiling == 40 * kGiB);
    CHECK(card_budget(flags, idle).arena == 39 * kGiB);
  }
  SECTION("by bytes") {
    flags.gpu_memory = 10 * kGiB;
    CHECK(card_budget(flags, idle).arena == 9 * kGiB);
    flags.gpu_memory = 200 * kGiB;
    CHECK(card_budget(flags, idle).ceiling == 80 * kGiB);
  }
  SECTION("beside others") {
    backend::DeviceMemory busy = idle;
    busy.free = 20 * kGiB;
    const CardBudget budget = card_budget(flags, busy);
    CHECK(budget.ceiling == 72 * kGiB);
    CHECK(budget.arena <= 19 * kGiB);
    CHECK(budget.arena > 18 * kGiB);
    busy.free = kGiB / 2;
    CHECK_THROWS_WITH(card_budget(flags, busy), Contains("512.0 MiB are free"));
  }
  SECTION("among ranks") {
    CHECK(card_budget(flags, idle, 2).ceiling == 36 * kGiB);
    CHECK(card_budget(flags, idle, 2).arena == 35 * kGiB);
  }
  SECTION("among ranks beside others") {
    backend::DeviceMemory half = idle, busy = idle;
    half.free = 10 * kGiB;
    busy.free = 20 * kGiB;
    CHECK(card_budget(flags, busy, 2).arena == card_budget(flags, half).arena);
    CHECK(card_budget(flags, busy, 2).arena <= 9 * kGiB);
    busy.free = 2 * kGiB;
    CHECK_NOTHROW(card_budget(flags, busy));
    CHECK_THROWS_WITH(card_budget(flags, busy, 2), Contains("2.00 GiB are free"));
  }
  SECTION("of which too little is nothing") {
    flags.gpu_memory = kGiB;
    CHECK_THROWS_WITH(card_budget(flags, idle), Contains("the ceiling is 1.00 GiB"));
  }
}

TEST_CASE("a launch over its ceiling is given up") {
  DeviceSetup setup;
  setup.budget = {.ceiling = 10 * kGiB, .outside = kGiB, .arena = 9 * kGiB};
  CHECK_NOTHROW(check_ceiling(setup, {.process = 10 * kGiB}));
  CHECK_NOTHROW(check_ceiling(setup, {}));  // the driver does not say
  CHECK_THROWS_WITH(check_ceiling(setup, {.process = 10 * kGiB + kGiB / 2}),
                    Contains("has 10.50 GiB of the card, over its ceiling of 10.00 GiB: 1.50 GiB "
                             "beside its arena of 9.00 GiB, where 1.00 GiB were planned"));
  CHECK_NOTHROW(check_ceiling(setup, {.process = 20 * kGiB}, 2));  // of two ranks
}

TEST_CASE("ranks talk over NCCL where cards cannot read each other's memory") {
  vllm::EngineArgs args;
  args.tensor_parallel = 2;
  const auto shape_of = [&](std::vector<int> peers) {
    const backend::DeviceInfo first{
        .index = 0, .name = "A", .compute_capability = 90, .peers = {1}};
    const backend::DeviceInfo second{
        .index = 1, .name = "A", .compute_capability = 90, .peers = peers};
    DeviceChoice choice;
    take_cards(args, {first, second}, choice);
    return choice.nccl_shape;
  };
  CHECK_FALSE(shape_of({0}).is_used());
  CHECK(shape_of({}).team == 2);
  args.tensor_parallel = 1;
  args.data_parallel = 2;
  CHECK_FALSE(shape_of({}).is_used());
}

TEST_CASE("each rank has a card, and all are of one kind") {
  const backend::DeviceInfo h100{
      .index = 0, .name = "H100", .compute_capability = 90, .processors = 132};
  std::vector<backend::DeviceInfo> there(3, h100);
  for (int i = 0; i < 3; ++i) there[static_cast<size_t>(i)].index = i;
  const auto taken = [&](int64_t tensor, int64_t replicas, int64_t ranks_per_card = 1) {
    vllm::EngineArgs args;
    args.tensor_parallel = tensor;
    args.data_parallel = replicas;
    DeviceChoice choice;
    choice.ranks_per_card = ranks_per_card;
    take_cards(args, there, choice);
    return choice.cards.size();
  };
  CHECK(taken(1, 1) == 1);
  CHECK(taken(2, 1) == 2);
  CHECK(taken(2, 2, 2) == 2);
  CHECK_THROWS_WITH(taken(2, 2), Contains("-tp 2 -pp 1 -dp 2 takes 4 GPUs, there are 3"));
  // Two processes on a machine that see the same cards have different ones; cards that a launcher
  // gives to one process alone are all its.
  const auto first_of = [&](const CardPlace& place, int64_t tensor) {
    vllm::EngineArgs args;
    args.tensor_parallel = tensor;
    DeviceChoice choice;
    choice.place = place;
    take_cards(args, there, choice);
    CHECK(std::ssize(choice.cards) == tensor / place.processes);
    CHECK(choice.nccl_shape.team == tensor);
    return choice.cards.front().index;
  };
  CHECK(first_of({.processes = 2, .near = 2, .index = 0}, 2) == 0);
  CHECK(first_of({.processes = 2, .near = 2, .index = 1}, 2) == 1);
  CHECK(first_of({.processes = 2, .near = 1, .index = 0}, 4) == 0);
  CHECK(first_of({.processes = 2, .near = 2, .index = 1}, 6) == 0);
  CHECK_THROWS_WITH(first_of({.processes = 2, .near = 2, .index = 1}, 4),
                    Contains("takes 2 GPUs in each of 2 processes on a machine, there are 3"));
  there[1].name = "L40S";
  there[1].compute_capability = 89;
  CHECK(taken(1, 1) == 1);
  CHECK_THROWS_WITH(taken(2, 1), Contains("GPU 0 is a H100, GPU 1 a L40S"));
}
