// Folders of weights: files that are read, files that are refused, and the messages.
#include "checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/crafted.h"
#include "checkpoint/mapped_file.h"

namespace fs = std::filesystem;
using namespace plimsoll;
using checkpoint::Checkpoint;
using plimsoll::testing::safetensors_bytes;
using plimsoll::testing::TempFolder;

namespace {

// A file with one tensor of four bytes.
std::string one_tensor(const std::string& name) {
  return safetensors_bytes("{\"" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                           "1234");
}

constexpr const char* kIndex = "model.safetensors.index.json";

std::string outcome(const fs::path& folder) {
  try {
    Checkpoint::open(folder);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::checkpoint_unusable);
    return error.what();
  }
  return "opened";
}

}  // namespace

TEST_CASE("one file, several files without an index, and an index") {
  const TempFolder folder;
  folder.write("model.safetensors", one_tensor("a"));
  CHECK(Checkpoint::open(folder.path).tensors().size() == 1);

  const TempFolder parts;
  parts.write("part-1.safetensors", one_tensor("a"));
  parts.write("part-2.safetensors", one_tensor("b"));
  parts.write("consolidated.safetensors", one_tensor("a"));
  parts.write("._part-1.safetensors", "a Mac's own notes");
  CHECK(Checkpoint::open(parts.path).tensors().size() == 2);

  parts.write(kIndex, R"({"metadata":{"total_size":4,"x":[null,{"y":[1.5,-2,true]}]},
                          "weight_map":{"b":"part-2.safetensors"}})");
  const Checkpoint indexed = Checkpoint::open(parts.path);
  REQUIRE(indexed.find("b") != nullptr);
  CHECK(indexed.find("a") == nullptr);
  CHECK(indexed.find("b")->file->path() == parts.path / "part-2.safetensors");
  CHECK(std::string(reinterpret_cast<const char*>(indexed.find("b")->data), 4) == "1234");
}

TEST_CASE("names in the index may not leave the folder") {
  for (const char* file : {"../secret.safetensors", "/etc/passwd", "/etc/x.safetensors",
                           "sub/x.safetensors", "..\\\\x.safetensors", "a\\u0000.safetensors", "",
                           ".", "..", ".safetensors", "model.bin"}) {
    INFO(file);
    const TempFolder folder;
    folder.write(kIndex, std::string(R"({"weight_map":{"a":")") + file + "\"}}");
    CHECK_THAT(outcome(folder.path), Catch::Contains("puts tensor \"a\" in \"") &&
                                         Catch::Contains("expected the plain name"));
  }
}

TEST_CASE("an index that names more than the files hold, or the wrong file, opens all the same") {
  const TempFolder folder;
  folder.write("x.safetensors", one_tensor("a"));
  folder.write("y.safetensors", one_tensor("b"));
  folder.write(kIndex,
               R"({"weight_map":{"a":"y.safetensors","b":"y.safetensors","z":"x.safetensors"}})");
  const Checkpoint indexed = Checkpoint::open(folder.path / ".");
  CHECK(indexed.find("a") != nullptr);
  CHECK(indexed.promised_file("a").empty());
  CHECK(indexed.find("z") == nullptr);
  CHECK(indexed.promised_file("z") == "x.safetensors");
}

