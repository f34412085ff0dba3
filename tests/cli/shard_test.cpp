// `plimsoll shard` as a user calls it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>

#include "cli/program.h"
#include "model/vllm/version.h"
#include "reference/recipe.h"

using namespace plimsoll;
using Catch::Contains;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

namespace fs = std::filesystem;

size_t lines_of(const std::string& text) {
  return static_cast<size_t>(std::ranges::count(text, '\n'));
}

bool is_same(const std::string& a, const std::string& b) {
  std::ifstream first(a, std::ios::binary), second(b, std::ios::binary);
  return std::equal(std::istreambuf_iterator<char>(first), {},
                    std::istreambuf_iterator<char>(second), {});
}

// One byte of the file becomes another.
void damage(const std::string& path) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(-1, std::ios::end);
  const int last = file.get();
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(last ^ 1));
}

/// Adds a head of zeros to a model that has none.
void add_head(const Scratch& scratch, const std::string& file) {
  const std::string before = scratch.read(file);
  uint64_t length = 0;
  std::memcpy(&length, before.data(), sizeof length);
  auto header = parse_json<Json>(before.substr(sizeof length, length));
  const std::string data = before.substr(sizeof length + length);
  Json head = header.at("model.embed_tokens.weight");
  const auto bytes = head["data_offsets"][1].get<size_t>() - head["data_offsets"][0].get<size_t>();
  head["data_offsets"] = {data.size(), data.size() + bytes};
  header["lm_head.weight"] = head;
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  length = text.size();
  const std::string prefix(reinterpret_cast<const char*>(&length), sizeof length);
  scratch.write(file, prefix + text + data + std::string(bytes, '\0'));
}

}  // namespace

TEST_CASE("usage errors of shard are one line and status 2, and make no folder") {
  const Scratch scratch;
  struct Row {
    std::string arguments, message;
  };
  const Row rows[] = {
      {"shard", "give one of MODEL, --verify DIR and --unshard DIR"},
      {"shard $MODEL --verify x", "give one of MODEL"},
      {"shard $MODEL", "give -o DIR"},
      {"shard --unshard x", "give -o DIR"},
      {"shard $MODEL -o out --format json", "belongs to --dry-run"},
      {"shard --verify x", "--verify x: is no folder"},
      {"shard --unshard x -o out --dry-run", "--dry-run belongs to MODEL"},
      {"shard --verify x --quantization awq", "--quantization: belongs to MODEL"},
      {"shard $MODEL -o out --file-pattern $'\\xff{rank}'", "is not UTF-8"},
      {"shard $MODEL -o out --source x", "--source belongs to --verify"},
      {"shard $MODEL -o out -tp 0", "--tensor-parallel-size: expected a number from 1"},
      {"shard $MODEL -o out -tp 4097", "--tensor-parallel-size: expected a number from 1 to 4096"},
      {"shard $MODEL -o out -tp 4096", "which 4096 does not"},
      {"shard $MODEL -o out -tp 3", "lm_head.weight has 2048 rows with padding, which 3 does not"},
      {"shard $MODEL -o out -tp 4", "qkv_proj.weight has 6 query heads, which 4 does not divide"},
      {"shard $MODEL -o out -pp 7", "--pipeline-parallel-size 7: the model has 6 layers"},
      {"shard $MODEL -o out -pp 2 --vllm-version 0.31", "writes the stages over each other"},
      {"shard $MODEL -o out --dtype int4", "--dtype int4: expected auto"},
      {"shard $MODEL -o out --vllm-version 1",
       "expected a version such as " + model::version_text(model::kNewestRelease)},
      {"shard $MODEL -o out --max-file-size 0", "--max-file-size: expected a size of at least 1"},
      {"shard $MODEL -o out --format xml", "--format: expected one of text|json"},
      {"shard $MODEL -o out --file-pattern '{x}.safetensors'", "unknown field '{x}'"},
      {"shard $MODEL -o out -tp 2 --file-pattern a.safetensors", "put {rank} into it"},
      {"shard $MODEL -o out -pp 2 --file-pattern a.safetensors", "put {pp_rank} into it"},
      {"shard $MODEL -o out -q fp8",
       "--quantization fp8: vLLM quantizes plain weights while it loads"},
      {"shard $MODEL -o out --max-file-sise 1", "did you mean --max-file-size?"},
  };
  for (const Row& row : rows) {
    INFO(row.arguments);
    const Outcome outcome = shell(scratch, "plimsoll " + row.arguments);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains(row.message));
    CHECK(lines_of(outcome.err) == 1);
    CHECK(!scratch.has("out"));
  }
}

