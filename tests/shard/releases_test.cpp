// Names and tensors of shards to the release of vLLM since which they are so, and refusals of what
// is not known of a release, cannot be cut, or cannot be joined.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "model/config.h"
#include "shard/job.h"
#include "shard/layout.h"
#include "shard/llama_shards.h"
#include "shard/refusals.h"
#include "shard/unshard.h"
#include "shard/verify.h"

namespace plimsoll::shard {
namespace {

model::ModelSpec small_spec(const char* architecture, const char* model_type,
                            const Json& more = {}) {
  Json config = {{"architectures", {architecture}},
                 {"model_type", model_type},
                 {"hidden_size", 64},
                 {"intermediate_size", 64},
                 {"moe_intermediate_size", 64},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 8},
                 {"num_key_value_heads", 8},
                 {"head_dim", 8},
                 {"vocab_size", 512},
                 {"num_experts", 4},
                 {"num_local_experts", 4},
                 {"num_experts_per_tok", 2}};
  if (!more.is_null()) config.update(more);
  return model::make_model_spec(config);
}

bool holds_name(const model::ModelSpec& spec, const Release& release, const std::string& name) {
  const std::vector<Stage> stages = make_stages(spec, {.release = release});
  return std::ranges::any_of(stages.front(),
                             [&](const ShardTensor& tensor) { return tensor.name == name; });
}

/// An entry of tests/data/text_shards.json as "model".
void make_text_model(const Scratch& scratch, const std::string& name) {
  const Json models = read_fixture("text_shards.json");
  const auto at =
      std::ranges::find_if(models, [&](const Json& each) { return each["name"] == name; });
  REQUIRE(at != models.end());
  write_model(scratch, at->at("config"), at->at("recipe"));
}

}  // namespace

TEST_CASE("names change with the release of vLLM that changed them, and with no patch before it") {
  const model::ModelSpec llama = small_spec("LlamaForCausalLM", "llama");
  const model::ModelSpec mixtral = small_spec("MixtralForCausalLM", "mixtral");
  const model::ModelSpec qwen =
      small_spec("Qwen3MoeForCausalLM", "qwen3_moe",
                 {{"decoder_sparse_step", 1}, {"mlp_only_layers", Json::array()}});
  const model::ModelSpec gemma = small_spec("Gemma2ForCausalLM", "gemma2");
  const std::string layer = "model.layers.0.";
  struct Row {
    const model::ModelSpec& spec;
    Release first;
    std::string gone, come;  // empty: nothing
  };
  for (const Row& row : {Row{llama, {.minor = 14}, "", layer + "self_attn.attn._k_scale"},
                         Row{mixtral,
                             {.minor = 24},
                             layer + "block_sparse_moe.experts.w13_weight",
                             layer + "block_sparse_moe.experts.routed_experts.w13_weight"},
                         Row{gemma, {.minor = 9, .patch = 2}, "model.normalizer", ""}}) {
    INFO(row.gone << " " << row.come);
    Release before = row.first;
    if (before.patch > 0) {
      --before.patch;
    } else {
      --before.minor;
      before.patch = 9;
    }
    if (!row.gone.empty()) {
      CHECK(holds_name(row.spec, before, row.gone));
      CHECK_FALSE(holds_name(row.spec, row.first, row.gone));
    }
    if (!row.come.empty()) {
      CHECK_FALSE(holds_name(row.spec, before, row.come));
      CHECK(holds_name(row.spec, row.first, row.come));
    }
  }
  // What the gate was called between these is not known.
  for (const auto& [release, known] : {std::pair{Release{.minor = 14, .patch = 9}, true},
                                       {Release{.minor = 15}, false},
                                       {Release{.minor = 23, .patch = 9}, false},
                                       {Release{.minor = 24}, true}}) {
    INFO(model::version_text(release));
    CHECK(is_known(qwen, release) == known);
    CHECK(is_known(llama, release));
    const Layout layout{.release = release};
    if (!known)
      CHECK_THROWS_WITH(make_stages(qwen, layout), Catch::Contains("changed its name several"));
  }
  CHECK(holds_name(qwen, {.minor = 14, .patch = 9}, layer + "mlp.gate.weight"));
  CHECK(holds_name(qwen, {.minor = 24}, layer + "mlp.experts.gate.weight") !=
        holds_name(qwen, {.minor = 24}, layer + "mlp.gate.weight"));
}

TEST_CASE("a head of the checkpoint's own is read since 0.29.0, stages are written since 0.32.0") {
  const Scratch scratch;
  make_text_model(scratch, "llama, tied in config.json, with a head of its own");
  CHECK_FALSE(Source(scratch.path("model"), {.minor = 28, .patch = 9}).has_own_head());
  CHECK(Source(scratch.path("model"), {.minor = 29}).has_own_head());
  const model::ModelSpec llama = small_spec("LlamaForCausalLM", "llama");
  CHECK_THROWS_WITH(
      make_stages(llama, {.pipeline_parallel = 2, .release = {.minor = 31, .patch = 9}}),
      Catch::Contains("writes the stages over each other; 0.32.0 is the first"));
  CHECK(make_stages(llama, {.pipeline_parallel = 2, .release = {.minor = 32}}).size() == 2);
  CHECK(make_stages(llama, {.release = {.minor = 31, .patch = 9}}).size() == 1);
}

