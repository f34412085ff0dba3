// Blocks of quantized parts whose rows are some of a stored matrix's.
#include "checkpoint/packed_weights.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "quantization/formats/format.h"

using namespace plimsoll;
using namespace plimsoll::quantization;

namespace {

/// Tensors by name.
struct StoredBytes {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};
using StoredByName = std::map<std::string, StoredBytes>;

template <typename T>
StoredBytes bytes_of(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  StoredBytes result{dtype, std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(result.bytes.data(), values.data(), result.bytes.size());
  return result;
}

FindStored finder(const StoredByName& tensors) {
  return [&tensors](const std::string& name) -> std::optional<StoredTensor> {
    const auto found = tensors.find(name);
    if (found == tensors.end()) return std::nullopt;
    return StoredTensor{.name = name,
                        .dtype = found->second.dtype,
                        .shape = found->second.shape,
                        .data = found->second.bytes.data(),
                        .guarded = [](const std::function<void()>& read) { read(); }};
  };
}

}  // namespace

TEST_CASE("scales of scales are those of the stored rows, in fused and reordered matrices too") {
  // bitsandbytes, scales in 8 bits: queries, keys and values of 32 outputs and 64 inputs in one.
  constexpr int64_t kRows = 32, kInputs = 64, kBlocks = 3 * kRows;
  const std::string state = R"({"blocksize": 64, "nested_blocksize": 256, "nested_offset": 0.25})";
  const std::string name = "m.qkv.weight";
  StoredByName tensors;
  tensors[name] = bytes_of(DType::u8, {3 * kRows * kInputs / 2, 1},
                           std::vector<uint8_t>(3 * kRows * kInputs / 2, 0x21));
  tensors[name + ".absmax"] = bytes_of(DType::u8, {kBlocks}, std::vector<uint8_t>(kBlocks, 3));
  tensors[name + ".quant_map"] = bytes_of(DType::f32, {16}, std::vector<float>(16, 0.5F));
  tensors[name + ".quant_state.bitsandbytes__nf4"] =
      bytes_of(DType::u8, {std::ssize(state)}, std::vector<uint8_t>(state.begin(), state.end()));
  tensors[name + ".nested_absmax"] = bytes_of(DType::f32, {1}, std::vector<float>{2});
  tensors[name + ".nested_quant_map"] = bytes_of(DType::f32, {256}, std::vector<float>(256, 1));
  const FindStored find = finder(tensors);

  struct Row {
    const char* what;
    model::Part part;
    int64_t first, rows;  // of the part, that are opened
    int64_t stored;       // the row of the matrix where they begin
  };
  const std::vector<int64_t> shape = {3 * kRows, kInputs};
  const model::Part queries{.tensor = name, .stored_shape = shape, .block_rows = kRows};
  model::Part keys = queries, halves = queries, heads = queries;
  keys.first_row = kRows;
  halves.order = model::RowOrder::evens_first;
  heads.first_row = 8;  // of each 24 rows 8
  heads.block_rows = 8;
  heads.block_stride = 24;
  heads.block_count = 4;
  for (const Row& row :
       {Row{"queries", queries, 0, kRows, 0}, Row{"half of the queries", queries, 16, 16, 16},
        Row{"keys", keys, 0, kRows, kRows}, Row{"half of the keys", keys, 16, 16, kRows + 16},
        Row{"odd rows", halves, 16, 16, 1}, Row{"heads", heads, 0, kRows, 8},
        Row{"the third head", heads, 16, 8, 8 + 2 * 24}}) {
    INFO(row.what);
    model::WeightSpec weight{.name = name, .shape = {kRows, kInputs}, .parts = {row.part}};
    model::Part& part = weight.parts.front();
    part.packing = packing_of({.format = WeightFormat::bitsandbytes, .bits = 4},
                              stored_matrix(weight, part, find));
    REQUIRE(part.packing->scale == model::ScaleType::nested);
    const auto rows = checkpoint::open_part(
        weight, part, {.row = row.first, .rows = row.rows, .columns = kInputs}, find);
    std::vector<float> numbers(256), absmax(1);
    model::NestedScales nested{.numbers = numbers, .absmax = absmax};
    rows->nested(nested);
    CHECK(nested.first == row.stored * nested.stride);
    CHECK(nested.offset == 0.25F);
  }
}
