// Shards as the engine's weights: what is refused. That they are right is
// conformance/sharded_run's.
#include "shard/shard_reader.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "batch/scratch.h"
#include "model/config.h"
#include "reference/recipe.h"
#include "shard/writer.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

const fs::path kRecipe = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden/models/llama";

/// Shards of the recipe's model for two ranks in `out`, without a sidecar, as vLLM leaves them.
class Shards {
 public:
  explicit Shards(const JobOptions& options = {.tensor_parallel = 2}) {
    testing::write_checkpoint(kRecipe, scratch.path("model"));
    const Source source(scratch.path("model"));
    write_shards(Job(source, options), scratch.path("out"), {.tool_version = "test"});
    spec = model::make_model_spec(model::read_config(scratch.path("out")));
    fs::rename(out() / kSidecar, scratch.path("sidecar"));
  }

  [[nodiscard]] fs::path out() const { return scratch.path("out"); }
  void restore_sidecar() const { fs::rename(scratch.path("sidecar"), out() / kSidecar); }
  void rename(const std::string& from, const std::string& to) const {
    fs::rename(out() / from, out() / to);
  }
  [[nodiscard]] std::string refusal(const ShardHints& hints = {}) const {
    try {
      const ShardReader reader(out(), spec, hints);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  Scratch scratch;
  model::ModelSpec spec;
};

bool has(const std::string& text, const std::string& word) {
  INFO(text);
  const bool found = text.find(word) != std::string::npos;
  CHECK(found);
  return found;
}

// A safetensors file with this header and `bytes` of data.
std::string file_with(const std::string& header, size_t bytes) {
  std::string text(8, '\0');
  text[0] = static_cast<char>(header.size() & 0xff);
  text[1] = static_cast<char>(header.size() >> 8);
  return text + header + std::string(bytes, '\1');
}

}  // namespace

TEST_CASE("a missing rank, stage or part is named") {
  const Shards two;
  fs::remove(two.out() / "model-rank-1-part-0.safetensors");
  has(two.refusal(), "model-rank-1-part-0.safetensors is missing: the shards are cut for 2 ranks");

  const Shards first;
  fs::remove(first.out() / "model-rank-0-part-0.safetensors");
  has(first.refusal(), "model-rank-0-part-0.safetensors is missing");

  const Shards parts({.tensor_parallel = 2, .max_file_size = 100'000});
  fs::remove(parts.out() / "model-rank-1-part-1.safetensors");
  has(parts.refusal(), "model-rank-1-part-1.safetensors is missing");

  const Shards stages({.tensor_parallel = 2, .pipeline_parallel = 2});
  fs::remove(stages.out() / "model-pp-1-tp-0-part-0.safetensors");
  has(stages.refusal(), "model-pp-1-tp-0-part-0.safetensors is missing");
  fs::remove(stages.out() / "model-pp-1-tp-1-part-0.safetensors");
  has(stages.refusal(), "lack tensor");
}

TEST_CASE("names follow --file-pattern") {
  const Shards shards({.tensor_parallel = 2, .file_pattern = "{rank}of2-{part}.safetensors"});
  has(shards.refusal(), "holds no file model-rank-{rank}");
  CHECK(shards.refusal({.file_pattern = "{rank}of2-{part}.safetensors"}).empty());
  has(shards.refusal({.file_pattern = "{rank}-{part}.safetensors"}), "holds no file {rank}-{part}");
  has(shards.refusal({.file_pattern = "{tensor}.safetensors"}), "unknown field");
}

TEST_CASE("files that do not belong together are refused") {
  const Shards left_over;
  fs::copy(left_over.out() / "model-rank-1-part-0.safetensors",
           left_over.out() / "model-rank-2-part-0.safetensors");
  has(left_over.refusal(), "model-rank-2-part-0.safetensors is left over");

  const Shards twice;
  fs::copy(twice.out() / "model-rank-1-part-0.safetensors",
           twice.out() / "model-rank-1-part-1.safetensors");
  has(twice.refusal(), "is both in");

  const Shards more;
  more.scratch.write("out/model-rank-1-part-1.safetensors",
                     file_with(R"({"odd":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4));
  has(more.refusal(), "model-rank-1-part-1.safetensors: tensor \"odd\" is none that vLLM has");

  const Shards mixed;
  const Shards half({.tensor_parallel = 2, .dtype = "float16"});
  fs::copy(half.out() / "model-rank-1-part-0.safetensors",
           mixed.out() / "model-rank-1-part-0.safetensors", fs::copy_options::overwrite_existing);
  has(mixed.refusal(), "model-rank-1-part-0.safetensors: tensor");
  has(mixed.refusal(), "has dtype F16");
}

TEST_CASE("the sidecar tells shards of different jobs from each other") {
  const Shards shards;
  CHECK(shards.refusal().empty());
  std::string bytes = shards.scratch.read("out/model-rank-1-part-0.safetensors");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  shards.scratch.write("out/model-rank-1-part-0.safetensors", bytes);
  CHECK(shards.refusal().empty());  // nothing tells
  shards.restore_sidecar();
  has(shards.refusal(), "model-rank-1-part-0.safetensors is not the file");
}

TEST_CASE("hostile shards are refused by name") {
  const std::string one = "model-rank-1-part-0.safetensors";
  const std::pair<const char*, std::string> cases[] = {
      {"too few", ""},
      {"header length", std::string(8, '\x7f') + "{}"},
      {"past the end", file_with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 0)},
      {"lack tensor", file_with("{}", 0)},
      {"none that vLLM has",
       file_with(R"({"odd":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4)}};
  for (const auto& [why, text] : cases) {
    INFO(why);
    const Shards shards;
    shards.scratch.write("out/" + one, text);
    has(shards.refusal(), one);
  }
  const Shards config;
  config.scratch.write("out/model-rank-99999999-part-0.safetensors", "x");
  has(config.refusal(), "is missing");
}

}  // namespace plimsoll::shard
