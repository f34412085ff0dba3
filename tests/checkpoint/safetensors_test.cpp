// Hostile safetensors headers: each is refused with the tensor's name and the reason, and none is
// read beyond the map.
#include "checkpoint/safetensors.h"

#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"
#include "checkpoint/crafted.h"
#include "processor_time.h"

using namespace plimsoll;
using checkpoint::MappedFile;
using checkpoint::read_header;
using plimsoll::testing::safetensors_bytes;
using plimsoll::testing::TempFolder;

namespace {

std::string outcome_of_header(const std::string& bytes) {
  const TempFolder folder;
  try {
    const MappedFile file(folder.write("model.safetensors", bytes));
    read_header(file);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::checkpoint_unusable);
    CHECK_THAT(error.what(), Catch::Contains("model.safetensors"));
    return error.what();
  }
  return "accepted";
}

std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

}  // namespace

TEST_CASE("well-formed headers are accepted") {
  for (const char* header : {
           "{}",
           "{}      ",
           R"({"__metadata__":{"format":"pt"}})",
           R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
           R"({"a":{"dtype":"F32","shape":[3,0,7],"data_offsets":[0,0]},"__metadata__":{}})",
       }) {
    INFO(header);
    CHECK(outcome_of_header(safetensors_bytes(header, "")) == "accepted");
  }
  const std::string four = R"({"b":{"data_offsets":[2,4],"shape":[2],"dtype":"I8"},
                               "a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}})";
  CHECK(outcome_of_header(safetensors_bytes(four, "0123")) == "accepted");
}

TEST_CASE("header lengths that no file has are refused before anything is allocated") {
  CHECK_THAT(outcome_of_header("\x01"), Catch::Contains("too few"));
  CHECK_THAT(outcome_of_header(std::string(7, '\0')), Catch::Contains("too few"));
  CHECK_THAT(outcome_of_header(safetensors_bytes(0, "", "")), Catch::Contains("too short"));
  CHECK_THAT(outcome_of_header(safetensors_bytes(1, "{", "")), Catch::Contains("too short"));
  CHECK_THAT(outcome_of_header(safetensors_bytes(uint64_t{1} << 63, "{}", "")),
             Catch::Contains("9223372036854775808 is above"));
  CHECK_THAT(outcome_of_header(safetensors_bytes(~uint64_t{0}, "{}", "")),
             Catch::Contains("is above"));
  CHECK_THAT(outcome_of_header(safetensors_bytes(100'000'001, "{}", "")),
             Catch::Contains("is above"));
  CHECK_THAT(outcome_of_header(safetensors_bytes(3, "{}", "")),
             Catch::Contains("past the end of the file"));
  CHECK_THAT(outcome_of_header(""), Catch::Contains("empty"));
}

TEST_CASE("files of other kinds are named") {
  CHECK_THAT(
      outcome_of_header("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"),
      Catch::Contains("Git LFS pointer") && Catch::Contains("git lfs pull"));
  CHECK_THAT(outcome_of_header(std::string("GGUF\3\0\0\0\0\0\0\0", 12)), Catch::Contains("GGUF"));
  CHECK_THAT(outcome_of_header("PK\x03\x04 and so on, a zip archive"), Catch::Contains("PyTorch"));
}

TEST_CASE("malformed headers are refused with the reason") {
  struct Row {
    std::string header;
    std::string data;
    const char* said;
  };
  const std::string deep = repeated("[", 100000);
  const Row row = GENERATE_COPY(values<Row>({
      {"[]", "", "does not start with '{'"},
      {" {}", "", "does not start with '{'"},
      {"{} x", "", "not JSON"},
      {"{\"a\":", "", "not JSON"},
      {"{\"\xff\":{}}", "", "not JSON"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1e400],\"data_offsets\":[0,1]}}", "0", "tensor \"a\""},
      {R"({"a":7})", "", "a number where none belongs"},
      {R"({"a":null})", "", "a null where none belongs"},
      {R"({"a":"U8"})", "", "a string where none belongs"},
      {R"({"a":[]})", "", "a list where none belongs"},
      {"{\"a\":" + deep, "", "a list where none belongs"},
      {R"({"a":{}})", "", "tensor \"a\": needs dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", "0", "tensor \"a\": needs dtype"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":1}})", "0",
       "unknown field \"more\""},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "0",
       "has dtype twice"},
      {R"({"a":{"dtype":"U8","shape":{"b":1},"data_offsets":[0,1]}})", "0",
       "an object where none belongs"},
      {R"({"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,1]}})", "0",
       "tensor \"a\": has an unknown dtype \"Q4\""},
      {R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", "0", "a number where none belongs"},
      {R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", "0",
       "a number where none belongs"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "0", "a negative number"},
      {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", "0", "a fraction"},
      {R"({"a":{"dtype":"U8","shape":[NaN],"data_offsets":[0,1]}})", "0", "not JSON"},
      {R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]}})", "0",
       "beyond 2^63"},
      {R"({"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1]}})", "0",
       "tensor \"a\""},
      {R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", "0",
       "a list where none belongs"},
      {R"({"a":{"dtype":"U8","shape":[)" + repeated("1,", 1000000) + R"(1],"data_offsets":[0,1]}})",
       "0", "more than 16 dimensions"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", "0", "needs two data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", "0", "needs two data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}})", "0", "a negative number"},
      {R"({"__metadata__":{"a":{}}})", "", "an object where none belongs"},
      {R"({"__metadata__":{"a":1}})", "", "a number where none belongs"},
  }));
  INFO(row.header.substr(0, 100));
  CHECK_THAT(outcome_of_header(safetensors_bytes(row.header, row.data)), Catch::Contains(row.said));
}

