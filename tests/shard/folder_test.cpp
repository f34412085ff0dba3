// Folders of shards and of joined checkpoints: what lies beside the weights, what is left out, how
// files are divided, room on the disk.
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "shard/llama_shards.h"
#include "shard/unshard.h"
#include "shard/verify.h"

namespace plimsoll::shard {
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";

/// Bytes of the small llama: table and head of 70 x 32; a layer's q and o of 32 x 32, k and v of 8
/// x 32, three matrices of 64 x 32, two norms of 32; the last norm. In 16 bits.
constexpr int64_t kTable = 70 * 32 * 2;
constexpr int64_t kLayer = (2 * 32 * 32 + 2 * 8 * 32 + 3 * 64 * 32 + 2 * 32) * 2;
constexpr int64_t kAll = 2 * kTable + 2 * kLayer + 32 * 2;

fs::perms mode_of(const std::string& path) {
  return fs::status(path).permissions();
}

}  // namespace

TEST_CASE("files beside the weights keep their modes, in shards and in what is joined of them") {
  const Scratch scratch;
  make_model(scratch);
  const std::map<std::string, fs::perms> modes = {{"tokenizer.json", fs::perms(0640)},
                                                  {"original/x.pt", fs::perms(0751)}};
  for (const auto& [name, mode] : modes) fs::permissions(scratch.path("model/" + name), mode);
  write(scratch, {.tensor_parallel = 2});
  unshard(scratch.path("out"), scratch.path("joined"), {});
  for (const auto& [name, mode] : modes) {
    INFO(name);
    CHECK(mode_of(scratch.path("out/" + name)) == mode);
    CHECK(mode_of(scratch.path("joined/" + name)) == mode);
  }
}

TEST_CASE("a joined checkpoint's index is its own, and one file has none") {
  const Scratch scratch;
  make_model(scratch);
  write(scratch, {.tensor_parallel = 2});
  scratch.write(std::string("out/") + kIndexName, "the source's");
  unshard(scratch.path("out"), scratch.path("one"), {});
  CHECK(!scratch.has(std::string("one/") + kIndexName));
  const auto index_of = [&](int64_t size) {
    const std::string to = fmt::format("of {}", size);
    unshard(scratch.path("out"), scratch.path(to), {.max_file_size = size});
    return read_json_file(scratch.path(to + "/" + kIndexName));
  };
  // Tensors go into files by name: the head, the table, the layers.
  const Json both = index_of(2 * kTable), one = index_of(2 * kTable - 1);
  for (const Json& index : {both, one}) {
    CHECK(index.at("metadata").at("total_size") == kAll);
    CHECK(index.at("weight_map").size() == 3 + 2 * 9);
  }
  const auto file_of = [](const Json& index, const char* tensor) {
    return index.at("weight_map").at(tensor).get<std::string>().substr(0, 11);
  };
  CHECK(file_of(both, "lm_head.weight") == "model-00001");
  CHECK(file_of(both, "model.embed_tokens.weight") == "model-00001");
  CHECK(file_of(both, "model.layers.0.input_layernorm.weight") == "model-00002");
  CHECK(file_of(one, "model.embed_tokens.weight") == "model-00002");
}

TEST_CASE("the record of shards names tensors that vLLM leaves out") {
  const Scratch scratch;
  make_model(scratch);
  write(scratch, {});
  const auto left_out = [&](const std::string& folder) {
    return read_record(scratch.path(folder + "/" + kSidecar)).left_out;
  };
  CHECK(left_out("out").empty());
  // A head that is a copy of the table that it is tied to: zeros, both.
  Json config = kConfig, recipe = read_json_file(scratch.path("recipe/recipe.json"));
  config["tie_word_embeddings"] = true;
  for (Json& tensor : recipe["tensors"]) tensor["amplitude"] = 0;
  fs::remove_all(scratch.path("model"));
  write_model(scratch, config, recipe);
  write(scratch, {}, "tied");
  CHECK(left_out("tied") == std::vector<std::string>{"lm_head.weight"});
}

