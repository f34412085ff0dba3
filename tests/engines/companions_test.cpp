// Files that llama.cpp loads beside a model: what they take, and where.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "base/amount.h"
#include "batch/scratch.h"
#include "engines/engine.h"
#include "reference/gguf_bytes.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

const std::string kCompanionHeaders =
    std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/engines/headers/";

class Files {
 public:
  std::string header(const std::string& name) {
    return written(read_json_file(kCompanionHeaders + name + ".json"));
  }
  /// A file of float32 matrices: a projector's, or an adapter's.
  std::string matrices(const std::vector<std::pair<std::string, std::vector<int64_t>>>& list,
                       const char* architecture = "clip", const char* type = "mmproj") {
    Json recipe = {
        {"data", false},
        {"kv",
         {{"general.architecture", "string", architecture}, {"general.type", "string", type}}}};
    for (const auto& [name, ne] : list)
      recipe["tensors"].push_back({{"name", name}, {"ne", ne}, {"type", "F32"}});
    return written(recipe);
  }

 private:
  std::string written(const Json& recipe) {
    const std::string file = scratch_.path(fmt::format("{}.gguf", ++count_));
    testing::write_gguf_header(recipe, file);
    return file;
  }
  test::Scratch scratch_;
  int count_ = 0;
};

Answer ask_with(const std::string& file, std::vector<std::string> words, int64_t free_mib = 40000) {
  const auto model = checkpoint::gguf::Model::open(file);
  Question question;
  question.gguf = &model;
  question.words = std::move(words);
  for (const char* name : {"CUDA0", "CUDA1"})
    question.cards.push_back({name, 80000 * kMiB, free_mib * kMiB});
  return find_engine("llamacpp")->ask(question);
}

/// Bytes on a device: the sum of models, contexts and steps.
int64_t bytes_on(const Answer& answer, const std::string& device) {
  int64_t bytes = 0;
  for (const Buffer& buffer : answer.buffers)
    if (buffer.name == device) bytes += buffer.total();
  return bytes;
}