TEST_CASE("shapes and offsets that do not fit the data are refused") {
  const auto tensor = [](const char* name, const char* shape, const char* offsets,
                         const char* dtype = "F32") {
    return std::string("\"") + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape +
           R"(,"data_offsets":)" + offsets + "}";
  };
  struct Row {
    std::string tensors;
    size_t data;
    const char* said;
  };
  const Row row = GENERATE_COPY(values<Row>({
      {tensor("a", "[2]", "[8,0]"), 8, "tensor \"a\": data_offsets [8, 0] run backwards"},
      {tensor("a", "[2]", "[0,4]"), 4,
       "tensor \"a\": F32 [2] takes 8 bytes, data_offsets [0, 4] give 4"},
      {tensor("a", "[4294967296,4294967296]", "[0,0]"), 0, "takes more than 2^64 bytes"},
      {tensor("a", "[9223372036854775807,2,0]", "[0,0]"), 0, "takes more than 2^64 bytes"},
      {tensor("a", "[0]", "[0,4]"), 4, "takes 0 bytes"},
      {tensor("a", "[2]", "[0,8]"), 4, "cut off"},
      {tensor("a", "[2]", "[0,8]"), 12, "longer than it should be"},
      {tensor("a", "[1]", "[4,8]"), 8, "with a gap after"},
      {tensor("a", "[1]", "[0,4]") + "," + tensor("b", "[1]", "[8,12]"), 12,
       "tensor \"b\" starts at byte 8 of the data, with a gap"},
      {tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[2]", "[4,12]"), 12,
       "tensor \"b\" starts at byte 4 of the data, inside"},
      {tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[2]", "[0,8]"), 8, "inside"},
      {tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[0]", "[4,4]"), 8,
       "tensor \"b\" starts at byte 4"},
      {tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[0]", "[99,99]"), 8,
       "tensor \"b\" starts at byte 99"},
      {tensor("a", "[1]", "[0,4]") + "," + tensor("a", "[1]", "[4,8]"), 8,
       "tensor \"a\" is there twice"},
      {tensor("a", "[0]", "[0,0]") + "," + tensor("a", "[1]", "[0,4]"), 4,
       "tensor \"a\" is there twice"},
      {tensor("a", "[1]", "[18446744073709551612,18446744073709551615]"), 4, "tensor \"a\""},
      {tensor("a\\u0000\\n", "[2]", "[0,4]"), 4, "tensor \"a\\x00\\x0a\""},
  }));
  INFO(row.tensors);
  CHECK_THAT(
      outcome_of_header(safetensors_bytes("{" + row.tensors + "}", std::string(row.data, 'x'))),
      Catch::Contains(row.said));
}

TEST_CASE("mutated headers are accepted or refused, nothing else") {
  const std::string good = safetensors_bytes(
      R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
      R"("b":{"dtype":"F32","shape":[],"data_offsets":[12,16]}})",
      std::string(16, 'x'));
  std::mt19937 random(20261120);
  const std::string alphabet = "{}[]\",:0123456789-e.\\ \xff" + std::string(1, '\0');
  const TempFolder folder;
  int accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          bytes.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
        case 2:
          bytes.erase(at, 1 + random() % 8);
          break;
        default:
          bytes[random() % 8] = static_cast<char>(random());
      }
      if (bytes.empty()) bytes = "x";
    }
    std::filesystem::remove(folder.path / "m");
    const MappedFile file(folder.write("m", bytes));
    try {
      for (const auto& entry : read_header(file).entries) {
        REQUIRE(entry.end <= bytes.size());
        REQUIRE(entry.begin <= entry.end);
      }
      ++accepted;
    } catch (const Error&) {
    }
  }
  CHECK(accepted > 0);
}

TEST_CASE("a hundred thousand tensors open quickly") {
  std::string header = "{";
  for (int i = 0; i < 100000; ++i) {
    const std::string at = std::to_string(2 * i);
    header += (i == 0 ? "\"" : ",\"") +
              ("model.layers.0.mlp.experts." + std::to_string(100000 + i)) +
              R"(.gate_proj.weight":{"dtype":"BF16","shape":[1,1],"data_offsets":[)" + at + "," +
              std::to_string(2 * i + 2) + "]}";
  }
  const TempFolder folder;
  const MappedFile file(
      folder.write("model.safetensors", safetensors_bytes(header + "}", std::string(200000, 'x'))));
  const testing::ProcessorTime time;
  CHECK(read_header(file).entries.size() == 100000);
  CHECK(time.seconds() < 12);  // 0.08 s
}