TEST_CASE("VLLM_PP_LAYER_PARTITION divides the layers") {
  const Scratch scratch;
  const auto run = [&](const std::string& partition, const std::string& flags) {
    return shell(scratch, "VLLM_PP_LAYER_PARTITION=" + partition +
                              " plimsoll shard $MODEL --dry-run --format json " + flags);
  };
  const Outcome table = run("1,5", "-pp 2");
  CHECK(table.status == 0);
  for (const Json& row : test::json_lines(table.out)) {
    const auto name = row.at("tensor").get<std::string>();
    if (name.find(".layers.") == std::string::npos) continue;
    CHECK((name.find(".layers.0.") != std::string::npos) ==
          (row.at("file") == "model-pp-0-tp-0-part-0.safetensors"));
  }
  for (const auto& [partition, message] : {std::pair("1,x", "expected numbers of layers"),
                                           {"1,", "expected numbers of layers"},
                                           {"6", "expected one for each of 2 pipeline stages"},
                                           {"3,4", "has 7 layers, the model has 6"}}) {
    INFO(partition);
    const Outcome outcome = run(partition, "-pp 2");
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains(message));
  }
  CHECK(run("2,4", "").status == 2);  // as vLLM: it counts without stages too
}

TEST_CASE("a dry run prints the table and writes nothing") {
  const Scratch scratch;
  const Outcome text = shell(scratch, "plimsoll shard $MODEL -tp 2 --dry-run -o out");
  CHECK(text.status == 0);
  CHECK_THAT(text.out,
             Catch::StartsWith("tensor\tsource tensors\trank\tshape\tdtype\tbytes\tfile\n"));
  CHECK_THAT(text.out, Contains("\nmodel.layers.0.mlp.down_proj.weight\t"
                                "model.layers.0.mlp.down_proj.weight\t1\t[192, 256]\tBF16\t98304\t"
                                "model-rank-1-part-0.safetensors\n"));
  CHECK(!scratch.has("out"));
  const auto rows =
      test::json_lines(shell(scratch, "plimsoll shard $MODEL -tp 2 --dry-run --format json").out);
  CHECK(rows.size() + 1 == lines_of(text.out));
  const auto fused = std::ranges::find_if(rows, [](const Json& row) {
    return row.at("tensor") == "model.layers.5.self_attn.qkv_proj.weight" && row.at("rank") == 0;
  });
  REQUIRE(fused != rows.end());
  CHECK(fused->at("sources") == Json{"model.layers.5.self_attn.q_proj.weight",
                                     "model.layers.5.self_attn.k_proj.weight",
                                     "model.layers.5.self_attn.v_proj.weight"});
  CHECK(fused->at("shape") == Json{160, 192});
  CHECK_THAT(text.out, Contains("\nmodel.layers.5.self_attn.qkv_proj.weight\t"
                                "model.layers.5.self_attn.q_proj.weight "
                                "model.layers.5.self_attn.k_proj.weight "
                                "model.layers.5.self_attn.v_proj.weight\t0\t"));
  for (const char* format : {"text", "json"}) {
    const Outcome full = shell(scratch, std::string("plimsoll shard $MODEL --dry-run --format ") +
                                            format + " > /dev/full");
    CHECK(full.status == 9);
    CHECK_THAT(full.err, Contains("standard output cannot be written"));
  }
}

