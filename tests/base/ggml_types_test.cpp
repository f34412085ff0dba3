// Types of ggml: their numbers, and sizes of blocks from what ggml's structs hold.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/ggml/blocks.h"
#include "base/ggml/types.h"

using namespace plimsoll;

TEST_CASE("a block of each type has the bytes of ggml's struct") {
  struct Row {
    uint32_t id;
    const char* name;
    int64_t values, bytes;
    bool run;
  };
  constexpr int64_t kHalf = 2, kFloat = 4, kMany = 256;  // QK_K
  for (const Row& row : {
           Row{0, "F32", 1, 4, true},
           {1, "F16", 1, 2, true},
           {2, "Q4_0", 32, kHalf + 32 / 2, true},
           {3, "Q4_1", 32, 2 * kHalf + 32 / 2, true},
           {6, "Q5_0", 32, kHalf + 4 + 32 / 2, true},
           {7, "Q5_1", 32, 2 * kHalf + 4 + 32 / 2, true},
           {8, "Q8_0", 32, kHalf + 32, true},
           {9, "Q8_1", 32, 2 * kHalf + 32, false},
           {10, "Q2_K", kMany, 2 * kHalf + kMany / 16 + kMany / 4, true},
           {11, "Q3_K", kMany, kHalf + kMany / 4 + kMany / 8 + 12, true},
           {12, "Q4_K", kMany, 2 * kHalf + 12 + kMany / 2, true},
           {13, "Q5_K", kMany, 2 * kHalf + 12 + kMany / 2 + kMany / 8, true},
           {14, "Q6_K", kMany, kHalf + kMany / 16 + 3 * kMany / 4, true},
           {15, "Q8_K", kMany, kFloat + kMany + kMany / 16 * 2, false},
           {16, "IQ2_XXS", kMany, kHalf + kMany / 8 * 2, false},
           {17, "IQ2_XS", kMany, kHalf + kMany / 8 * 2 + kMany / 32, false},
           {18, "IQ3_XXS", kMany, kHalf + 3 * kMany / 8, false},
           {19, "IQ1_S", kMany, kHalf + kMany / 8 + kMany / 16, false},
           {20, "IQ4_NL", 32, kHalf + 32 / 2, true},
           {21, "IQ3_S", kMany, kHalf + 13 * kMany / 32 + kMany / 64, false},
           {22, "IQ2_S", kMany, kHalf + kMany / 4 + kMany / 16, false},
           {23, "IQ4_XS", kMany, kHalf + 2 + kMany / 64 + kMany / 2, true},
           {24, "I8", 1, 1, false},
           {25, "I16", 1, 2, false},
           {26, "I32", 1, 4, false},
           {27, "I64", 1, 8, false},
           {28, "F64", 1, 8, true},
           {29, "IQ1_M", kMany, kMany / 8 + kMany / 16 + kMany / 32, false},
           {30, "BF16", 1, 2, true},
           {34, "TQ1_0", kMany, kHalf + kMany / 64 + (kMany - 4 * kMany / 64) / 5, false},
           {35, "TQ2_0", kMany, kHalf + kMany / 4, false},
           {39, "MXFP4", 32, 1 + 32 / 2, true},
           {40, "NVFP4", 64, 64 / 16 + 64 / 2, true},
           {41, "Q1_0", 128, kHalf + 128 / 8, false},
           {42, "Q2_0", 64, kHalf + 64 / 4, false},
       }) {
    INFO(row.name);
    const GgmlTypeInfo* const type = find_ggml_type(row.id);
    REQUIRE(type != nullptr);
    CHECK(find_ggml_type(row.name) == type);
    CHECK(type->name == row.name);
    CHECK(type->values == row.values);
    CHECK(type->bytes == row.bytes);
    CHECK(type->is_run == row.run);
    CHECK(type->is_packed() == (row.values > 1));
    // Blocks that are run lie apart as codes and scales.
    CHECK((find_ggml_blocks(type->type()) != nullptr) == (row.run && row.values > 1));
  }
  for (const char* none : {"q4_0", "Q4", "", "Q4_2"}) CHECK(find_ggml_type(none) == nullptr);
}

TEST_CASE("types that ggml has no more are named so, and others by their number") {
  struct Row {
    uint32_t id;
    const char* text;
  };
  for (const Row& row :
       {Row{4, "4 (Q4_2, removed)"}, Row{5, "5 (Q4_3, removed)"}, Row{31, "31 (Q4_0_4_4, removed)"},
        Row{32, "32 (Q4_0_4_8, removed)"}, Row{33, "33 (Q4_0_8_8, removed)"},
        Row{36, "36 (IQ4_NL_4_4, removed)"}, Row{37, "37 (IQ4_NL_4_8, removed)"},
        Row{38, "38 (IQ4_NL_8_8, removed)"}, Row{43, "43"}, Row{77, "77"}}) {
    CHECK(find_ggml_type(row.id) == nullptr);
    CHECK(ggml_type_text(row.id) == row.text);
  }
}

TEST_CASE("scales of rows in a strip stand side by side, halves first, block by block") {
  // Two rows of two blocks of Q4_K: two halves and twelve bytes each, in strips of four rows.
  const GgmlBlocks& type = *find_ggml_blocks(GgmlType::q4_k);
  REQUIRE(type.halves == 2);
  REQUIRE(type.scale_bytes() == 16);
  constexpr int64_t kRows = 2, kBlocks = 2, kStrip = 4;
  std::vector<std::byte> from(kRows * kBlocks * 16);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i + 1);
  std::vector<std::byte> to(kBlocks * 16 * kStrip);
  turn_ggml_scales(type, from.data(), kRows, kBlocks, kStrip, to.data());
  const auto at = [&](size_t i) { return static_cast<int>(to[i]); };
  // Row 0 has bytes 1 to 16 of its first block and 17 to 32 of its second, row 1 the next ones.
  CHECK(at(0) == 1);  // the first half of row 0, then of row 1
  CHECK(at(1) == 2);
  CHECK(at(2) == 33);
  CHECK(at(3) == 34);
  CHECK(at(4) == 0);  // of rows that are not there
  CHECK(at(8) == 3);  // the second halves
  CHECK(at(10) == 35);
  CHECK(at(16) == 5);  // the bytes behind, one of each row
  CHECK(at(17) == 37);
  CHECK(at(20) == 6);
  CHECK(at(60) == 16);
  CHECK(at(61) == 48);
  CHECK(at(64) == 17);  // the second blocks
  CHECK(at(66) == 49);
  CHECK(at(125) == 64);
}
