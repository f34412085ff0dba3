// Launches drawn at random, of every engine, over configs of every kind: `plan` answers them as it
// did when tests/data/digests was written, which has a digest for each config. The answers
// are not known to be right; but no figure changes unseen. PLIMSOLL_RENEW_DIGESTS=1 writes the
// digests, PLIMSOLL_SHOW_DIGEST="vllm phi-2" prints a config's launches with their answers, to be
// compared with those of another build.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "batch/scratch.h"
#include "conformance/launch_digests.h"
#include "launch/parameters.h"
#include "plan/engines/buffers_plan.h"
#include "plan/engines/engine_plan.h"
#include "plan/vllm_plan.h"
#include "reference/gguf_bytes.h"
#include "vllm_releases.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

using Words = std::vector<std::string>;

constexpr int kReported = 3;     // of them, in every form that is printed
constexpr int kLaunches = 16;    // of a config
constexpr int kOfMedia = 64;     // of a config with images, videos or sound
constexpr int kOfReleases = 32;  // of a config and vLLM, by drawn releases

constexpr const char* kCards[] = {"h100", "h200",         "a100-80gb", "l4", "rtx4090", "rtx5090",
                                  "gb10", "rtx-pro-6000", "l40s",      "t4", "b200",    "a10g"};

/// Flags of vLLM with their values.
const std::vector<Words> kFlags = {
    {"--tensor-parallel-size", "2", "4", "8"},
    {"--pipeline-parallel-size", "2", "3"},
    {"--data-parallel-size", "2"},
    {"--enable-expert-parallel", "true"},
    {"--max-model-len", "1000", "8192", "100000", "auto"},
    {"--max-num-seqs", "1", "33", "700"},
    {"--max-num-batched-tokens", "777", "4096", "20000"},
    {"--gpu-memory-utilization", "0.5", "0.97"},
    {"--kv-cache-memory-bytes", "7GiB"},
    {"--num-gpu-blocks-override", "1000"},
    {"--block-size", "8", "32", "128"},
    {"--cpu-offload-gb", "3"},
    {"--dtype", "float16", "float32", "bfloat16"},
    {"--quantization", "fp8", "bitsandbytes", "awq", "gptq"},
    {"--kv-cache-dtype", "fp8", "fp8_e5m2", "bfloat16"},
    {"--mamba-ssm-cache-dtype", "float32", "float16"},
    {"--mamba-cache-mode", "align", "all"},
    {"--mamba-block-size", "64"},
    {"--enable-chunked-prefill", "false", "true"},
    {"--enable-prefix-caching", "false", "true"},
    {"--enforce-eager", "true"},
    {"--cudagraph-capture-sizes", "1,2,48"},
    {"--max-cudagraph-capture-size", "40"},
    {"--optimization-level", "0", "1", "3"},
    {"--compilation-config", R"({"cudagraph_mode": "FULL"})",
     R"({"cudagraph_mode": "PIECEWISE", "cudagraph_capture_sizes": [4, 16]})"},
    {"--disable-hybrid-kv-cache-manager", "true"},
    {"--async-scheduling", "false", "true"},
    {"--performance-mode", "throughput"},
    {"--usage", "offline"},
    {"--disable-custom-all-reduce", "true"},
    {"--enable-sleep-mode", "true"},
    {"--attention-backend", "FLASHINFER", "TRITON_ATTN", "FLASH_ATTN"},
    {"--flashinfer-sampler", "true"},
    {"--interconnect", "pcie", "nvlink"},
    {"--enable-lora", "true"},
    {"--max-loras", "5"},
    {"--max-lora-rank", "64"},
    {"--speculative-config", R"({"method": "ngram", "num_speculative_tokens": 4})",
     R"({"method": "mtp", "num_speculative_tokens": 1})"},
    {"--language-model-only", "true"},
    {"--skip-mm-profiling", "true"},
    {"--mm-processor-cache-gb", "0", "9"},
    {"--decode-context-parallel-size", "2"},
    {"--enable-batch-sharded-sampling", "true"},
    {"--engram-config", R"({"cpu_offload": true})"},
    {"--runner", "pooling", "generate"},
    {"--convert", "embed", "classify", "none"},
    {"--task", "embed", "generate"},
    {"--pooler-config", R"({"pooling_type": "MEAN"})", R"({"pooling_type": "LAST"})"},
    {"--hf-overrides", R"({"num_hidden_layers": 6})"},
    {"--rope-theta", "5000"}};

