// Shards on disk: what is written, what is refused, and what happens when the process dies.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "files/seam.h"
#include "shard/llama_shards.h"
#include "shard/output_folder.h"
#include "shard/parts.h"
#include "shard/unshard.h"
#include "shard/verify.h"
#include "shard/writer.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

// The seam: a process that dies, or a disk that is full, at call number `fault_at`.
std::atomic<int> calls = 0;
int fault_at = 0;
int die(const char*) {
  if (++calls == fault_at) raise(SIGKILL);
  return 0;
}
int disk_full(const char* call) {
  return ++calls >= fault_at && std::string(call) == "write" ? ENOSPC : 0;
}
int count_only(const char*) {
  ++calls;
  return 0;
}

}  // namespace

TEST_CASE("parts: a tensor that would exceed the size opens the next part") {
  const auto sizes = [](const std::vector<int64_t>& tensors, int64_t limit) {
    Stage stage;
    for (size_t i = 0; i < tensors.size(); ++i) {
      stage.push_back({.name = std::to_string(i), .dtype = DType::u8, .shape = {tensors[i]}});
    }
    std::vector<int64_t> result;
    for (const PartPlan& part : plan_parts(stage, limit)) result.push_back(part.data_bytes);
    return result;
  };
  CHECK(sizes({4, 6, 5, 1}, 10) == std::vector<int64_t>{10, 6});
  CHECK(sizes({12, 3}, 10) == std::vector<int64_t>{0, 12, 3});
}

TEST_CASE("a header is padded to a multiple of 8") {
  const auto text = [](const std::string& name, std::vector<int64_t> shape) {
    const ShardTensor tensor{.name = name, .dtype = DType::f32, .shape = std::move(shape)};
    return safetensors_header({&tensor}).substr(8);
  };
  CHECK(text("attn.0", {1, 2, 3}) ==
        R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})");
  CHECK(text("attn0", {1, 1, 2, 3}).size() == 72);
  CHECK(safetensors_header({}).substr(8) == "{}      ");
}

TEST_CASE("file patterns follow str.format") {
  CHECK(FilePattern("", 4, 1).name(0, 3, 2) == "model-rank-3-part-2.safetensors");
  CHECK(FilePattern("", 4, 2).name(1, 3, 2) == "model-pp-1-tp-3-part-2.safetensors");
  CHECK(FilePattern("{{a}}-{tp_rank}.safetensors", 2, 1).name(0, 1, 0) == "{a}-1.safetensors");
  CHECK(FilePattern("{{a}}-{tp_rank:02d}-{part:02d}-{part}.safetensors").loader_text() ==
        "{{a}}-{rank:02d}-*-{part}.safetensors");
  CHECK(FilePattern(kPipelinePattern).loader_text() == kPipelinePattern);
  const FilePattern zeros("r{rank:03d}-{part:02}.safetensors", 2, 1);
  CHECK(zeros.name(0, 1, 7) == "r001-07.safetensors");
  CHECK(zeros.name(0, 1234, 100) == "r1234-100.safetensors");
  CHECK(zeros.match("r012-03.safetensors")->rank == 12);
  CHECK_FALSE(zeros.match("r12-03.safetensors"));
  for (const char* bad :
       {"a-{part}.safetensors", "{rank}{x}.safetensors", "{rank.safetensors", "{rank}}.safetensors",
        "{rank}{pp_rank}.safetensors", "../{rank}.safetensors", "{rank:x}.safetensors", "{rank}"}) {
    INFO(bad);
    CHECK(failure([&] { FilePattern(bad, 2, 1); }, "--file-pattern") == ExitCode::usage);
  }
}

TEST_CASE("side files are those whose last suffix is no weight's") {
  for (const char* name : {"x.bin", "x.pt", "x.safetensors", "a.b.bin"})
    CHECK(is_weight_name(name));
  for (const char* name : {".gitattributes", "a.pth", "a.PT", "x.safetensors.index.json", ".bin"}) {
    CHECK_FALSE(is_weight_name(name));
  }
}

TEST_CASE("what is cut and joined again is what it was") {
  const Scratch scratch;
  make_model(scratch);
  const auto before = contents(scratch.path("model"));
  for (const int64_t ranks : {1, 2, 4, 8}) {
    INFO("-tp " << ranks);
    const std::string out = "out" + std::to_string(ranks);
    write(scratch, {.tensor_parallel = ranks, .max_file_size = 4000}, out);
    CHECK_FALSE(verify_digests(scratch.path(out)));
    unshard(scratch.path(out), scratch.path(out + "joined"), {});
    CHECK(tensors_of(scratch.path(out + "joined")) == tensors_of(scratch.path("model")));
    CHECK(scratch.has(out + "/original/x.pt"));
    CHECK_FALSE(scratch.has(out + "/x.bin"));
  }
  CHECK(contents(scratch.path("model")) == before);
}

