// Limits of launches by hand: bounds of flags, images that are kept, stages and processes.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/test_footprint.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/layout.h"
#include "engine/ranks/message_team.h"
#include "engine/ranks/stage_layouts.h"
#include "engine/specs.h"
#include "engine/test_device.h"
#include "model/config.h"

using namespace plimsoll;
using namespace plimsoll::engine;
using Catch::Contains;
using testing::kFootprint;

TEST_CASE("limits of a launch may be as large as their bounds") {
  const auto said = [](const EngineOptions& options) -> std::string {
    try {
      (void)resolve_layout(testing::make_spec({}), options, kFootprint);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::usage);
      return error.what();
    }
    return "fits";
  };
  struct Row {
    int64_t EngineOptions::*option;
    const char* flag;
    int64_t most;
  };
  for (const Row& row :
       {Row{&EngineOptions::block_size, "--block-size", 1024},
        Row{&EngineOptions::max_num_seqs, "--max-num-seqs", int64_t{1} << 20},
        Row{&EngineOptions::max_num_batched_tokens, "--max-num-batched-tokens", int64_t{1} << 24},
        Row{&EngineOptions::max_model_len, "--max-model-len", 512}}) {
    INFO(row.flag);
    for (const int64_t wrong : {int64_t{-1}, row.most + 1}) {
      EngineOptions options;
      options.*row.option = wrong;
      CHECK_THAT(said(options),
                 Contains(row.flag + (" " + std::to_string(wrong)) + " is not between 1 and ") &&
                     Contains(std::to_string(row.most)));
    }
  }
  EngineOptions options;
  options.block_size = 1024;
  options.max_model_len = 512;
  CHECK(said(options) == "fits");
}

TEST_CASE("so many blocks that their bytes are no number are refused") {
  // A block of 16 tokens takes 4096 bytes; 2^62 is the bound.
  EngineOptions options;
  options.num_kv_blocks = int64_t{1} << 50;
  CHECK(resolve_layout(testing::make_spec({}), options, kFootprint).num_blocks == int64_t{1} << 50);
  ++*options.num_kv_blocks;
  try {
    (void)resolve_layout(testing::make_spec({}), options, kFootprint);
    FAIL("was taken");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::does_not_fit);
    CHECK_THAT(error.what(), Contains("--num-gpu-blocks-override 1125899906842625: no memory") &&
                                 Contains("blocks of 4.0 KiB"));
  }
}

TEST_CASE("a model's usual length is the default, its longest one the bound") {
  model::ModelSpec spec = testing::make_spec({});
  const auto length = [&](int64_t asked) {
    EngineOptions options;
    options.max_model_len = asked;
    return resolve_layout(spec, options, kFootprint).max_model_len;
  };
  CHECK(length(0) == 512);
  spec.usual_length = 128;
  CHECK(length(0) == 128);
  CHECK(length(512) == 512);
  CHECK_THROWS_WITH(length(513), Contains("the model's longest context, 512"));
}

TEST_CASE("so many embeddings of images are kept, by their number, their bytes and a step's") {
  const model::ModelSpec spec = model::make_model_spec(
      read_json_file(PLIMSOLL_SOURCE_DIR "/tests/data/golden/multimodal_run/qwen2_vl/config.json"));
  struct Asked {
    int64_t cache_tokens = 0;
    int64_t kept_images = ImageOptions().kept_images;
    uint64_t kept_bytes = ImageOptions().kept_bytes;
  };
  const auto kept = [&](const Asked& asked) {
    EngineOptions options;
    options.max_num_seqs = 8;
    options.max_num_batched_tokens = 100;
    const image::Layout largest{
        .shape = {24, 3 * 2 * 14 * 14}, .tokens = 6, .rows = 6, .columns = 4};
    options.images = ImageOptions{.extremes = {largest},
                                  .cache_tokens = asked.cache_tokens,
                                  .kept_images = asked.kept_images,
                                  .kept_bytes = asked.kept_bytes};
    return resolve_layout(spec, options, backend::cpu_footprint()).images.value().cache_tokens;
  };
  const uint64_t row = static_cast<uint64_t>(spec.hidden_size) * 4;  // float32 on the CPU
  CHECK(kept({}) == 64 * 6);
  CHECK(kept({.kept_images = 30}) == 180);
  CHECK(kept({.kept_images = 10}) == 100);  // a step has more
  CHECK(kept({.kept_bytes = 201 * row - 1}) == 200);
  CHECK(kept({.kept_bytes = row}) == 100);
  CHECK(kept({.cache_tokens = 50}) == 50);
  CHECK(kept({.cache_tokens = 3}) == 6);  // the largest image
}