TEST_CASE("KV heads divide the ranks, or the ranks divide them") {
  const model::ModelSpec spec =
      small_spec("LlamaForCausalLM", "llama",
                 {{"num_attention_heads", 24}, {"num_key_value_heads", 6}, {"hidden_size", 192}});
  for (const int64_t ranks : {1, 2, 3, 6, 12}) {
    INFO(ranks);
    CHECK(failure([&] { make_stages(spec, {.tensor_parallel = ranks}); }, "rows") !=
          ExitCode::bug);  // 3 and 6 divide the heads, but not the padded table
  }
  CHECK(failure([&] { make_stages(spec, {.tensor_parallel = 4}); },
                "has 6 KV heads, of which neither divides the other") == ExitCode::usage);
  CHECK(failure([&] { make_stages(spec, {.tensor_parallel = 8}); },
                "has 6 KV heads, of which neither divides the other") == ExitCode::usage);
}

TEST_CASE("shards whose checkpoint cannot be had again are not joined, which is said with why") {
  struct Row {
    const char *name, *why;
  };
  for (const Row& row :
       {Row{"granite moe swa, attention biases", "stores all experts of a layer as one tensor ("},
        Row{"baichuan 2, a head of unit rows", "with other values than the checkpoint's"},
        Row{"param2, biases of the choice that lose their mean", "without their mean, which is"}}) {
    INFO(row.name);
    const Scratch scratch;
    make_text_model(scratch, row.name);
    write(scratch, {});
    CHECK(failure([&] { unshard(scratch.path("out"), scratch.path("joined"), {}); }, row.why) ==
          ExitCode::usage);
    CHECK(!scratch.has("joined"));
  }
}

TEST_CASE("a record that is none of shard's is no record, and its folder is left alone") {
  const Scratch scratch;
  make_model(scratch);
  write(scratch, {.tensor_parallel = 2});
  const std::string name = std::string("out/") + kSidecar;
  const Json whole = read_json_file(scratch.path(name));
  const auto changed = [&](const std::function<void(Json&)>& change) {
    Json record = whole;
    change(record);
    return record.dump();
  };
  const std::string texts[] = {"",
                               "[]",
                               "{",
                               changed([](Json& record) { record["tool"] = "cp"; }),
                               changed([](Json& record) { record.erase("job"); }),
                               changed([](Json& record) { record["files"]["a"] = 1; })};
  for (const std::string& text : texts) {
    INFO(text.substr(0, 60));
    scratch.write(name, text);
    const char* why = "is no record of plimsoll shard; choose another folder";
    CHECK(failure([&] { verify_digests(scratch.path("out")); }, why) == ExitCode::foreign_output);
    CHECK(failure([&] { write(scratch, {.tensor_parallel = 2}); }, why) ==
          ExitCode::foreign_output);
    CHECK(scratch.read(name) == text);
  }
  for (const char* ranks : {"tensor_parallel_size", "pipeline_parallel_size"}) {
    INFO(ranks);
    scratch.write(name, changed([&](Json& record) { record["job"][ranks] = 0; }));
    const Record record = read_record(scratch.path(name));
    CHECK(failure([&] { options_of(record, kSidecar); }, "is no record") ==
          ExitCode::foreign_output);
  }
}

TEST_CASE("shards without a record are joined for as many ranks as there are, or not at all") {
  const Scratch scratch;
  make_model(scratch);
  write(scratch, {.tensor_parallel = 2});
  fs::remove(scratch.path(std::string("out/") + kSidecar));
  const auto join = [&](int64_t ranks) {
    return failure(
        [&] { unshard(scratch.path("out"), scratch.path("joined"), {.tensor_parallel = ranks}); },
        "holds the files of 2 ranks, expected " + std::to_string(ranks));
  };
  CHECK(join(1) == ExitCode::checkpoint_unusable);
  CHECK(join(4) == ExitCode::checkpoint_unusable);
  CHECK(!scratch.has("joined"));
  CHECK(join(2) == ExitCode::done);
  CHECK(tensors_of(scratch.path("joined")) == tensors_of(scratch.path("model")));
}

TEST_CASE("a source that was written and given its old time again is noticed") {
  const Scratch scratch;
  make_model(scratch);
  const Source source(scratch.path("model"));
  CHECK_NOTHROW(source.check_unchanged());
  const fs::path file = scratch.path("model/model.safetensors");
  const auto time = fs::last_write_time(file);
  std::fstream(file, std::ios::binary | std::ios::in | std::ios::out)
      .seekp(-4, std::ios::end)
      .write("0123", 4);
  fs::last_write_time(file, time);
  CHECK(failure([&] { source.check_unchanged(); }, "model.safetensors was changed") ==
        ExitCode::checkpoint_unusable);
}

TEST_CASE("parts of a rank need names of their own") {
  const Scratch scratch;
  make_model(scratch);
  const Source source(scratch.path("model"));
  const JobOptions one{
      .tensor_parallel = 2, .max_file_size = 1 << 20, .file_pattern = "{rank}.safetensors"};
  CHECK(Job(source, one).file_names() ==
        std::vector<std::string>{"0.safetensors", "1.safetensors"});
  JobOptions many = one;
  many.max_file_size = 20000;  // of 26 KB
  CHECK(failure([&] { Job(source, many); }, "2 parts of a rank would overwrite each other") ==
        ExitCode::usage);
  many.max_file_size = 8000;
  many.file_pattern = "{rank}-{part}.safetensors";
  CHECK(Job(source, many).file_names().size() > 4);
}

}  // namespace plimsoll::shard
