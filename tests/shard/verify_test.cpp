// Findings of verifying, and their names.
#include "shard/verify.h"

#include <catch2/catch.hpp>

#include "checkpoint/safetensors.h"
#include "shard/llama_shards.h"

namespace plimsoll::shard {
namespace {

struct Place {
  std::string tensor;
  size_t first = 0, last = 0;  // bytes of the file
};

std::vector<Place> tensor_places(const fs::path& path) {
  const checkpoint::MappedFile file(path);
  const checkpoint::Header header = checkpoint::read_header(file);
  std::vector<Place> places;
  for (const auto& entry : header.entries) {
    places.push_back(
        {entry.name, header.data_start + entry.begin, header.data_start + entry.end - 1});
  }
  return places;
}

std::string told(const std::function<std::optional<std::string>()>& verify) {
  try {
    return verify().value_or("nothing");
  } catch (const Error& error) {
    return error.what();
  }
}

// Findings of both ways of verifying for "out" with this byte of a file flipped.
std::vector<std::string> findings(const Scratch& scratch, const Job& job, const std::string& name,
                                  size_t at) {
  const std::string whole = scratch.read("out/" + name);
  std::string bytes = whole;
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  scratch.write("out/" + name, bytes);
  std::vector<std::string> said = {told([&] { return verify_digests(scratch.path("out")); }),
                                   told([&] { return verify_source(job, scratch.path("out")); })};
  scratch.write("out/" + name, whole);
  return said;
}

}  // namespace

TEST_CASE("a damaged byte is told by file and tensor, at the tensor's first and last byte") {
  const Scratch scratch;
  make_model(scratch);
  const Source source(scratch.path("model"));
  const Job job(source, {.tensor_parallel = 2, .max_file_size = 8000});
  write_shards(job, scratch.path("out"), {.tool_version = "test"});
  for (const std::string& name : job.file_names()) {
    for (const Place& place : tensor_places(scratch.path("out/" + name))) {
      for (const size_t at : {place.first, place.last}) {
        const std::string expected = name + ": tensor " + place.tensor + " ";
        for (const std::string& said : findings(scratch, job, name, at)) {
          INFO(said << "\nexpected: " << expected);
          CHECK(said.find(expected) != std::string::npos);
        }
      }
    }
    for (const std::string& said : findings(scratch, job, name, 9)) {
      INFO(name << ": " << said);
      CHECK(said.find("header") != std::string::npos);
    }
  }
}

TEST_CASE("files that are missing, cut, longer or not of these shards are found both ways") {
  const Scratch scratch;
  make_model(scratch);
  const Source source(scratch.path("model"));
  const Job job(source, {.tensor_parallel = 2});
  const std::string name = "model-rank-1-part-0.safetensors";
  struct Row {
    const char* what;
    std::function<void(const fs::path& file)> change;
    std::string named = "model-rank-1-part-0.safetensors";
  };
  const Row rows[] = {
      {"cut", [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) - 1); }},
      {"longer", [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) + 1); }},
      {"missing", [](const fs::path& file) { fs::remove(file); }},
      {"a stranger",
       [](const fs::path& file) { fs::copy(file, file.parent_path() / "other.safetensors"); },
       "other.safetensors"}};
  for (const Row& row : rows) {
    INFO(row.what);
    fs::remove_all(scratch.path("out"));
    write_shards(job, scratch.path("out"), {.tool_version = "test"});
    row.change(scratch.path("out/" + name));
    CHECK_THAT(told([&] { return verify_digests(scratch.path("out")); }),
               Catch::Contains(row.named));
    CHECK_THAT(verify_source(job, scratch.path("out")).value_or("nothing"),
               Catch::Contains(row.named));
  }
}

}  // namespace plimsoll::shard