TEST_CASE("a dry run names each source tensor once, and three of many") {
  const Scratch scratch;
  const auto row_of = [&](const char* model, const char* tensor) {
    testing::write_checkpoint(fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden/models" / model,
                              scratch.path(model));
    const std::string command = std::string("plimsoll shard ") + model + " --dry-run --format ";
    const std::string text = shell(scratch, command + "text").out;
    const size_t start = text.find("\n" + std::string(tensor) + "\t") + 1;
    REQUIRE(start != 0);
    const std::string row = text.substr(start, text.find('\n', start) - start);
    const size_t first = row.find('\t') + 1;
    Json sources;
    for (const Json& line : test::json_lines(shell(scratch, command + "json").out))
      if (line.at("tensor") == tensor) sources = line.at("sources");
    return std::pair(row.substr(first, row.find('\t', first) - first), sources);
  };
  const auto [fused, fused_sources] = row_of("phi3", "model.layers.0.self_attn.qkv_proj.weight");
  CHECK(fused == "model.layers.0.self_attn.qkv_proj.weight");
  CHECK(fused_sources == Json{fused});
  const std::string experts = "model.layers.0.block_sparse_moe.experts";
  const auto [first, all] = row_of("mixtral", (experts + ".routed_experts.w13_weight").c_str());
  CHECK(first == experts + ".0.w1.weight " + experts + ".0.w3.weight " + experts +
                     ".1.w1.weight (+" + std::to_string(all.size() - 3) + ")");
  CHECK(all.size() % 2 == 0);
}

TEST_CASE("shards are written, verified, found damaged, mended by the same command and joined") {
  const Scratch scratch;
  const std::string write = "plimsoll shard $MODEL -o out -tp 2 ";
  const Outcome written = shell(scratch, write);
  CHECK(written.status == 0);
  CHECK(written.out.empty());
  CHECK_THAT(written.err, Contains("out: 2 files in bfloat16, 0.01 GB written in ") &&
                              Contains("), 0.00 GB were there; load with") &&
                              Contains("--load-format sharded_state -tp 2\n"));
  CHECK_THAT(shell(scratch, "plimsoll shard $MODEL -o staged -tp 2 -pp 2").err,
             Contains("--load-format sharded_state -tp 2 -pp 2\n"));
  CHECK_THAT(shell(scratch, write).err, Contains("bfloat16, 0.00 GB written in ") &&
                                            Contains("), 0.01 GB were there; load with"));
  CHECK(is_same(scratch.path("out/tokenizer.json"), test::kModel + "/tokenizer.json"));
  CHECK(shell(scratch, "plimsoll shard --verify out").status == 0);
  CHECK(shell(scratch, "plimsoll shard --verify out --source $MODEL --quiet").err.empty());

  damage(scratch.path("out/model-rank-1-part-0.safetensors"));
  for (const char* verify :
       {"plimsoll shard --verify out", "plimsoll shard --verify out --source $MODEL"}) {
    const Outcome damaged = shell(scratch, verify);
    CHECK(damaged.status == 5);
    CHECK_THAT(damaged.err, Contains("model-rank-1-part-0.safetensors: tensor model.norm.weight"));
  }
  CHECK(shell(scratch, write).status == 0);
  CHECK(shell(scratch, "plimsoll shard --verify out --source $MODEL").status == 0);

  // Without the record the source alone says what lies beside the shards.
  shell(scratch, "cp -r out bare; rm bare/plimsoll-shard.json");
  const std::string bare = "plimsoll shard --verify bare --source $MODEL -tp 2";
  CHECK(shell(scratch, bare).status == 0);
  damage(scratch.path("bare/tokenizer.json"));
  const Outcome changed = shell(scratch, bare);
  CHECK(changed.status == 5);
  CHECK_THAT(changed.err, Contains("tokenizer.json"));

  CHECK(shell(scratch, "plimsoll shard --unshard out -o joined").status == 0);
  CHECK(is_same(scratch.path("joined/model.safetensors"), test::kModel + "/model.safetensors"));
}

TEST_CASE("shards that are right beside a sidecar that is not are found, with the source too") {
  const Scratch scratch;
  REQUIRE(shell(scratch, "plimsoll shard $MODEL -o out -tp 2").status == 0);
  std::string sidecar = scratch.read("out/plimsoll-shard.json");
  const std::string key = "\"xxh3\": \"";
  const size_t digest = sidecar.find(key);
  REQUIRE(digest != std::string::npos);
  char& digit = sidecar[digest + key.size()];
  digit = digit == '0' ? '1' : '0';
  scratch.write("out/plimsoll-shard.json", sidecar);
  for (const char* verify :
       {"plimsoll shard --verify out", "plimsoll shard --verify out --source $MODEL"}) {
    INFO(verify);
    const Outcome outcome = shell(scratch, verify);
    CHECK(outcome.status == 5);
    CHECK_THAT(outcome.err, Contains("model-rank-0-part-0.safetensors"));
  }
}

