// Tiny models that tests of the engine run on, from the recipes in tests/data.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "conformance/cpu.h"
#include "engine/engine.h"
#include "model/config.h"
#include "reference/recipe.h"

namespace plimsoll::testing {

/// A folder of its own under the system's temporary one, removed at the end.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("plimsoll-engine-{}-{}", name, getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class TinyModel {
 public:
  /// `name` of a folder in tests/data/golden/models.
  explicit TinyModel(const std::string& name) : folder_(name) {
    write_checkpoint(recipe(name), folder_.path());
    open();
  }

  static std::filesystem::path recipe(const std::string& name) {
    return std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden/models" / name;
  }

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  [[nodiscard]] const model::ModelSpec& spec() const { return spec_; }
  /// Reads the folder again, after a test has changed it.
  void open() {
    spec_ = model::make_model_spec(model::read_config(folder_.path()));
    checkpoint_.emplace(checkpoint::Checkpoint::open(folder_.path()));
  }

  std::unique_ptr<engine::Engine> engine(const engine::EngineOptions& options,
                                         const text::Tokenizer* tokenizer = nullptr) {
    return engine_on(*backend_, options, tokenizer);
  }
  /// An engine on another backend than the CPU's; the backend must outlive it.
  std::unique_ptr<engine::Engine> engine_on(backend::Backend& backend,
                                            const engine::EngineOptions& options,
                                            const text::Tokenizer* tokenizer = nullptr) {
    return std::make_unique<engine::Engine>(spec_, checkpoint::WeightReader(*checkpoint_, spec_),
                                            backend, tokenizer, options);
  }

  /// Reader of its weights; valid until the folder is opened again.
  [[nodiscard]] checkpoint::WeightReader reader() const { return {*checkpoint_, spec_}; }

 private:
  TemporaryFolder folder_;
  model::ModelSpec spec_;
  std::optional<checkpoint::Checkpoint> checkpoint_;
  std::unique_ptr<backend::Backend> backend_ = cpu_backend();
};

/// Overwrites one row of a BF16 matrix in a folder's model.safetensors with NaN.
inline void spoil_row(const std::filesystem::path& file, const std::string& tensor, int64_t row,
                      int64_t columns) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  uint64_t header_size = 0;
  stream.read(reinterpret_cast<char*>(&header_size), 8);
  std::string header(header_size, ' ');
  stream.read(header.data(), static_cast<std::streamsize>(header_size));
  const auto begin = parse_json(header).at(tensor).at("data_offsets").at(0).get<uint64_t>();
  stream.seekp(static_cast<std::streamoff>(8 + header_size + begin) + row * columns * 2);
  for (int64_t i = 0; i < columns; ++i) stream.write("\xc0\x7f", 2);
}

/// Runs all requests to their ends; outputs by tag.
inline std::map<uint64_t, engine::RequestOutput> run_all(engine::Engine& engine,
                                                         std::vector<engine::Request> requests) {
  for (engine::Request& request : requests) engine.add(std::move(request));
  std::vector<engine::RequestOutput> finished;
  while (!engine.idle()) engine.step(finished);
  std::map<uint64_t, engine::RequestOutput> outputs;
  for (engine::RequestOutput& output : finished) outputs.emplace(output.tag, std::move(output));
  return outputs;
}

}  // namespace plimsoll::testing