TEST_CASE("an index that does not fit its files is refused") {
  struct Row {
    const char* index;
    const char* said;
  };
  const Row row = GENERATE(values<Row>({
      {R"({"weight_map":{"a":"gone.safetensors"}})",
       "gone.safetensors is missing, which model.safetensors.index.json names"},
      {R"({"weight_map":{"a":"x.safetensors","b":"copy.safetensors"}})", "tensor \"a\" is both in"},
      {R"({"weight_map":{}})", "has no weight_map with files"},
      {R"({})", "has no weight_map with files"},
      {R"([])", "a list where none belongs"},
      {R"({"weight_map":[]})", "a list where none belongs"},
      {R"({"weight_map":"x.safetensors"})", "weight_map is no object"},
      {R"({"weight_map":{"a":1}})", "a number where none belongs"},
      {R"({"weight_map":{"a":{"b":"x.safetensors"}}})", "nested too deeply"},
      {R"({"weight_map":{"a":"x.safetensors"},"weight_map":{}})", "has weight_map twice"},
      {R"({"metadata":[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]})", "nested too deeply"},
      {R"({"weight_map":)", "not JSON"},
      {"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"},
  }));
  INFO(row.index);
  const TempFolder folder;
  folder.write("x.safetensors", one_tensor("a"));
  folder.write("y.safetensors", one_tensor("b"));
  folder.write("copy.safetensors", one_tensor("a"));
  folder.write(kIndex, row.index);
  CHECK_THAT(outcome(folder.path), Catch::Contains(row.said));
}

TEST_CASE("folders of other formats are named with the cure") {
  struct Row {
    const char* file;
    const char* said;
  };
  const Row row = GENERATE(values<Row>({
      {"pytorch_model-00001-of-00002.bin",
       "holds PyTorch pickles (pytorch_model-00001-of-00002.bin) and no safetensors; load it with "
       "transformers"},
      {"model.pt", "PyTorch pickles"},
      {"model-Q4_K_M.gguf", "holds a GGUF file (model-Q4_K_M.gguf)"},
      {"consolidated.00.pth", "PyTorch pickles"},
      {"tf_model.h5", "TensorFlow weights"},
      {"flax_model.msgpack", "Flax weights"},
      {"model.onnx", "an ONNX graph"},
      {"adapter_model.safetensors", "LoRA adapter"},
      {"consolidated.safetensors", "Mistral's own names"},
      {"config.json", "holds no *.safetensors file; is the download complete?"},
  }));
  INFO(row.file);
  const TempFolder folder;
  folder.write(row.file, one_tensor("a"));
  CHECK_THAT(outcome(folder.path), Catch::Contains(row.said));
}

TEST_CASE("symbolic links are followed; loops and dangling ones are named") {
  const TempFolder folder;
  folder.write("blobs/0123", one_tensor("a"));
  fs::create_directories(folder.path / "snapshots/c");
  const fs::path link = folder.path / "snapshots/c/model.safetensors";
  fs::create_symlink("../../blobs/0123", link);
  CHECK(outcome(link.parent_path()) == "opened");
  fs::remove(folder.path / "blobs/0123");
  CHECK_THAT(outcome(link.parent_path()), Catch::Contains("a symbolic link to one that is gone"));
  fs::remove(link);
  fs::create_symlink("model.safetensors", link);
  CHECK_THAT(outcome(link.parent_path()), Catch::Contains("symbolic links form a loop"));
  fs::remove(link);
  fs::create_symlink("/dev/zero", link);
  CHECK_THAT(outcome(link.parent_path()), Catch::Contains("not a regular file"));
}

TEST_CASE("FIFOs, folders and empty files are refused without waiting") {
  const TempFolder folder;
  const fs::path file = folder.path / "model.safetensors";
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  CHECK_THAT(outcome(folder.path), Catch::Contains("not a regular file"));
  fs::remove(file);
  fs::create_directory(file);
  CHECK_THAT(outcome(folder.path), Catch::Contains("not a regular file"));
  fs::remove(file);
  folder.write("model.safetensors", "");
  CHECK_THAT(outcome(folder.path), Catch::Contains("the file is empty"));
}

TEST_CASE("a file that shrinks while it is mapped ends in an error, not in a crash") {
  const TempFolder folder;
  const fs::path path = folder.write("file", std::string(100'000, 'x'));
  const checkpoint::MappedFile file(path);
  CHECK(file.head(100'000) == std::string(100'000, 'x'));
  fs::resize_file(path, 5000);
  CHECK_THROWS_WITH(file.head(100'000), Catch::Contains("became shorter or unreadable"));
}