/// What items a prompt may have, and how they are processed.
const std::vector<Words> kMedia = {
    {"--limit-mm-per-prompt", R"({"image": 0})", R"({"image": 3, "video": 0, "audio": 0})",
     R"({"image": 0, "video": 2, "audio": 0})", R"({"image": 0, "video": 0, "audio": 2})",
     R"({"image": {"count": 2, "width": 700, "height": 3000}, "video": 0})",
     R"({"image": {"count": 1, "width": 9000, "height": 1200}})",
     R"({"image": 0, "video": {"count": 1, "num_frames": 9, "width": 250, "height": 900}})",
     R"({"audio": {"count": 1, "length": 90000}})"},
    {"--mm-processor-kwargs", R"({"max_pixels": 300000})", R"({"min_pixels": 90000})",
     R"({"size": {"longest_edge": 600, "shortest_edge": 300}})", R"({"max_dynamic_patch": 3})",
     R"({"max_image_size": {"longest_edge": 200}})", R"({"do_pan_and_scan": true})",
     R"({"num_frames": 5})", R"({"fps": 1})", R"({"max_soft_tokens": 140})",
     R"({"in_token_limit": 500})", R"({"crop_to_patches": true, "max_patches": 4})"},
    {"--skip-mm-profiling", "true"},
    {"--mm-processor-cache-gb", "0", "9"},
    // Few sequences, so that the encoder's peak is the largest.
    {"--max-num-seqs", "1", "2", "3"},
    {"--max-num-batched-tokens", "300", "30000"},
    {"--max-model-len", "2000"},
    {"--tensor-parallel-size", "2"}};

/// Those before the newest, which is the one where none is asked for.
std::vector<model::VllmVersion> earlier_releases() {
  std::vector<model::VllmVersion> releases = known_releases();
  releases.pop_back();
  return releases;
}

std::vector<Answered> ask_vllm(const std::string& name, const Json& config,
                               const std::vector<Words>& known,
                               std::span<const model::VllmVersion> releases, int launches) {
  Draw draw(name);
  std::vector<Answered> all;
  for (int i = 0; i < launches; ++i) {
    const hardware::Gpu& gpu = draw.below(2) == 0 ? hardware::find_gpu(draw.of(kCards))
                                                  : draw.of(hardware::gpu_catalogue());
    const std::string release = draw.below(3) == 0 ? "" : model::version_text(draw.of(releases));
    Words words;
    for (size_t flags = i == 0 ? 0 : draw.below(6); flags > 0; --flags) {
      const Words& flag = draw.of(known);
      words.insert(words.end(), {flag.front(), flag[1 + draw.below(flag.size() - 1)]});
    }
    const std::string launch =
        fmt::format("--gpu {} --vllm-version '{}' {}", gpu.name, release, fmt::join(words, " "));
    all.push_back(planned(
        launch,
        [&] {
          plan::EngineArgs args;
          if (!release.empty()) args.version = vllm::parse_version(release);
          for (size_t at = 0; at < words.size(); at += 2)
            launch::change(args, words[at], words[at + 1]);
          return plan::plan_vllm({config, "config.json"}, args, &gpu);
        },
        i < kReported));
  }
  return all;
}

/// Flags of an engine with their values, one by one and as they stood together: of lines on public
/// pages, of rows that the engine's own code answered, and those of its table that need no value.
std::vector<Words> flags_of(const engines::Engine& engine) {
  std::vector<Words> flags;
  const auto add = [&](const std::string& text, const std::string& start) {
    std::istringstream whole(text);
    flags.emplace_back(std::istream_iterator<std::string>(whole),
                       std::istream_iterator<std::string>());
    std::istringstream stream(text);
    bool first = true;
    for (std::string word; stream >> word;) {
      const bool begins = word.starts_with(start) && (word.size() < 2 || !std::isdigit(word[1]));
      if (begins || first) flags.emplace_back();
      first = false;
      flags.back().push_back(word);
    }
  };
  std::ifstream pasted(kData / "engines/pasted.jsonl");
  for (std::string line; std::getline(pasted, line);) {
    const Json row = parse_json<Json>(line);
    if (row.value("engine", "") == engine.name && row.contains("reads"))
      add(row["reads"].get<std::string>(), "--");
  }
  std::ifstream rows(kData / "engines" / fmt::format("{}.jsonl", engine.name));
  for (std::string line; std::getline(rows, line);) {
    const Json row = parse_json<Json>(line);
    if (!row.contains("args")) continue;
    if (row["args"].is_string()) add(row["args"].get<std::string>(), "-");
    if (row["args"].is_array())
      add(fmt::format("{}", fmt::join(row["args"].get<Words>(), " ")), "--");
  }
  std::ranges::sort(flags);
  flags.erase(std::unique(flags.begin(), flags.end()), flags.end());
  for (const engines::Flag& flag : engine.flags)
    if (flag.kind == engines::FlagKind::bare && flag.moves && flag.unplanned.empty())
      flags.push_back({std::string(flag.names.substr(0, flag.names.find(',')))});
  return flags;
}

