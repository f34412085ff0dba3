// Files that are mapped: what is given back, how their names are shown, bytes that are counted.
#include "checkpoint/mapped_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/counted_source.h"
#include "checkpoint/crafted.h"
#include "checkpoint/json_events.h"
#include "checkpoint/safetensors.h"

namespace fs = std::filesystem;
using namespace plimsoll;
using Catch::Contains;
using checkpoint::Letters;
using checkpoint::MappedFile;
using checkpoint::shown;
using testing::safetensors_bytes;
using testing::TempFolder;

namespace {

/// Maps of this process that lie over a file.
int maps_of(const fs::path& file) {
  int count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) count += line.ends_with(file.string()) ? 1 : 0;
  return count;
}

std::ptrdiff_t open_descriptors() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), {});
}

}  // namespace

TEST_CASE("a mapped file holds no descriptor, and its map as long as it lives") {
  const TempFolder folder;
  const fs::path path = folder.write("file", std::string(10'000, 'x'));
  folder.write("empty", "");
  const auto descriptors = open_descriptors();
  {
    const MappedFile file(path);
    CHECK(file.size() == 10'000);
    CHECK(maps_of(path) == 1);
    CHECK(open_descriptors() == descriptors);
    CHECK(file.head(3) == "xxx");
    CHECK(file.head(20'000).size() == 10'000);
    file.prefault(file.data() + 5000, 5000);
  }
  CHECK(maps_of(path) == 0);
  for (const char* wrong : {"none", "empty", "."}) {
    INFO(wrong);
    CHECK_THROWS_AS(MappedFile(folder.path / wrong), Error);
  }
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("names from files are shown without controls, and not without an end") {
  CHECK(shown("model.layers.0") == "model.layers.0");
  CHECK(shown("a\x1b[2J\n\x7f") == "a\\x1b[2J\\x0a\\x7f");
  CHECK(shown("\xc3\xa9") == "\xc3\xa9");
  CHECK(shown("\xc3\xa9", Letters::ascii) == "\\xc3\\xa9");
  CHECK(shown("~\x7f ", Letters::ascii) == "~\\x7f ");
  const std::string longest(120, 'a');
  CHECK(shown(longest) == longest);
  CHECK(shown(longest + "b") == longest + "...");
  CHECK(checkpoint::shape_text({}) == "[]");
  CHECK(checkpoint::shape_text({2, 3}) == "[2, 3]");
}

TEST_CASE("a tensor may have sixteen dimensions, and a header's order is not the data's") {
  const TempFolder folder;
  const auto tensor = [](const std::string& shape, const std::string& offsets) {
    return R"({"dtype":"U8","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const auto with_dimensions = [&](int count) {
    std::string shape = "[1";
    for (int i = 1; i < count; ++i) shape += ",1";
    return safetensors_bytes(
        R"({"b":)" + tensor(shape + "]", "[2,3]") + R"(,"a":)" + tensor("[2]", "[0,2]") + "}",
        "012");
  };
  const MappedFile file(folder.write("m", with_dimensions(16)));
  const checkpoint::Header header = checkpoint::read_header(file);
  REQUIRE(header.entries.size() == 2);
  CHECK(header.entries[0].name == "a");
  CHECK(header.entries[1].shape.size() == 16);
  CHECK(static_cast<char>(file.data()[header.data_start + header.entries[1].begin]) == '2');
  CHECK_THROWS_WITH(checkpoint::read_header(MappedFile(folder.write("n", with_dimensions(17)))),
                    Contains("tensor \"b\": has more than 16 dimensions"));
}

TEST_CASE("bytes that are read of a file are those of its own type, row by row") {
  const TempFolder folder;
  // 6 rows of 4 halves, then 2 of 4 floats, of which a weight is put together.
  const Json header = {{"a", {{"dtype", "F16"}, {"shape", {6, 4}}, {"data_offsets", {0, 48}}}},
                       {"b", {{"dtype", "F32"}, {"shape", {2, 4}}, {"data_offsets", {48, 80}}}}};
  folder.write("model.safetensors", safetensors_bytes(header.dump(), std::string(80, '\0')));
  model::ModelSpec spec;
  spec.architecture = "TestModel";
  spec.weights = {
      {.name = "w",
       .shape = {8, 4},
       .parts = {{.tensor = "a", .stored_shape = {6, 4}, .block_rows = 6, .block_stride = 6},
                 {.tensor = "b", .stored_shape = {2, 4}, .block_rows = 2, .block_stride = 2}}}};
  const auto opened = checkpoint::Checkpoint::open(folder.path);
  const checkpoint::WeightReader reader(opened, spec);
  const model::WeightSpec& weight = spec.weights.front();
  CHECK(reader.stored_bytes(weight, int64_t{0}, int64_t{8}) == 80);
  CHECK(reader.stored_bytes(weight, int64_t{5}, int64_t{2}) == 8 + 16);
  CHECK(reader.stored_bytes(weight, int64_t{2}, int64_t{0}) == 0);
  const checkpoint::CountedSource counted(reader);
  std::vector<float> values(32);
  counted.read_rows(weight, 0, 6, DType::f32, values.data());
  CHECK(counted.bytes_read() == 48);
  counted.read_block(weight, {.row = 6, .rows = 2, .column = 1, .columns = 2}, DType::f32,
                     values.data());
  CHECK(counted.bytes_read() == 48 + 16);  // half of the columns
}