TEST_CASE("folders that are not for shards are refused and stay as they are") {
  const Scratch scratch;
  REQUIRE(shell(scratch, "cp -r $MODEL model; plimsoll shard model -o out -tp 2").status == 0);
  struct Row {
    std::string arguments;
    int status;
    std::string message;
  };
  const Row rows[] = {
      {"shard model -o out", 8, "another job (tensor_parallel_size differs)"},
      {"shard model -o model", 8, "is the source"},
      {"shard model -o model/deep", 8, "lies in the source"},
      {"shard --unshard out -o out", 8, "is the shards' folder"},
      {"shard --unshard out -o out/joined", 8, "lies in the shards' folder"},
      {"shard --unshard out -o ./link/joined", 8, "lies in the shards' folder"},
      {"shard --unshard out -o model", 8, "is not empty"},
      {"shard model -o none/out", 9, "its parent folder is missing"},
      {"shard ./none -o new", 5, "no such folder"},
      {"shard --verify model", 5, "there is no plimsoll-shard.json in it"},
      {"shard --unshard model -o new", 5, ""},
      {"shard --verify bare --source model", 5, "do -tp, -pp"},
      {"shard model -o file", 9, "is a file; the output is a folder"},
      {"shard --verify out -o new", 2, "-o: --verify writes nothing"},
      {"shard --verify out -tp 4", 2, "plimsoll-shard.json says 2; leave the flag out"},
      {"shard --verify out --source model --dtype half", 2, "says bfloat16; leave the flag out"},
      {"shard --unshard out -o new -pp 2", 2, "says 1; leave the flag out"},
      {"shard model -o out --dry-run", 8, "another job (tensor_parallel_size differs)"},
      {"shard model -o model --dry-run", 8, "is the source"},
      {"shard model -o none/out --dry-run", 9, "its parent folder is missing"},
      {"shard model -o file --dry-run", 9, "is a file; the output is a folder"},
      {"shard model -o dangling", 9, "is a link to nothing, which is missing"},
      {"shard model -o dangling/ --dry-run", 9, "is a link to nothing, which is missing"},
      {"shard --verify out --vllm-version 0.9.2", 2, "leave the flag out"},
      {"shard --unshard out -o new --max-file-size 1MiB", 2, "says 5368709120; leave the flag out"},
  };
  shell(scratch,
        "ln -s out link; ln -s nothing dangling; touch file; cp -r out bare; rm "
        "bare/plimsoll-shard.json");
  for (const Row& row : rows) {
    INFO(row.arguments);
    const Outcome outcome = shell(scratch, "plimsoll " + row.arguments);
    CHECK(outcome.status == row.status);
    CHECK_THAT(outcome.err, Contains(row.message));
    CHECK(lines_of(outcome.err) == 1);
  }
  CHECK(!scratch.has("new"));
  CHECK(!scratch.has("out/joined"));
  CHECK(is_same(scratch.path("model/model.safetensors"), test::kModel + "/model.safetensors"));
  CHECK(
      shell(scratch, "plimsoll shard --verify out --source model -tp 2 --dtype bfloat16").status ==
      0);
  CHECK(shell(scratch, "plimsoll shard model -o out -tp 2 --dry-run").status == 0);
  CHECK(shell(scratch, "plimsoll shard model -o new/").status == 0);
  CHECK(scratch.has("new/plimsoll-shard.json"));
}

TEST_CASE("stages are written and joined") {
  const Scratch scratch;
  const Outcome written =
      shell(scratch, "VLLM_PP_LAYER_PARTITION=1,2,3 plimsoll shard $MODEL -o out -tp 2 -pp 3");
  CHECK(written.status == 0);
  CHECK_THAT(written.err,
             Contains("6 files") && Contains("-tp 2 -pp 3\n") &&
                 Contains("load with VLLM_PP_LAYER_PARTITION=1,2,3 in the environment"));
  CHECK(shell(scratch, "plimsoll shard --verify out --source $MODEL").status == 0);
  CHECK(shell(scratch, "plimsoll shard --unshard out -o joined").status == 0);
  CHECK(is_same(scratch.path("joined/model.safetensors"), test::kModel + "/model.safetensors"));
  const Outcome other = shell(scratch, "plimsoll shard $MODEL -o out -tp 2 -pp 3");
  CHECK(other.status == 8);
  CHECK_THAT(other.err, Contains("pipeline_partition differs"));
}