TEST_CASE("stages have as many blocks and as long sequences as the tightest one") {
  const model::ModelSpec whole = testing::make_spec({.windows = {0, 0, 0, 0}});
  const model::ModelSpec first = testing::make_spec({.windows = {0}});
  const model::ModelSpec last = testing::make_spec({.windows = {0, 0, 0}});
  constexpr uint64_t kLayer = 2 * 2 * 16 * 16 * 2;  // K, V; 2 heads of 16; 16 tokens; bfloat16
  EngineOptions options;
  const auto resolve = [&] {
    return resolve_stages(whole, {{&first, 0}, {&last, 1}}, options, kFootprint);
  };
  options.kv_cache_bytes = 40 * 3 * kLayer;
  for (const EngineLayout& layout : resolve()) {
    CHECK(layout.num_blocks == 40);
    CHECK(layout.max_model_len == 512);
    CHECK(layout.stages == 2);
  }
  CHECK(resolve()[0].kv.block_bytes == kLayer);
  CHECK(resolve()[1].kv.block_bytes == 3 * kLayer);
  options.kv_cache_bytes = 32 * kLayer;  // 10 of three layers
  CHECK_THROWS_WITH(resolve(), Contains("rank 1 of 2: one sequence of 512 tokens") &&
                                   Contains("--max-model-len 160 (or auto)"));
  options.auto_model_len = true;
  for (const EngineLayout& layout : resolve()) {
    CHECK(layout.num_blocks == 10);
    CHECK(layout.max_model_len == 160);
  }
  const auto alone = resolve_stages(whole, {{&whole, 0}}, options, kFootprint);
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].stages == 1);
  CHECK(alone[0].num_blocks == 8);
}

TEST_CASE("the process that draws has room for logits of others, and cut teams for messages") {
  struct Row {
    const char* what;
    int64_t tensor, stages, processes;
    bool far, messages;  // the last stage is elsewhere; a stage is cut
  };
  for (const Row& row : {Row{"one process", 2, 3, 1, false, false},
                         {"a stage each", 2, 3, 3, true, false},
                         {"a stage each of two", 2, 2, 2, true, false},
                         {"one and a half", 2, 3, 2, true, true},
                         {"a rank each", 2, 2, 4, true, true},
                         {"half of one stage", 4, 1, 2, false, true},
                         {"without teams", 1, 4, 2, true, false}}) {
    for (const int64_t staged : {0, 8}) {
      INFO(row.what << ", " << staged);
      std::vector<EngineLayout> layouts(static_cast<size_t>(row.tensor * row.stages));
      const size_t last = layouts.size() - static_cast<size_t>(row.tensor);
      for (size_t i = last; i < layouts.size(); ++i) {
        layouts[i].limits.logits_rows = 32;
        layouts[i].sampling_threads = 3;
        layouts[i].staging_rows = staged;
      }
      const auto before = layouts;
      spread_ranks(layouts, row.tensor, row.processes, kFootprint);
      if (row.far) {
        CHECK(layouts.front().sampling_threads == 3);
        CHECK(layouts.front().staging_rows == (staged > 0 ? staged : 32));
      } else {
        CHECK(layouts.front().staging_rows == before.front().staging_rows);
      }
      for (size_t i = 0; i < layouts.size(); ++i) {
        if (i >= last) CHECK(layouts[i].sampling_threads == (row.far ? 0 : 3));
        CHECK(layouts[i].message_bytes == (row.messages ? static_cast<int64_t>(kMessageBytes) : 0));
      }
      std::vector<EngineLayout> on_devices = before;
      const testing::TestDeviceFootprint devices(backend::cpu_footprint(), {});
      spread_ranks(on_devices, row.tensor, row.processes, devices);
      CHECK(on_devices.front().message_bytes == 0);
    }
  }
}
