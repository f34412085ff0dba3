#include "bench/support/random_checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "model/config.h"

namespace plimsoll::testing {
namespace {

/// Elements that repeat through the weights.
std::vector<uint16_t> random_block() {
  std::vector<uint16_t> block(1 << 20);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  for (uint16_t& x : block) x = float_to_bf16(normal(random));
  return block;
}

void write_weights(const model::ModelSpec& spec, const std::filesystem::path& file) {
  std::map<std::string, std::vector<int64_t>> tensors;
  for (const model::WeightSpec& weight : spec.weights)
    for (const model::Part& part : weight.parts) tensors[part.tensor] = part.stored_shape;
  Json header = Json::object();
  size_t bytes = 0;
  for (const auto& [name, shape] : tensors) {
    const size_t start = bytes;
    size_t size = 2;
    for (const int64_t extent : shape) size *= static_cast<size_t>(extent);
    bytes += size;
    header[name] = {{"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {start, bytes}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::ofstream out(file, std::ios::binary);
  const uint64_t length = text.size();
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << text;
  const std::vector<uint16_t> block = random_block();
  for (size_t left = bytes; left > 0;) {
    const size_t count = std::min(left, block.size() * sizeof(uint16_t));
    out.write(reinterpret_cast<const char*>(block.data()), static_cast<std::streamsize>(count));
    left -= count;
  }
}

}  // namespace

RandomCheckpoint::RandomCheckpoint(const char* config) {
  const std::filesystem::path memory = "/dev/shm";
  const auto root =
      std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
  folder_ = root / fmt::format("plimsoll-bench-{}", getpid());
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "config.json") << config;
  spec_ = model::make_model_spec(model::read_config(folder_));
  write_weights(spec_, folder_ / "model.safetensors");
}

}  // namespace plimsoll::testing