/// Fields of an engine's Python config with their values, of rows that it answered.
std::vector<std::pair<std::string, Json>> fields_of(const engines::Engine& engine) {
  std::vector<std::pair<std::string, Json>> fields;
  std::ifstream rows(kData / "engines" / fmt::format("{}.jsonl", engine.name));
  for (std::string line; std::getline(rows, line);) {
    const Json row = parse_json<Json>(line);
    for (const char* key : {"args", "cb"})
      if (row.contains(key) && row[key].is_object())
        for (const auto& [name, value] : row[key].items()) fields.emplace_back(name, value);
  }
  return fields;
}

Words draw_words(Draw& draw, const std::vector<Words>& flags, size_t most) {
  Words words;
  for (size_t count = draw.below(most + 1); count > 0; --count) {
    const Words& flag = draw.of(flags);
    words.insert(words.end(), flag.begin(), flag.end());
  }
  return words;
}

std::vector<Answered> ask_engine(const engines::Engine& engine, const std::vector<Words>& flags,
                                 const std::vector<std::pair<std::string, Json>>& fields,
                                 const std::string& name, const Json& config) {
  Draw draw(std::string(engine.name) + name);
  std::vector<Answered> all;
  for (int i = 0; i < kLaunches; ++i) {
    engines::Question question = question_of(name, config, draw.of(kCards));
    if (draw.below(4) == 0) question.free = engines::FreeMemory{70, 40};
    if (i > 0 && !fields.empty() && draw.below(2) == 0) {
      for (size_t count = draw.below(4); count > 0; --count) {
        const auto& [field, value] = draw.of(fields);
        question.fields[field] = value;
      }
    } else if (i > 0) {
      question.words = draw_words(draw, flags, 4);
    }
    const std::string launch =
        fmt::format("{}{} {} {}", question.gpu->name, question.free ? " (free)" : "",
                    fmt::join(question.words, " "), question.fields.dump());
    all.push_back(planned(
        launch,
        [&] {
          return plan::plan_engine(engine, question, {config, "config.json"}, i % 4 == 0);
        },
        i < kReported));
  }
  return all;
}

std::vector<Answered> ask_llamacpp(const engines::Engine& engine, const std::vector<Words>& flags,
                                   const std::string& name, const checkpoint::gguf::Model& model) {
  Draw draw(name);
  std::vector<Answered> all;
  for (int i = 0; i < kLaunches; ++i) {
    engines::Question question;
    question.gguf = &model;
    for (size_t cards = draw.below(3), card = 0; card < cards; ++card) {
      const int64_t total = (int64_t{8} << draw.below(4)) << 30;
      question.cards.push_back({fmt::format("CUDA{}", card), total, total / 64 * 61});
    }
    question.words = draw_words(draw, flags, 4);
    all.push_back(planned(
        fmt::format("{} cards {}", question.cards.size(), fmt::join(question.words, " ")),
        [&] { return plan::plan_buffers(engine, question, i % 4 == 0); }, i < kReported));
  }
  return all;
}

}  // namespace

TEST_CASE("launches of vLLM drawn at random are planned as they were") {
  Digests digests("vllm");
  const auto& all = configs();
  REQUIRE(all.size() > 150);
  const std::vector<model::VllmVersion> releases = earlier_releases();
  for (const auto& [name, config] : all)
    digests.compare(name, ask_vllm(name, config, kFlags, releases, kOfReleases));
  digests.finish();
}

TEST_CASE("launches of vLLM with images, videos and sound are planned as they were") {
  Digests digests("media");
  std::vector<model::VllmVersion> releases = earlier_releases();
  constexpr model::VllmVersion kFirst{0, 10, 0};  // few of the flags are there before
  std::erase_if(releases, [&](const model::VllmVersion& release) { return release < kFirst; });
  for (const auto& [name, config] : configs())
    if (sees_or_hears(config))
      digests.compare(name, ask_vllm(name, config, kMedia, releases, kOfMedia));
  digests.finish();
}

TEST_CASE("launches of other engines drawn at random are planned as they were") {
  const auto& all = configs();
  for (const engines::Engine& engine : engines::engines()) {
    if (engine.name == "llamacpp") continue;
    Digests digests{std::string(engine.name)};
    const std::vector<Words> flags = flags_of(engine);
    const auto fields = fields_of(engine);
    for (const auto& [name, config] : all)
      digests.compare(name, ask_engine(engine, flags, fields, name, config));
    digests.finish();
  }
}

TEST_CASE("launches of llama.cpp drawn at random are planned as they were") {
  const engines::Engine& engine = *engines::find_engine("llamacpp");
  const std::vector<Words> flags = flags_of(engine);
  Digests digests("llamacpp");
  const test::Scratch scratch;
  for (const auto& entry : fs::directory_iterator(kData / "engines/headers")) {
    const std::string name = entry.path().stem();
    const auto file = scratch.path(name + ".gguf");
    testing::write_gguf_header(read_json_file(entry.path()), file);
    digests.compare(name, ask_llamacpp(engine, flags, name, checkpoint::gguf::Model::open(file)));
  }
  digests.finish();
}
