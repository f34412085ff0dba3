// A head that may be a copy of the token table.
#include "checkpoint/tied_head.h"

#include <catch2/catch.hpp>

#include "base/json.h"
#include "checkpoint/crafted.h"

using namespace plimsoll;
using checkpoint::Checkpoint;
using plimsoll::testing::safetensors_bytes;
using plimsoll::testing::TempFolder;

TEST_CASE("a head is compared with the token table to its last row") {
  // 70000 rows of 8, compared some 2^18 elements at a time.
  constexpr size_t kRows = 70000, kColumns = 8, kElements = kRows * kColumns;
  std::vector<float> table(kElements);
  for (size_t i = 0; i < kElements; ++i) table[i] = static_cast<float>(i);
  struct Row {
    const char* name;
    size_t changed;  // kElements: none
  };
  for (const Row& row :
       {Row{"a copy", kElements}, Row{"the first element", 0},
        Row{"behind the first 2^18", size_t{1} << 18}, Row{"the last row", kElements - kColumns},
        Row{"the last element", kElements - 1}}) {
    INFO(row.name);
    std::vector<float> head = table;
    if (row.changed < kElements) head[row.changed] = -1;
    constexpr size_t kBytes = kElements * sizeof(float);
    const std::vector<size_t> shape = {kRows, kColumns};
    const Json header = {
        {"head", {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {0, kBytes}}}},
        {"table", {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {kBytes, 2 * kBytes}}}}};
    std::string data(reinterpret_cast<const char*>(head.data()), kBytes);
    data.append(reinterpret_cast<const char*>(table.data()), kBytes);
    const TempFolder folder;
    folder.write("model.safetensors", safetensors_bytes(header.dump(), data));
    const Checkpoint opened = Checkpoint::open(folder.path);
    CHECK(checkpoint::have_equal_values(*opened.find("head"), *opened.find("table")) ==
          (row.changed == kElements));
  }
}