TEST_CASE("a head that differs from the table in the last rank's rows alone is joined") {
  const Scratch scratch;
  make_model(scratch);
  Json config = kConfig, recipe = read_json_file(scratch.path("recipe/recipe.json"));
  config["tie_word_embeddings"] = true;
  for (Json& tensor : recipe["tensors"]) tensor["amplitude"] = 0;
  fs::remove_all(scratch.path("model"));
  write_model(scratch, config, recipe);
  std::string bytes = scratch.read("model/model.safetensors");
  bytes[begin_of(bytes, "lm_head.weight") + kTable - 1] = 0x3f;
  scratch.write("model/model.safetensors", bytes);
  write(scratch, {.tensor_parallel = 2});
  unshard(scratch.path("out"), scratch.path("joined"), {});
  CHECK(tensors_of(scratch.path("joined")) == tensors_of(scratch.path("model")));
}

TEST_CASE("shards of a source that was written again since are another job's") {
  for (const char* file : {"model.safetensors", "config.json"}) {
    INFO(file);
    const Scratch scratch;
    make_model(scratch);
    write(scratch, {.tensor_parallel = 2});
    const fs::path path = scratch.path(std::string("model/") + file);
    fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
    CHECK(failure([&] { write(scratch, {.tensor_parallel = 2}); }, "(source differs)") ==
          ExitCode::foreign_output);
  }
}

TEST_CASE("a record has every setting of its job: shards of another setting are another job's") {
  const Scratch scratch;
  make_model(scratch);
  const Source source(scratch.path("model"));
  const JobOptions plain{.tensor_parallel = 2, .pipeline_parallel = 2};
  write(scratch, plain);
  const std::vector<int64_t> partition = {1, 1};
  const auto changed = [&](const std::function<void(JobOptions&)>& change) {
    JobOptions options = plain;
    change(options);
    return options;
  };
  const std::pair<std::string, JobOptions> others[] = {
      {"tensor_parallel_size", changed([](JobOptions& job) { job.tensor_parallel = 1; })},
      // Names of files have no stage then.
      {"file_pattern", changed([](JobOptions& job) { job.pipeline_parallel = 1; })},
      {"pipeline_partition", changed([&](JobOptions& job) { job.pipeline_partition = partition; })},
      {"dtype", changed([](JobOptions& job) { job.dtype = "float16"; })},
      {"max_file_size", changed([](JobOptions& job) { job.max_file_size = 8000; })},
      {"max_file_size", changed([](JobOptions& job) { job.max_file_size.reset(); })},
      {"file_pattern",
       changed([](JobOptions& job) { job.file_pattern = "r{pp_rank}-{rank}-{part}.safetensors"; })},
      {"vllm_version", changed([](JobOptions& job) { job.release = parse_release("0.32.0"); })}};
  for (const auto& [setting, options] : others) {
    INFO(setting);
    CHECK(failure([&] { write(scratch, options); }, "(" + setting + " differs)") ==
          ExitCode::foreign_output);
    const Json written = Job(source, options).description();
    CHECK(written != Job(source, plain).description());
    const JobOptions read = options_of({.job = written, .files = {}}, "record");
    CHECK(read.pipeline_partition == options.pipeline_partition);
    CHECK(Job(source, read).description() == written);
  }
  CHECK(write(scratch, plain).written_bytes == 0);
}

TEST_CASE("weights that are none of a job's are not left beside its shards") {
  const Scratch scratch;
  make_model(scratch);
  write(scratch, {.tensor_parallel = 2});
  scratch.write("out/model-rank-2-part-0.safetensors", "of another launch");
  CHECK(failure([&] { write(scratch, {.tensor_parallel = 2}); },
                "model-rank-2-part-0.safetensors, which is none of this job's files") ==
        ExitCode::foreign_output);
  fs::remove(scratch.path("out/model-rank-2-part-0.safetensors"));
  CHECK(write(scratch, {.tensor_parallel = 2}).written_bytes == 0);
}

TEST_CASE("a file beside the weights of the same size and other bytes is found") {
  const Scratch scratch;
  make_model(scratch);
  write(scratch, {});
  const auto difference = [&] {
    return verify_side_files(side_records(scratch.path("model")), scratch.path("out"))
        .value_or("nothing");
  };
  CHECK(difference() == "nothing");
  scratch.write("out/original/x.pt", "COPIED");
  CHECK_THAT(difference(), Catch::Contains("original/x.pt: is not what was written (6 bytes"));
}

