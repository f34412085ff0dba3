// Launches drawn at random, of every engine, over configs of every kind: `plan` answers them as it
// did when tests/data/random_launches was written, which has a digest for each config. The answers
// are not known to be right; but no figure changes unseen. PLIMSOLL_RENEW_LAUNCHES=1 writes the
// digests, PLIMSOLL_SHOW_LAUNCHES="vllm phi-2" prints a config's launches with their answers, to be
// compared with those of another build.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "batch/scratch.h"
#include "launch/parameters.h"
#include "plan/engines/buffers_plan.h"
#include "plan/engines/engine_plan.h"
#include "plan/report/report.h"
#include "plan/vllm_plan.h"
#include "reference/gguf_bytes.h"
#include "vllm_config.h"

using namespace plimsoll;

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const fs::path kData = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data";
constexpr int kLaunches = 16;    // of a config
constexpr int kOfReleases = 48;  // of a config and vLLM, which has as many releases

constexpr const char* kCards[] = {"h100", "h200",         "a100-80gb", "l4", "rtx4090", "rtx5090",
                                  "gb10", "rtx-pro-6000", "l40s",      "t4", "b200",    "a10g"};
/// Those before the newest.
constexpr const char* kReleases[] = {
    "0.6.4",  "0.6.5",  "0.6.6",  "0.7.0",  "0.7.1",  "0.7.2",  "0.7.3",  "0.8.0",  "0.8.1",
    "0.8.2",  "0.8.3",  "0.8.4",  "0.8.5",  "0.9.0",  "0.9.1",  "0.9.2",  "0.10.0", "0.10.1",
    "0.10.2", "0.11.0", "0.11.1", "0.11.2", "0.12.0", "0.13.0", "0.14.0", "0.14.1", "0.15.0",
    "0.15.1", "0.16.0", "0.17.0", "0.17.1", "0.18.0", "0.18.1", "0.19.0", "0.19.1", "0.20.0",
    "0.20.1", "0.20.2", "0.21.0", "0.22.0", "0.22.1", "0.23.0", "0.24.0", "0.25.0", "0.25.1",
    "0.26.0", "0.27.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0"};

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
    {"--limit-mm-per-prompt", "image=0", "image=3"},
    {"--language-model-only", "true"},
    {"--skip-mm-profiling", "true"},
    {"--mm-processor-cache-gb", "0", "9"},
    {"--hf-overrides", R"({"num_hidden_layers": 6})"},
    {"--rope-theta", "5000"}};

/// Numbers that depend on a text alone, on any machine.
class Draw {
 public:
  explicit Draw(const std::string& text) : random_(static_cast<uint32_t>(digest(text))) {}

  size_t below(size_t count) { return random_() % count; }
  const auto& of(const auto& values) { return values[below(std::size(values))]; }

  /// FNV-1a.
  static uint64_t digest(const std::string& text) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
    return hash;
  }

 private:
  std::mt19937 random_;
};

/// A launch and its answer, in words.
struct Answered {
  std::string launch, answer;
};

template <typename Plan>
Answered answered(std::string launch, Plan&& plan) {
  try {
    return {std::move(launch), plan::to_json(plan())};
  } catch (const Error& error) {
    return {std::move(launch), fmt::format("{}", error.what())};
  } catch (const std::invalid_argument& error) {
    return {std::move(launch), fmt::format("refused: {}", error.what())};
  }
}

/// Configs by name: those of the folders, and of the rows of tests/data/families.
std::map<std::string, Json> configs() {
  std::map<std::string, Json> configs;
  for (const char* folder : {"configs", "vllm/configs", "engines/configs"})
    for (const auto& entry : fs::directory_iterator(kData / folder))
      if (entry.path().extension() == ".json")
        configs.emplace(entry.path().stem(), test::vllm_config(entry.path()));
  for (const char* rows : {"families", "changed", "items"}) {
    std::ifstream file(kData / "families" / fmt::format("{}.jsonl", rows));
    for (std::string line; std::getline(file, line);) {
      const Json row = parse_json<Json>(line);
      if (row.contains("config"))
        configs.emplace(fmt::format("{}-{}", rows, row["name"].get<std::string>()), row["config"]);
    }
  }
  return configs;
}

