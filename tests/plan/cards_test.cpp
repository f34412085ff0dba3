// Cards by their names: what makers add to them, notes, and advice where none is meant.
#include <catch2/catch.hpp>
#include <string>

#include "base/error.h"
#include "hardware/gpu_catalogue.h"

using namespace plimsoll;
using Catch::Contains;
using hardware::find_gpu;
using hardware::Gpu;
using hardware::gpu_note;

TEST_CASE("makers' words and spellings of a size do not change a card") {
  struct Row {
    const char *name, *card;
  };
  for (const Row& row : {Row{"Tesla T4", "T4"},
                         {"NVIDIA T4", "T4"},
                         {"NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada"},
                         {"rtx 6000 ada", "RTX-6000-Ada"},
                         {"GeForce 4090", "RTX-4090"},
                         {"nvidia-geforce-rtx-4090", "RTX-4090"},
                         {"V100 SXM2 32GB", "V100-SXM2-32GB"},
                         {"v100 sxm2 32", "V100-SXM2-32GB"},
                         {"NVIDIA GH200 480GB", "GH200-96GB"},
                         {"Tesla V100-PCIE-16GB", "V100-PCIE-16GB"}}) {
    INFO(row.name);
    CHECK(find_gpu(row.name).name == row.card);
  }
}

TEST_CASE("a row of the catalogue is read by its columns") {
  // As the datasheets of the two cards have it.
  const Gpu& h100 = find_gpu("h100");
  CHECK(h100.vendor == "NVIDIA");
  CHECK(h100.generation == "Hopper");
  CHECK(h100.compute_capability == 9.0);
  CHECK(h100.memory_bytes == int64_t{81559} << 20);
  CHECK(h100.cuda_bytes == int64_t{81090} << 20);
  CHECK(h100.bandwidth == 3350);
  CHECK(h100.bf16_tflops == 989);
  CHECK(h100.nvlink == 900);
  CHECK(h100.processors == 132);
  const Gpu& t4 = find_gpu("t4");
  CHECK(t4.compute_capability == 7.5);
  CHECK(t4.bandwidth == 320);
  CHECK(t4.bf16_tflops == 0);
  CHECK(t4.nvlink == 0);
  CHECK(t4.processors == 40);
  CHECK(t4.cuda_bytes == 0);
}

TEST_CASE("what kind of card it is follows from its name") {
  struct Row {
    const char* name;
    bool slice, built_in, unified, hides;
  };
  for (const Row& row : {Row{"h100", false, false, false, false},
                         {"h100 1g.10gb", true, false, false, false},
                         {"4090 laptop", false, true, false, true},
                         {"4090", false, false, false, true},
                         {"3090", false, false, false, false},  // it has NVLink
                         {"l4", false, false, false, false},
                         {"orin", false, true, true, false},
                         {"gb10", false, true, true, false},
                         {"gh200", false, false, true, false}}) {
    INFO(row.name);
    const Gpu& card = find_gpu(row.name);
    CHECK(card.is_slice() == row.slice);
    CHECK(card.is_built_in() == row.built_in);
    CHECK(card.is_unified() == row.unified);
    CHECK(card.hides_memory() == row.hides);
  }
}

TEST_CASE("the driver keeps a part of a card's memory, and none of a slice's or of the host's") {
  struct Row {
    const char* name;
    int64_t mebibytes;  // of what nvidia-smi shows, where no total is measured
  };
  for (const Row& row : {Row{"h100", 469}, Row{"l4", 355}, Row{"t4", 448}, Row{"5080", 470},
                         Row{"rtx pro 6000", 635}, Row{"h100 1g.10gb", 0}, Row{"orin", 0},
                         Row{"gb10", 0}, Row{"gh200", 0}}) {
    INFO(row.name);
    Gpu card = find_gpu(row.name);
    card.cuda_bytes = 0;
    CHECK(card.memory_bytes - card.visible_bytes() == row.mebibytes << 20);
    card.cuda_bytes = card.memory_bytes - 1;
    CHECK(card.visible_bytes() == card.cuda_bytes);
  }
}

TEST_CASE("a name of several cards is told with what it has been taken for") {
  const std::string v100 = gpu_note("v100", find_gpu("v100"));
  CHECK_THAT(v100, Contains("--gpu v100 has been taken for V100-SXM2-16GB") &&
                       Contains("(V100-SXM2-32GB)"));
  // Other forms of a card have another name; a size in any of its spellings says which is meant.
  for (const char* name : {"v100-16gb", "v100 16", "l4", "t4", "a100-80gb", "h200"}) {
    INFO(name);
    CHECK(gpu_note(name, find_gpu(name)).empty());
  }
}

TEST_CASE("what is no card is answered with the flag that is meant") {
  const auto said = [](const char* name) -> std::string {
    try {
      return "found " + find_gpu(name).name;
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::usage);
      return error.what();
    }
  };
  for (const char* size : {"80gb", "16GiB", "24g"}) {
    INFO(size);
    CHECK_THAT(said(size), Contains(std::string("--gpu-total-memory ") + size + " plans a card"));
  }
  CHECK_THAT(said("8"), Contains("; --gpus N says how many cards"));
  CHECK_THAT(said("16"), Contains("; --gpus N says how many cards"));
  CHECK_THAT(said("100"), !Contains("--gpus N"));
  CHECK_THAT(said("x8"), !Contains("--gpus N"));
  CHECK_THAT(said("v10"), Contains("no such card") && Contains("`--gpu list`"));
  CHECK_THAT(said("a100 pcie"), Contains("several cards have this name: ") &&
                                    Contains("A100-PCIE-40GB") && Contains("A100-PCIE-80GB"));
}

TEST_CASE("a card without a name is what its memory says") {
  const Gpu card = hardware::unnamed_gpu(int64_t{40} << 30);
  CHECK(card.memory_bytes == int64_t{40} << 30);
  CHECK(card.cuda_bytes == 0);
  CHECK_FALSE(card.is_slice());
}
