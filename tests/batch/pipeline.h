// A whole run over a tiny model, for tests of the pipeline.
#pragma once

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "batch/runner.h"
#include "batch/scratch.h"
#include "engine/byte_tokenizer.h"
#include "engine/tiny_model.h"
#include "files/input_file.h"

namespace plimsoll::batch {

/// Lines of a run by slot, as they come.
class Slots final : public Output {
 public:
  std::function<void(uint64_t)> on_put = [](uint64_t) {};
  std::map<uint64_t, std::string> lines;
  std::vector<uint64_t> order;

  void put(uint64_t slot, std::string line) override {
    on_put(slot);
    CHECK(lines.emplace(slot, std::move(line)).second);
    order.push_back(slot);
  }
  void sync() override {}
};

inline testing::TinyModel& tiny_llama() {
  static testing::TinyModel model("llama");
  return model;
}

inline const text::Tokenizer& bytes_tokenizer() {
  static const test::Scratch folder;
  static const text::Tokenizer tokenizer = testing::byte_tokenizer(folder.path(""));
  return tokenizer;
}

/// A run of `input` that is kept for what is asked of it.
struct Pipeline {
  test::Scratch scratch;
  Slots output, errors;
  std::string notes;
  std::atomic<bool> stop = false;
  RunCounts counts;

  RunnerOptions options = [] {
    RunnerOptions made;
    made.limits.vocab_size = 1003;
    made.output.tokenizer = &bytes_tokenizer();
    made.output.model = "tiny";
    return made;
  }();
  int64_t sequences = 3;
  bool errors_apart = false;
  std::function<void(const Runner&, uint64_t slot)> on_answer = [](const Runner&, uint64_t) {};

  Json run(const std::string& input) {
    scratch.write("in", input);
    files::InputFile file = files::InputFile::open(scratch.path("in"));
    engine::EngineOptions launch;
    launch.dtype = DType::f32;
    launch.max_model_len = 64;
    launch.max_num_seqs = sequences;
    launch.num_kv_blocks = 64;
    const auto engine = tiny_llama().engine(launch, &bytes_tokenizer());
    PromptOptions prompt;
    prompt.tokenizer = &bytes_tokenizer();
    prompt.max_model_len = 64;
    prompt.formats = options.output.formats;
    prompt.grammars = std::make_shared<grammar::Compiler>(
        bytes_tokenizer(), grammar::CompilerOptions{.vocab_size = 1003});
    ChatOptions chat;
    chat.chat_template = "{{ messages[0].content }}";
    PromptBuilder prompts(prompt, chat);
    Progress progress(ProgressMode::none, 80, [&](std::string_view text) { notes += text; });
    Watch watch(progress, {.stop = &stop, .grace = std::chrono::hours(1)});
    Runner runner(file, *engine, prompts, output, errors_apart ? &errors : nullptr, progress, watch,
                  options);
    output.on_put = [&](uint64_t slot) { on_answer(runner, slot); };
    counts = runner.run();
    Json made = Json::array();
    for (const auto& [slot, line] : output.lines)
      made.push_back(line.empty() ? Json() : parse_json<Json>(line));
    return made;
  }
};

/// A line whose answer has exactly so many tokens.
inline std::string line_of(int tokens, const std::string& more = "") {
  return R"({"prompt":[1,2,3],"ignore_eos":true,"temperature":0,"max_tokens":)" +
         std::to_string(tokens) + more + "}\n";
}

}  // namespace plimsoll::batch
