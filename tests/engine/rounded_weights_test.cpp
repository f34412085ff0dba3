// Weights in fp8, quantised while they are read or stored so, answer as plain ones that were
// rounded before.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <set>
#include <stdexcept>

#include "base/float8.h"
#include "checkpoint/crafted.h"
#include "conformance/rank_subject.h"
#include "quantization/online.h"

using namespace plimsoll;
namespace fs = std::filesystem;

namespace {

float scale_of(const float* row, int64_t columns) {
  float most = 0;
  for (int64_t n = 0; n < columns; ++n) most = std::max(most, std::fabs(row[n]));
  return most / kLargestE4m3;
}

/// Reads the rows of some weights rounded to fp8 and back, each by its own scale.
class RoundedRows final : public checkpoint::WeightSource {
 public:
  RoundedRows(const checkpoint::WeightSource& source, std::set<std::string> names)
      : source_(source), names_(std::move(names)) {}

  void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                 void* to) const override {
    source_.read_rows(weight, first, count, dtype, to);
    if (!names_.contains(weight.name)) return;
    if (dtype != DType::f32) throw std::logic_error(weight.name + " is not computed in float32");
    for (int64_t i = 0; i < count; ++i) {
      float* const row = static_cast<float*>(to) + i * weight.columns();
      const float scale = scale_of(row, weight.columns());
      for (int64_t n = 0; n < weight.columns(); ++n)
        row[n] = round_to_e4m3(row[n] * (1 / scale)) * scale;
    }
  }

 private:
  const checkpoint::WeightSource& source_;
  std::set<std::string> names_;
};

std::set<std::string> packed_weights(const model::ModelSpec& spec) {
  std::set<std::string> names;
  for (const model::WeightSpec& weight : spec.weights)
    if (weight.is_packed()) names.insert(weight.name);
  return names;
}

/// The tensors of layers' matrices that a checkpoint has one by one.
std::set<std::string> tensors_of_layers(model::ModelSpec spec,
                                        const checkpoint::Checkpoint& checkpoint) {
  quantization::assign_online("fp8", quantization::Activations::whole, spec);
  std::set<std::string> names;
  for (const model::WeightSpec& weight : spec.weights)
    for (const model::Part& part : weight.parts) {
      const checkpoint::TensorEntry* tensor = checkpoint.find(part.tensor);
      if (part.packing && !part.transposed && tensor != nullptr && tensor->shape.size() == 2)
        names.insert(part.tensor);
    }
  return names;
}

/// A safetensors file, tensor by tensor.
class Writer {
 public:
  void add(const std::string& name, DType dtype, const std::vector<int64_t>& shape,
           const void* data, size_t bytes) {
    header_[name] = {{"dtype", safetensors_name(dtype)},
                     {"shape", shape},
                     {"data_offsets", {data_.size(), data_.size() + bytes}}};
    data_.append(static_cast<const char*>(data), bytes);
  }
  [[nodiscard]] std::string bytes() const {
    return testing::safetensors_bytes(header_.dump(), data_);
  }

 private:
  Json header_ = Json::object();
  std::string data_;
};

/// Codes, and a scale for each output.
void add_rounded(const checkpoint::TensorEntry& tensor, Writer& to) {
  const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  std::vector<float> values(static_cast<size_t>(rows * columns)), scales;
  convert(tensor.data, tensor.dtype, values.data(), DType::f32, values.size());
  std::vector<uint8_t> codes;
  for (int64_t r = 0; r < rows; ++r) {
    const float* const row = values.data() + r * columns;
    scales.push_back(scale_of(row, columns));
    for (int64_t n = 0; n < columns; ++n)
      codes.push_back(float_to_e4m3(row[n] * (1 / scales.back())));
  }
  to.add(tensor.name, DType::f8_e4m3, tensor.shape, codes.data(), codes.size());
  const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
  to.add(module + ".weight_scale", DType::f32, {rows, 1}, scales.data(), 4 * scales.size());
}

