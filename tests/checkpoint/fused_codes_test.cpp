// Experts whose codes are one tensor for all: read as a matrix each, and refused by name where the
// tensors are damaged.
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <limits>
#include <map>

#include "base/error.h"
#include "checkpoint/crafted.h"
#include "checkpoint/packed_weights.h"
#include "checkpoint/resolve_model.h"
#include "model/config.h"
#include "model/tiny_config.h"

using namespace plimsoll;
using Catch::Contains;
using checkpoint::Checkpoint;
using checkpoint::WeightReader;
using model::ModelSpec;

namespace {

constexpr int64_t kExperts = 2, kHidden = 16, kInner = 8;
const std::string kNames = "model.layers.0.mlp.experts.";

struct Stored {
  DType dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using AllStored = std::map<std::string, Stored>;

Stored stored(DType dtype, std::vector<int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return {dtype, std::move(shape), std::string(static_cast<size_t>(count) * dtype_size(dtype), 0)};
}

Json config() {
  return testing::tiny_config(
      "Qwen3MoeForCausalLM",
      {{"num_experts", kExperts},
       {"num_experts_per_tok", 1},
       {"moe_intermediate_size", kInner},
       {"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}}});
}

/// Plain zeros, and stacks of which byte i is i, modulo what float8 has.
AllStored all_stored() {
  AllStored tensors;
  for (const model::WeightSpec& weight : model::make_model_spec(config()).weights)
    for (const model::Part& part : weight.parts)
      if (!part.tensor.starts_with(kNames))
        tensors[part.tensor] = stored(DType::f32, part.stored_shape);
  Stored up = stored(DType::f8_e4m3, {kExperts, 2 * kInner, kHidden});
  for (size_t i = 0; i < up.bytes.size(); ++i) up.bytes[i] = static_cast<char>(i % 120);
  tensors[kNames + "gate_up_proj"] = up;
  tensors[kNames + "down_proj"] = stored(DType::f8_e4m3, {kExperts, kHidden, kInner});
  for (const char* name : {"gate_up_proj_scale_inv", "down_proj_scale_inv"}) {
    Stored scales = stored(DType::f32, {kExperts, 1, 1});
    for (size_t i = 0; i < kExperts; ++i) {
      const float scale = 0.5f + static_cast<float>(i);
      std::memcpy(scales.bytes.data() + 4 * i, &scale, 4);
    }
    tensors[kNames + name] = scales;
  }
  return tensors;
}

/// Opens a checkpoint of these tensors and reads all rows that are kept quantized; hands each
/// matrix's codes and first scale to `see`.
using See = std::function<void(const model::WeightSpec&, size_t part,
                               const std::vector<uint8_t>& codes, float scale)>;
void read_all(const AllStored& tensors, const See& see) {
  const testing::TempFolder folder;
  Json header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", safetensors_name(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  folder.write("model.safetensors", testing::safetensors_bytes(header.dump(), data));
  Checkpoint opened = Checkpoint::open(folder.path);
  ModelSpec spec = model::make_model_spec(config());
  checkpoint::resolve_stored(opened, spec);
  checkpoint::resolve_kept(config(), &opened, {}, spec);
  const WeightReader reader(opened, spec);
  for (const model::WeightSpec& weight : spec.weights)
    for (size_t i = 0; i < weight.parts.size(); ++i) {
      const model::Part& part = weight.parts[i];
      if (!part.packing) continue;
      const auto rows = reader.packed(weight, i, checkpoint::whole_part(weight, part));
      std::vector<uint8_t> codes(static_cast<size_t>(part.rows() * weight.columns()));
      std::vector<float> scales(static_cast<size_t>(part.rows()));
      rows->codes(0, part.rows(), codes.data());
      rows->scales(0, part.rows(), reinterpret_cast<std::byte*>(scales.data()));
      see(weight, i, codes, scales.front());
    }
}

}  // namespace

TEST_CASE("a tensor of all experts' codes is a matrix of each, gate over up") {
  const AllStored tensors = all_stored();
  const std::string& bytes = tensors.at(kNames + "gate_up_proj").bytes;
  size_t read = 0;
  read_all(tensors, [&](const model::WeightSpec& weight, size_t part,
                        const std::vector<uint8_t>& codes, float scale) {
    ++read;
    const bool up = weight.split != model::Split::row;
    const size_t expert = up ? part / 2 : part;
    CHECK(scale == 0.5f + static_cast<float>(expert));
    if (!up) return;
    const std::string expected = bytes.substr(part * codes.size(), codes.size());
    CHECK(std::string(codes.begin(), codes.end()) == expected);
  });
  CHECK(read == 3 * kExperts);
}

TEST_CASE("one scale may be that of all experts") {
  AllStored tensors = all_stored();
  tensors[kNames + "down_proj_scale_inv"] = stored(DType::f32, {1, 1});
  CHECK_NOTHROW(read_all(tensors, [](const auto&...) {}));
}

TEST_CASE("damaged tensors of all experts' codes are refused by name") {
  struct Row {
    const char* what;
    const char* tensor;
    std::function<void(Stored&)> damage;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Row rows[] = {
      {"of three experts", "down_proj_scale_inv",
       [](Stored& t) {
         t = stored(DType::f32, {3, 1, 1});
       }},
      {"a grid that is too fine", "down_proj_scale_inv",
       [](Stored& t) {
         t = stored(DType::f32, {kExperts, 2, 1});
       }},
      {"a scale that is no number", "down_proj_scale_inv",
       [=](Stored& t) { std::memcpy(t.bytes.data() + 4, &nan, 4); }},
      {"scales of another type", "gate_up_proj_scale_inv", [](Stored& t) { t.dtype = DType::i32; }},
      {"codes of three experts", "gate_up_proj",
       [](Stored& t) {
         t = stored(DType::f8_e4m3, {3, 2 * kInner, kHidden});
       }},
      {"codes that are turned round", "gate_up_proj",
       [](Stored& t) {
         t = stored(DType::f8_e4m3, {kExperts, kHidden, kInner});
       }},
      {"a weight that is no number", "gate_up_proj",
       [](Stored& t) { t.bytes.back() = static_cast<char>(0x7f); }},
      {"no codes", "down_proj",
       [](Stored& t) {
         t = stored(DType::f8_e4m3, {0, 0, 0});
       }},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    AllStored tensors = all_stored();
    row.damage(tensors.at(kNames + row.tensor));
    const std::string name = row.tensor;
    CHECK_THROWS_WITH(read_all(tensors, [](const auto&...) {}),
                      Contains(kNames + name.substr(0, name.find("_scale"))));
    AllStored without = all_stored();
    without.erase(kNames + row.tensor);
    CHECK_THROWS_AS(read_all(without, [](const auto&...) {}), Error);
  }
}