TEST_CASE("releases of vLLM are known from the oldest one to the newest one's last patch") {
  const auto code = [](const Release& release) {
    return failure([&] { parse_release(model::version_text(release)); }, "known are");
  };
  Release older = kOldestRelease, newer = kNewestRelease;
  CHECK(code(older) == ExitCode::done);
  CHECK(code(newer) == ExitCode::done);
  newer.patch += 9;
  CHECK(code(newer) == ExitCode::done);
  newer = {.major = newer.major, .minor = newer.minor + 1, .patch = 0};
  CHECK(code(newer) == ExitCode::usage);
  if (older.patch > 0) {
    --older.patch;
  } else {
    --older.minor;
  }
  CHECK(code(older) == ExitCode::usage);
}

TEST_CASE("shards that the disk has no room for are refused before the first of them") {
  const Scratch scratch;
  make_model(scratch);
  // Over 4 TiB without a byte on the disk: a table and a head of 2^24 tokens, 2^16 wide.
  constexpr int64_t kTokens = 1 << 24, kWidth = 1 << 16;
  constexpr uint64_t kBytes = uint64_t{2} * kTokens * kWidth;
  if (fs::space(scratch.path("model")).available > 2 * kBytes) {
    WARN("skipped: the disk has room for it");
    return;
  }
  Json config = kConfig;
  config.update({{"vocab_size", kTokens}, {"hidden_size", kWidth}, {"num_hidden_layers", 1}});
  scratch.write("model/config.json", config.dump());
  Json header = Json::object();
  uint64_t end = 0;
  const auto add = [&](const std::string& name, int64_t rows, int64_t columns) {
    const uint64_t bytes =
        uint64_t{2} * static_cast<uint64_t>(rows * std::max<int64_t>(1, columns));
    const Json shape = columns == 0 ? Json{rows} : Json{rows, columns};
    header[name] = {{"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  };
  add("model.embed_tokens.weight", kTokens, kWidth);
  add("lm_head.weight", kTokens, kWidth);
  add("model.norm.weight", kWidth, 0);
  const std::string layer = "model.layers.0.";
  for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"})
    add(layer + norm, kWidth, 0);
  for (const char* wide : {"q", "o"})
    add(layer + "self_attn." + wide + "_proj.weight", kWidth, kWidth);
  for (const char* narrow : {"k", "v"})
    add(layer + "self_attn." + narrow + "_proj.weight", kWidth / 4, kWidth);
  for (const char* first : {"gate", "up"}) add(layer + "mlp." + first + "_proj.weight", 64, kWidth);
  add(layer + "mlp.down_proj.weight", kWidth, 64);
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  length[0] = static_cast<char>(text.size() & 0xff);
  length[1] = static_cast<char>(text.size() >> 8);
  scratch.write("model/model.safetensors", length + text);
  std::error_code error;
  fs::resize_file(scratch.path("model/model.safetensors"), 8 + text.size() + end, error);
  if (error) {
    WARN("skipped: the file system has no such files");
    return;
  }
  CHECK(failure([&] { write(scratch, {}); }, "are needed and") == ExitCode::output_unwritable);
  CHECK(!scratch.has("out/" + std::string(kJournal)));
}

TEST_CASE("a source that cannot be copied leaves no folder") {
  const Scratch scratch;
  make_model(scratch);
  fs::create_symlink("/nonexistent", scratch.path("model/dangling"));
  CHECK_THROWS_WITH(write(scratch, {.tensor_parallel = 2}), Catch::Contains("dangling"));
  CHECK_FALSE(fs::exists(scratch.path("out")));
  fs::remove(scratch.path("model/dangling"));
  fs::create_directory(scratch.path("model/loop"));
  fs::create_directory_symlink("..", scratch.path("model/loop/up"));
  CHECK_THROWS_WITH(write(scratch, {.tensor_parallel = 2}), Catch::Contains("form a loop"));
  CHECK_FALSE(fs::exists(scratch.path("out")));
}

}  // namespace plimsoll::shard