constexpr const char* kConfig = R"({"quant_method": "compressed-tensors",
  "format": "float-quantized", "ignore": ["lm_head"], "config_groups": {"group_0": {
    "targets": ["Linear"],
    "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true},
    "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true}}}})";

/// Writes a model of `recipe` to `plain`, and with layers in fp8 to `rounded`.
void write_both(const fs::path& recipe, const fs::path& plain, const fs::path& rounded) {
  testing::write_checkpoint(recipe, plain);
  const auto checkpoint = checkpoint::Checkpoint::open(plain);
  Json config = model::read_config(plain);
  const std::set<std::string> layers =
      tensors_of_layers(model::make_model_spec(config), checkpoint);
  Writer writer;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (layers.contains(name)) {
      add_rounded(tensor, writer);
    } else {
      writer.add(name, tensor.dtype, tensor.shape, tensor.data, tensor.bytes);
    }
  }
  config["quantization_config"] = Json::parse(kConfig);
  fs::create_directories(rounded);
  std::ofstream(rounded / "config.json") << config.dump();
  std::ofstream(rounded / "model.safetensors", std::ios::binary) << writer.bytes();
}

/// A model's folder, read as a launch reads it.
struct Opened {
  model::ModelSpec spec;
  checkpoint::Checkpoint checkpoint;

  explicit Opened(const fs::path& folder) : checkpoint(checkpoint::Checkpoint::open(folder)) {
    auto [config, read] = model::read_model_folder(folder);
    spec = std::move(read);
    checkpoint::settle_stored(checkpoint, spec);
    checkpoint::settle_kept(config, &checkpoint, {.activations = quantization::Activations::whole},
                            spec);
  }
};

std::vector<std::string> answers_of(const model::ModelSpec& spec,
                                    const checkpoint::WeightSource& source) {
  const auto cpu = testing::cpu_backend();
  engine::EngineOptions options = testing::options_with(4, 64, 64, DType::f32);
  options.max_model_len = std::min<int64_t>(options.max_model_len, spec.max_position);
  engine::Engine engine(spec, source, *cpu, nullptr, options);
  std::vector<engine::Request> requests = testing::mixed_requests(spec.vocab_size);
  requests.resize(4);
  for (engine::Request& request : requests) {
    request.prompt.resize(std::min<size_t>(request.prompt.size(), 30));
    request.sampling = engine::SamplingParams();
    request.sampling.max_tokens = 6;
    request.sampling.temperature = 0;
    request.sampling.detokenize = false;
  }
  std::vector<std::string> answers;
  for (const auto& [tag, output] : testing::run_all(engine, requests)) {
    REQUIRE_FALSE(output.failure);
    for (const engine::Completion& one : output.completions)
      answers.push_back(fmt::format("{}", fmt::join(one.token_ids, " ")));
  }
  return answers;
}

}  // namespace

TEST_CASE("quantised while they are read, rows have their own scales, however they are stored") {
  const std::string name = GENERATE("models/llama", "models/qwen3_moe", "more_models/gpt_oss");
  INFO(name);
  const testing::RankSubject subject(std::filesystem::path(PLIMSOLL_SOURCE_DIR) /
                                     "tests/data/golden" / name);
  model::ModelSpec quantised = subject.spec();
  quantization::assign_online("fp8", quantization::Activations::whole, quantised);
  const std::set<std::string> names = packed_weights(quantised);
  REQUIRE(names.size() >= 4);
  const RoundedRows rounded(subject.reader(), names);
  CHECK(answers_of(quantised, subject.reader()) == answers_of(subject.spec(), rounded));
}

TEST_CASE("layers that are stored in fp8 are those of their rounded weights, hybrids' too") {
  const std::string name =
      GENERATE("models/internlm2", "models/qwen3_moe", "models/qwen3_5", "models/lfm2",
               "models/mamba", "more_models/kimi_linear", "more_models/zamba2");
  INFO(name);
  const testing::TempFolder folder;
  const fs::path plain_folder = folder.path / "plain", rounded_folder = folder.path / "rounded";
  write_both(fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden" / name, plain_folder,
             rounded_folder);
  const Opened plain(plain_folder), rounded(rounded_folder);
  const std::set<std::string> names = packed_weights(rounded.spec);
  REQUIRE(names.size() >= 4);
  const checkpoint::WeightReader whole(plain.checkpoint, plain.spec);
  const checkpoint::WeightReader stored(rounded.checkpoint, rounded.spec);
  CHECK(answers_of(rounded.spec, stored) == answers_of(plain.spec, RoundedRows(whole, names)));
}