std::vector<Answered> ask_vllm(const std::string& name, const Json& config) {
  Draw draw(name);
  std::vector<Answered> all;
  for (int i = 0; i < kOfReleases; ++i) {
    const hardware::Gpu& gpu = hardware::find_gpu(draw.of(kCards));
    const std::string release = draw.below(3) == 0 ? "" : draw.of(kReleases);
    Words words;
    for (size_t flags = i == 0 ? 0 : draw.below(5); flags > 0; --flags) {
      const Words& flag = draw.of(kFlags);
      words.insert(words.end(), {flag.front(), flag[1 + draw.below(flag.size() - 1)]});
    }
    const std::string launch =
        fmt::format("--gpu {} --vllm-version '{}' {}", gpu.name, release, fmt::join(words, " "));
    all.push_back(answered(launch, [&] {
      plan::EngineArgs args;
      if (!release.empty()) args.version = vllm::parse_version(release);
      for (size_t at = 0; at < words.size(); at += 2)
        launch::change(args, words[at], words[at + 1]);
      return plan::plan_vllm({config, "config.json"}, args, &gpu);
    }));
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
    engines::Question question;
    question.config = &config;
    question.config_path = "config.json";
    question.model = name;
    question.gpu = &hardware::find_gpu(draw.of(kCards));
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
    all.push_back(answered(launch, [&] {
      return plan::plan_engine(engine, question, {config, "config.json"}, i % 4 == 0);
    }));
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
    all.push_back(
        answered(fmt::format("{} cards {}", question.cards.size(), fmt::join(question.words, " ")),
                 [&] { return plan::plan_buffers(engine, question, i % 4 == 0); }));
  }
  return all;
}

/// The digests of a file of tests/data/random_launches, by config.
class Digests {
 public:
  explicit Digests(const std::string& engine)
      : engine_(engine), path_(kData / "random_launches" / (engine + ".txt")) {
    std::ifstream file(path_);
    for (std::string name, digest; file >> name >> digest;) known_[name] = digest;
  }

  void compare(std::string name, const std::vector<Answered>& all) {
    std::ranges::replace(name, ' ', '_');
    std::string text;
    for (const Answered& one : all) text += one.launch + "\n" + one.answer + "\n";
    const char* const shown = std::getenv("PLIMSOLL_SHOW_LAUNCHES");
    if (shown != nullptr && shown == engine_ + " " + name) std::cout << text;
    found_[name] = fmt::format("{:016x}", Draw::digest(text));
    if (renews()) return;
    INFO(engine_ << " " << name);
    CHECK(known_[name] == found_[name]);
  }

  ~Digests() {
    if (!renews()) return;
    std::ofstream file(path_);
    for (const auto& [name, digest] : found_) file << name << " " << digest << "\n";
  }

 private:
  static bool renews() { return std::getenv("PLIMSOLL_RENEW_LAUNCHES") != nullptr; }

  std::string engine_;
  fs::path path_;
  std::map<std::string, std::string> known_, found_;
};

}  // namespace

TEST_CASE("launches of vLLM drawn at random are planned as they were") {
  Digests digests("vllm");
  const auto all = configs();
  REQUIRE(all.size() > 150);
  for (const auto& [name, config] : all) digests.compare(name, ask_vllm(name, config));
}

TEST_CASE("launches of other engines drawn at random are planned as they were") {
  const auto all = configs();
  for (const engines::Engine& engine : engines::engines()) {
    if (engine.name == "llamacpp") continue;
    Digests digests{std::string(engine.name)};
    const std::vector<Words> flags = flags_of(engine);
    const auto fields = fields_of(engine);
    for (const auto& [name, config] : all)
      digests.compare(name, ask_engine(engine, flags, fields, name, config));
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
}