TEST_CASE("a checkpoint that is joined is divided into files that are as full as they may be") {
  const Scratch scratch;
  make_model(scratch);
  write(scratch, {.tensor_parallel = 2});
  int joined = 0;
  // Bytes of the tensors in each file.
  const auto files = [&](std::optional<int64_t> limit) {
    const std::string out = "joined" + std::to_string(++joined);
    unshard(scratch.path("out"), scratch.path(out), {.max_file_size = limit});
    std::map<std::string, int64_t> sizes;
    for (const auto& entry : fs::directory_iterator(scratch.path(out))) {
      if (entry.path().extension() != ".safetensors") continue;
      const std::string name = entry.path().filename().string();
      const std::string bytes = scratch.read(out + "/" + name);
      uint64_t header = 0;
      std::memcpy(&header, bytes.data(), sizeof header);
      sizes[name] = static_cast<int64_t>(bytes.size() - sizeof header - header);
    }
    std::vector<int64_t> result;
    for (const auto& [name, size] : sizes) result.push_back(size);
    return result;
  };
  // In the order of their names: lm_head and the table of tokens of 4480 bytes each; of a layer a
  // norm of 64, three matrices of 4096, a norm of 64, k, o, q and v of 512, 2048, 2048 and 512;
  // after the second layer a norm of 64.
  using Sizes = std::vector<int64_t>;
  CHECK(files(9344) == Sizes{9024, 8192, 9344, 8192, 9344});
  CHECK(files(9343) == Sizes{9024, 8192, 9280, 8256, 9280, 64});
  CHECK(files(18000) == Sizes{17216, 17536, 9344});
  CHECK(files(44096) == Sizes{44096});
  CHECK(files({}) == Sizes{44096});
  CHECK(files(44095) == Sizes{44032, 64});
  CHECK(files(1).size() == 21);
  CHECK(scratch.has("joined1/model-00005-of-00005.safetensors"));
  CHECK(scratch.has("joined4/model.safetensors"));
}

TEST_CASE("sizes that do not divide are refused with tensor and number") {
  const Scratch scratch;
  make_model(scratch);
  CHECK(failure([&] { write(scratch, {.tensor_parallel = 3}); }, "128 rows") == ExitCode::usage);
  CHECK_FALSE(scratch.has("out"));
}

TEST_CASE("a folder that is the source's or another's is refused") {
  const Scratch scratch;
  make_model(scratch);
  CHECK(failure([&] { write(scratch, {}, "model"); }, "is the source") == ExitCode::foreign_output);
  CHECK(failure([&] { write(scratch, {}, "model/out"); }, "lies in") == ExitCode::foreign_output);
  CHECK(failure([&] { write(scratch, {}, "none/out"); }, "parent") == ExitCode::output_unwritable);
  fs::create_directories(scratch.path("out"));
  scratch.write("out/mine.txt", "keep");
  CHECK(failure([&] { write(scratch, {}); }, "not empty") == ExitCode::foreign_output);
  CHECK(scratch.read("out/mine.txt") == "keep");
}

TEST_CASE("another job's folder is refused, the same job's is left as it is") {
  const Scratch scratch;
  make_model(scratch);
  write(scratch, {.tensor_parallel = 2});
  const auto first = contents(scratch.path("out"));
  write(scratch, {.tensor_parallel = 2});
  CHECK(contents(scratch.path("out")) == first);
  CHECK(failure([&] { write(scratch, {.tensor_parallel = 4}); }, "another job") ==
        ExitCode::foreign_output);
}

TEST_CASE("links are replaced, not written through") {
  const Scratch scratch;
  make_model(scratch);
  write(scratch, {});
  const std::string name = "out/model-rank-0-part-0.safetensors";
  const std::string whole = scratch.read(name);
  fs::remove(scratch.path(name));
  scratch.write("victim", "untouched");
  fs::create_symlink(scratch.path("victim"), scratch.path(name));
  write(scratch, {});
  CHECK(scratch.read("victim") == "untouched");
  CHECK(scratch.read(name) == whole);
}

TEST_CASE("a second process on the same folder is refused") {
  const Scratch scratch;
  make_model(scratch);
  const OutputFolder other(scratch.path("out"));
  CHECK(failure([&] { write(scratch, {}); }, "another process") == ExitCode::locked);
}

TEST_CASE("a flipped bit is found, with and without the source") {
  const Scratch scratch;
  make_model(scratch);
  write(scratch, {.tensor_parallel = 2});
  const std::string name = "out/model-rank-1-part-0.safetensors";
  std::string bytes = scratch.read(name);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  scratch.write(name, bytes);
  const auto by_digest = verify_digests(scratch.path("out"));
  REQUIRE(by_digest);
  CHECK(by_digest->find("model-rank-1-part-0.safetensors: tensor model.norm.weight") !=
        std::string::npos);
  const Source source(scratch.path("model"));
  const auto by_source = verify_source(Job(source, {.tensor_parallel = 2}), scratch.path("out"));
  REQUIRE(by_source);
  CHECK(by_source->find("model.norm.weight differs at its byte 63") != std::string::npos);
}