bool has_note(const Answer& answer, const std::string& text) {
  for (const std::string& note : answer.notes)
    if (note.find(text) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("a draft model takes what its own launch with the target's context takes") {
  Files files;
  const std::string target = files.header("llama31_8b.Q4_K_M");
  const std::string draft = files.header("qwen25_05b.Q4_K_M");
  const std::vector<std::string> flags = {"-c", "8192", "-fit", "off", "-dev", "CUDA0"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words = flags;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const int64_t alone = bytes_on(ask_with(target, flags), "CUDA0");
  const int64_t own = bytes_on(ask_with(draft, flags), "CUDA0");
  const auto beside = [&](const std::vector<std::string>& words, const char* card) {
    return bytes_on(ask_with(target, with(words)), card);
  };
  CHECK(beside({"-md", draft, "-devd", "CUDA0"}, "CUDA0") == alone + own);
  CHECK(beside({"-md", draft, "-devd", "CUDA1"}, "CUDA0") == alone);
  CHECK(beside({"-md", draft, "-devd", "CUDA1"}, "CUDA1") == own);
  CHECK(beside({"-md", draft}, "CUDA0") == alone + own);  // the target's devices
  CHECK(beside({"-md", draft, "-cd", "4096"}, "CUDA0") == alone + own);
  CHECK(has_note(ask_with(target, with({"-md", draft, "-cd", "4096"})), "--ctx-size-draft: "));
  const int64_t packed = bytes_on(ask_with(draft, with({"-ctk", "q8_0", "-ctv", "q8_0"})), "CUDA0");
  CHECK(beside({"-md", draft, "-devd", "CUDA0", "-ctkd", "q8_0", "-ctvd", "q8_0"}, "CUDA0") ==
        alone + packed);
  CHECK(beside({"-md", draft, "-devd", "none"}, "CUDA0") == alone);
  const Answer answer = ask_with(target, with({"-md", draft, "-devd", "CUDA1"}));
  CHECK(answer.sizing["beside"][0]["what"] == "draft model");
  CHECK(has_note(answer, "draft model " + draft));
  // --fit leaves room for it: the target has less.
  const std::vector<std::string> fitted = {"-dev", "CUDA0", "-devd", "CUDA0"};
  std::vector<std::string> both = fitted;
  both.insert(both.end(), {"-md", draft});
  const Answer less = ask_with(target, both, 12000);
  const int64_t context = less.sizing["fit"]["n_ctx"];
  CHECK(context < ask_with(target, fitted, 12000).sizing["fit"]["n_ctx"]);
  CHECK(bytes_on(less, "CUDA0") <= (12000 - 1024) * kMiB);
  CHECK(bytes_on(less, "CUDA0") > (12000 - 1024 - 128) * kMiB);
  // Its cache has the target's context, which is not the one that it was trained for.
  const Answer by_itself =
      ask_with(draft, {"-c", std::to_string(context), "-fit", "off", "-dev", "CUDA0"});
  CHECK(less.sizing["beside"][0]["buffers"]["CUDA0"] == by_itself.sizing["buffers"]["CUDA0"]);
}

TEST_CASE("a draft model on the host takes there what its own launch takes, repacked too") {
  Files files;
  const std::string target = files.header("llama31_8b.Q4_K_M");
  const std::string draft = files.header("qwen25_05b.Q4_K_M");
  const Answer own = ask_with(draft, {"-c", "8192", "-fit", "off", "-dev", "none"});
  REQUIRE(bytes_on(own, "CPU_REPACK") > 0);
  int64_t host = 0;
  for (const Buffer& buffer : own.buffers) host += buffer.total();
  const Answer beside =
      ask_with(target, {"-c", "8192", "-fit", "off", "-md", draft, "-devd", "none"});
  int64_t counted = 0;
  for (const auto& bytes : beside.sizing["beside"][0]["buffers"]["CPU"])
    counted += bytes.get<int64_t>();
  CHECK(counted == host);
}

TEST_CASE("a projector lies on the first card, or on the host") {
  Files files;
  const std::string target = files.header("llama31_8b.Q4_K_M");
  const std::string projector =
      files.matrices({{"v.blk.0.attn_q.weight", {64, 100}}, {"mm.0.weight", {10}}});
  const std::vector<std::string> flags = {"-c", "4096", "-fit", "off"};
  const Answer plain = ask_with(target, flags);
  const auto beside = [&](std::vector<std::string> more, const char* device) {
    more.insert(more.end(), flags.begin(), flags.end());
    return bytes_on(ask_with(target, more), device) - bytes_on(plain, device);
  };
  CHECK(beside({"--mmproj", projector}, "CUDA0") == 64 * 100 * 4 + 128);
  CHECK(beside({"--mmproj", projector, "--no-mmproj-offload"}, "CUDA0") == 0);
  CHECK(beside({"--mmproj", projector, "--no-mmproj-offload"}, "CPU") == 64 * 100 * 4 + 64);
  CHECK(beside({"--mmproj", projector, "--no-mmproj"}, "CUDA0") == 0);
}

TEST_CASE("the room that --fit leaves grows by a projector, on its card alone") {
  Files files;
  const std::string target = files.header("llama31_8b.Q4_K_M");
  // 1024 x 65536 numbers of 4 bytes: 256 MiB.
  const std::string projector = files.matrices({{"mm.0.weight", {1024, 65536}}});
  const auto fit_of = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return ask_with(target, words, 7000).sizing["fit"];
  };
  const std::vector<std::string> beside = {"--mmproj", projector};
  const std::vector<std::string> one = {"-dev", "CUDA0"}, both = {"-dev", "CUDA0,CUDA1"};
  const auto leaves = [](const char* margins) {
    return std::vector<std::string>{"-fitt", margins};
  };
  const auto with_projector = [&](const char* margins) {
    std::vector<std::string> words = leaves(margins);
    words.insert(words.end(), beside.begin(), beside.end());
    return words;
  };
  CHECK(fit_of(one, {}) == fit_of(one, leaves("1024")));
  CHECK(fit_of(one, beside) == fit_of(one, leaves("1280")));
  CHECK(fit_of(one, beside) != fit_of(one, {}));
  CHECK(fit_of(one, beside) != fit_of(one, leaves("256")));
  CHECK(fit_of(one, with_projector("500")) == fit_of(one, leaves("756")));
  CHECK(fit_of(one, with_projector("0")) == fit_of(one, leaves("256")));
  // It lies on the first of the cards.
  CHECK(fit_of(both, with_projector("2500,3500")) == fit_of(both, leaves("2756,3500")));
  CHECK(fit_of(both, with_projector("2500,3500")) != fit_of(both, leaves("2500,3756")));
  std::vector<std::string> on_host = beside;
  on_host.emplace_back("--no-mmproj-offload");
  CHECK(fit_of(one, on_host) == fit_of(one, {}));
}

TEST_CASE("adapters lie beside the matrices that they change") {
  Files files;
  const std::string target = files.header("llama31_8b.Q4_K_M");
  const std::string adapter = files.matrices({{"blk.0.attn_q.weight.lora_a", {4096, 8}},
                                              {"blk.0.attn_q.weight.lora_b", {8, 4096}},
                                              {"blk.31.ffn_down.weight.lora_a", {14336, 8}},
                                              {"blk.0.attn_norm.weight", {4096}}},
                                             "llama", "adapter");
  const std::vector<std::string> flags = {"-c", "4096", "-fit", "off", "-dev", "CUDA0"};
  const auto beside = [&](std::vector<std::string> more, const std::vector<std::string>& same,
                          const char* device) {
    more.insert(more.end(), flags.begin(), flags.end());
    more.insert(more.end(), same.begin(), same.end());
    std::vector<std::string> without = flags;
    without.insert(without.end(), same.begin(), same.end());
    return bytes_on(ask_with(target, more), device) - bytes_on(ask_with(target, without), device);
  };
  constexpr int64_t kFirst = 2 * 4096 * 8 * 4, kLast = 14336 * 8 * 4;
  CHECK(beside({"--lora", adapter}, {}, "CUDA0") == kFirst + kLast);
  CHECK(beside({"--lora", adapter}, {"-ngl", "2"}, "CUDA0") == kLast);
  CHECK(beside({"--lora", adapter}, {"-ngl", "2"}, "CPU") == kFirst);
  CHECK(beside({"--lora-scaled", adapter + ":0.5"}, {}, "CUDA0") == kFirst + kLast);
  CHECK(beside({"--lora-scaled", adapter, "0.5"}, {}, "CUDA0") == kFirst + kLast);
  CHECK(beside({"--lora", adapter + "," + adapter}, {}, "CUDA0") == 2 * (kFirst + kLast));
  CHECK(beside({"--control-vector", adapter}, {}, "CUDA0") == 31 * 4096 * 4);
  CHECK(beside({"--control-vector-scaled", adapter + ":2,v.gguf"}, {}, "CUDA0") == 31 * 4096 * 4);
}

TEST_CASE("files that are not here are named, and not counted") {
  Files files;
  const std::string target = files.header("llama31_8b.Q4_K_M");
  const Answer plain = ask_with(target, {"-c", "4096"});
  const Answer answer =
      ask_with(target, {"-c", "4096", "-md", "d.gguf", "--mmproj", "p.gguf", "--lora", "a.gguf",
                        "-ngld", "7", "--control-vector", "v.gguf"});
  CHECK(answer.sizing == plain.sizing);
  for (const char* name :
       {"--model-draft d.gguf", "--mmproj p.gguf", "--lora a.gguf", "--control-vector v.gguf"})
    CHECK(has_note(answer, name + std::string(": not on this machine")));
}

TEST_CASE("files that are not what their flags name are refused") {
  Files files;
  const std::string target = files.header("llama31_8b.Q4_K_M");
  const auto refusal = [&](const std::string& flag, const std::string& file) {
    const Answer answer = ask_with(target, {"-c", "4096", flag, file});
    return answer.refused ? answer.refused->words : "none";
  };
  CHECK(refusal("--mmproj", target) ==
        target + ": expect general.architecture to be 'clip', but got: llama");
  CHECK(refusal("--lora", target).starts_with(target + ": expect general.type to be 'adapter'"));
  const std::string other = files.matrices({{"a.lora_a", {8, 8}}}, "qwen2", "adapter");
  CHECK(refusal("--lora", other) ==
        other + ": expect general.architecture to be 'llama', but got: qwen2");
  for (const char* name : {"blk.99.attn_q.weight.lora_a", "blk.0.attn_q.weight"}) {
    const std::string strange = files.matrices({{name, {8, 8}}}, "llama", "adapter");
    CHECK(refusal("--lora", strange) ==
          fmt::format("{}: LoRA tensor '{}' does not exist in base model (hint: maybe wrong base "
                      "model?)",
                      strange, name));
  }
}

TEST_CASE("refusals name flags as they are typed") {
  Files files;
  const std::string target = files.header("llama31_8b.Q4_K_M");
  const std::pair<const char*, const char*> rows[] = {
      {"-ngl", "x"},         {"--n-gpu-layers", "x"}, {"-ngld", "x"}, {"-ctkd", "q9"},
      {"-devd", "CUDA9"},    {"-dev", "CUDA9"},       {"-otd", "x"},  {"-ot", "x=GPU"},
      {"--split-mode", "x"}, {"-ncmoed", "-2"},       {"-fitt", "x"}};
  for (const auto& [flag, value] : rows) {
    const Answer answer = ask_with(target, {"-md", "d.gguf", flag, value});
    REQUIRE(answer.refused);
    CHECK(answer.refused->words.starts_with(
        fmt::format("error while handling argument \"{}\": ", flag)));
  }
}