TEST_CASE("the line that loads the shards names the type and pattern that were asked for") {
  const Scratch scratch;
  const Outcome written = shell(
      scratch, "plimsoll shard $MODEL -o out --dtype half --file-pattern '{rank}.safetensors'");
  CHECK_THAT(written.err, Contains("-tp 1 --dtype float16 --model-loader-extra-config "
                                   "'{\"pattern\":\"{rank}.safetensors\"}'\n"));
}

TEST_CASE("shards are compared with what their release would take from the source") {
  // Tied in its config, with a head of its own: vLLM reads that from 0.29 on.
  const Scratch scratch;
  REQUIRE(shell(scratch, "cp -rL $MODEL model && chmod -R u+w model").status == 0);
  add_head(scratch, "model/model.safetensors");
  for (const std::string version : {"0.9.2", "0.28.0", "0.29.0"}) {
    const std::string out = "out-" + version;
    const std::string flag = " --vllm-version " + version;
    REQUIRE(shell(scratch, "plimsoll shard model -o " + out + flag).status == 0);
    const std::string verify = "plimsoll shard --verify " + out + " --source model";
    const Outcome verified = shell(scratch, verify);
    INFO(version << ": " << verified.err);
    CHECK(verified.status == 0);
    // Without the record flags say the same.
    REQUIRE(shell(scratch, "rm " + out + "/plimsoll-shard.json").status == 0);
    const Outcome told = shell(scratch, verify + flag);
    INFO(told.err);
    CHECK(told.status == 0);
  }
  CHECK(shell(scratch, "cmp out-0.28.0/*.safetensors out-0.29.0/*.safetensors").status == 1);
}

TEST_CASE("verifying looks at the files beside the weights too, in both ways") {
  const Scratch scratch;
  REQUIRE(shell(scratch, "plimsoll shard $MODEL -o out -tp 2 -q").status == 0);
  const std::string verify = "plimsoll shard --verify out";
  CHECK(shell(scratch, verify).status == 0);
  CHECK(shell(scratch, verify + " --source $MODEL").status == 0);
  for (const std::string name : {"config.json", "tokenizer.json"}) {
    INFO(name);
    const std::string whole = scratch.read("out/" + name);
    for (const auto& text : {std::optional<std::string>("{}"), std::optional(" " + whole.substr(1)),
                             std::optional<std::string>()}) {
      if (text) scratch.write("out/" + name, *text);
      if (!text) fs::remove(scratch.path("out/" + name));
      for (const char* how : {"", " --source $MODEL"}) {
        const Outcome said = shell(scratch, verify + how);
        CHECK(said.status == 5);
        CHECK_THAT(said.err, Contains(name));
      }
    }
    scratch.write("out/" + name, whole);
  }
}

TEST_CASE("joining says that it is done, and what it lacks") {
  const Scratch scratch;
  REQUIRE(shell(scratch, "plimsoll shard $MODEL -o out -tp 2 -q").status == 0);
  const auto join = [&](const std::string& to, const std::string& flags = "") {
    const Outcome said = shell(scratch, "plimsoll shard --unshard out -o " + to + flags);
    CHECK(said.status == 0);
    return said.err;
  };
  CHECK_THAT(join("whole"), Catch::EndsWith("whole: joined from out\n"));
  CHECK(join("quiet", " -q").empty());
  // What vLLM does not load is named by the sidecar; without it the ranks are the flag's.
  Json sidecar = Json::parse(scratch.read("out/plimsoll-shard.json"));
  sidecar["left_out"] = {"a.bias", "*.inv_freq (2 tensors)"};
  scratch.write("out/plimsoll-shard.json", sidecar.dump());
  CHECK_THAT(join("less"),
             Contains("since vLLM does not load them: a.bias, *.inv_freq (2 tensors)"));
  fs::remove(scratch.path("out/plimsoll-shard.json"));
  CHECK_THAT(join("bare", " -tp 2"),
             Contains("tensors of the checkpoint that vLLM does not load are not"));
  const std::string verify = "plimsoll shard --verify out --source $MODEL";
  CHECK(shell(scratch, verify + " -tp 2").status == 0);
  CHECK(shell(scratch, verify).status == 5);
}