TEST_CASE("a source that changes meanwhile leaves no sidecar") {
  const Scratch scratch;
  make_model(scratch);
  const Source source(scratch.path("model"));
  scratch.write("model/config.json", kConfig.dump() + " ");
  const auto run = [&] {
    write_shards(Job(source, {}), scratch.path("out"), {.tool_version = "test"});
  };
  CHECK(failure(run, "was changed") == ExitCode::checkpoint_unusable);
  CHECK_FALSE(scratch.has(std::string("out/") + kSidecar));
}

TEST_CASE("a full disk leaves whole files alone, and the same command goes on") {
  const Scratch scratch;
  make_model(scratch);
  const JobOptions options{.tensor_parallel = 2, .max_file_size = 20000};
  write(scratch, options, "expected");
  const auto expected = contents(scratch.path("expected"));
  calls = 0;
  fault_at = 20;
  files::set_io_fault(disk_full);
  CHECK(failure([&] { write(scratch, options); }, "space") == ExitCode::output_unwritable);
  files::set_io_fault(nullptr);
  for (const auto& [name, digest] : contents(scratch.path("out"))) {
    INFO(name);
    if (name != kJournal) CHECK((expected.contains(name) && expected.at(name) == digest));
  }
  write(scratch, options);
  CHECK(contents(scratch.path("out")) == expected);
}

TEST_CASE("killed at any call: no wrong file under a final name, and a rerun finishes") {
  const Scratch scratch;
  make_model(scratch);
  const JobOptions options{.tensor_parallel = 2, .max_file_size = 20000};
  calls = 0;
  files::set_io_fault(count_only);
  write(scratch, options, "expected");
  files::set_io_fault(nullptr);
  const int total = calls;
  const auto expected = contents(scratch.path("expected"));
  REQUIRE(total > 30);
  for (int at = 1; at <= total; ++at) {
    INFO("call " << at << " of " << total);
    fs::remove_all(scratch.path("out"));
    const pid_t child = fork();
    if (child == 0) {
      calls = 0;
      fault_at = at;
      files::set_io_fault(die);
      write(scratch, options);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    if (fs::exists(scratch.path("out"))) {
      for (const auto& [name, digest] : contents(scratch.path("out"))) {
        if (name.ends_with(".plimsoll-tmp") || name.find(".plimsoll-tmp/") != std::string::npos ||
            name == kJournal) {
          continue;
        }
        INFO(name);
        CHECK((expected.contains(name) && expected.at(name) == digest));
      }
    }
    write(scratch, options);
    CHECK(contents(scratch.path("out")) == expected);
  }
}

TEST_CASE("tensor data that changes meanwhile is noticed, whatever its size") {
  const Scratch scratch;
  make_model(scratch);
  const Source source(scratch.path("model"));
  const std::atomic<bool> stop = false;
  bool changed = false;
  const auto run = [&] {
    write_shards(Job(source, {}), scratch.path("out"),
                 {.tool_version = "test", .stop = &stop, .progress = [&](int64_t) {
                    if (std::exchange(changed, true)) return;
                    std::fstream file(scratch.path("model/model.safetensors"),
                                      std::ios::binary | std::ios::in | std::ios::out);
                    file.seekp(-4, std::ios::end);
                    file.write("0123", 4);
                  }});
  };
  CHECK(failure(run, "model.safetensors was changed") == ExitCode::checkpoint_unusable);
  CHECK_FALSE(scratch.has(std::string("out/") + kSidecar));
}

TEST_CASE("joining survives a kill at any call, too") {
  const Scratch scratch;
  make_model(scratch);
  write(scratch, {.tensor_parallel = 2});
  const JobOptions options{.max_file_size = 20000};
  const auto join = [&](const std::string& to) {
    unshard(scratch.path("out"), scratch.path(to), options);
  };
  calls = 0;
  files::set_io_fault(count_only);
  join("expected");
  files::set_io_fault(nullptr);
  const int total = calls;
  const auto expected = contents(scratch.path("expected"));
  REQUIRE(total > 20);
  for (int at = 1; at <= total; ++at) {
    INFO("call " << at << " of " << total);
    fs::remove_all(scratch.path("joined"));
    const pid_t child = fork();
    if (child == 0) {
      calls = 0;
      fault_at = at;
      files::set_io_fault(die);
      join("joined");
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    if (fs::exists(scratch.path("joined"))) {
      for (const auto& [name, digest] : contents(scratch.path("joined"))) {
        if (name.find(".plimsoll-tmp") != std::string::npos || name == kJournal) continue;
        INFO(name);
        CHECK((expected.contains(name) && expected.at(name) == digest));
      }
    }
    join("joined");
    CHECK(contents(scratch.path("joined")) == expected);
  }
}

}  // namespace plimsoll::shard
