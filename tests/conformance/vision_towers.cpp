// Images to embeddings: decoder, image processor, tower and projector against transformers'.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "conformance/cpu.h"
#include "conformance/golden_models.h"
#include "conformance/image_golden.h"
#include "engine/vision/image_processor.h"
#include "engine/vision/tower.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

/// Memory for a tower and for encoding one image, as a counting pass finds it.
class Encoder {
 public:
  Encoder(const checkpoint::WeightSource& source, const model::ModelSpec& spec, DType dtype)
      : spec_(spec), backend_(cpu_backend()) {
    memory::Arena counted = memory::Arena::counting();
    const engine::VisionTower planned(spec, dtype, *backend_, counted);
    weights_.resize(counted.peak() + memory::Arena::kAlignment);
    memory::Arena arena = placing(weights_, counted.peak());
    tower_.emplace(spec, dtype, *backend_, arena);
    tower_->load(source);
  }

  std::vector<float> encode(const image::Pixels& pixels) {
    const int64_t width = spec_.hidden_size;
    std::vector<float> rows(static_cast<size_t>(pixels.layout.tokens * width));
    const backend::View out{rows.data(), DType::f32, pixels.layout.tokens, width, width};
    memory::Arena counted = memory::Arena::counting();
    backend_->use_scratch(counted);
    tower_->encode({pixels.layout, {}}, out);
    std::vector<std::byte> bytes(counted.peak() + memory::Arena::kAlignment);
    memory::Arena scratch = placing(bytes, counted.peak());
    backend_->use_scratch(scratch);
    tower_->encode(pixels, out);
    CHECK(scratch.peak() == counted.peak());
    return rows;
  }

 private:
  static memory::Arena placing(std::vector<std::byte>& bytes, size_t size) {
    void* base = bytes.data();
    size_t room = bytes.size();
    return memory::Arena::placing(std::align(memory::Arena::kAlignment, size, base, room), size);
  }

  const model::ModelSpec& spec_;
  std::unique_ptr<backend::Backend> backend_;
  std::vector<std::byte> weights_;
  std::optional<engine::VisionTower> tower_;
};

image::Image image(const Json& name) {
  const std::string file = read_file(images_folder() / name.get<std::string>());
  return image::decode(bytes_of(file));
}

/// The case's images, or its videos, in order.
std::vector<image::Pixels> pixels_of(const Json& c, const image::Processor& processor) {
  std::vector<image::Pixels> all;
  for (const Json& name : c.value("images", Json::array())) {
    all.push_back(processor.process(image(name)));
  }
  for (const Json& video : c.value("videos", Json::array())) {
    std::vector<image::Image> frames;
    for (const Json& name : video) frames.push_back(image(name));
    all.push_back(processor.process_video(frames));
  }
  return all;
}

/// How far embeddings may be from float32's: a right tower stays under 4e-6 in float32, and the
/// other GELU is above 1.7e-5; in the stored type transformers itself has an error.
double allowed(const Json& known, DType dtype) {
  if (dtype == DType::f32) return 1e-5;
  double most = 0;
  for (const Json& c : known["cases"]) {
    most =
        std::max(most, c["half_precision_reference"].value("image_embeddings_relative_error", 0.0));
  }
  return 2.5 * most;
}

/// A projector of two features side by side, of which one has the checkpoint's weights and the
/// other weighs nothing.
class OneOfTwo : public checkpoint::WeightSource {
 public:
  OneOfTwo(const checkpoint::WeightSource& stored, const model::ModelSpec& narrow, int64_t which)
      : stored_(stored), narrow_(narrow), which_(which) {}

  void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                 void* to) const override {
    const auto known = std::ranges::find(narrow_.towers, weight.name, &model::WeightSpec::name);
    if (known == narrow_.towers.end()) throw std::logic_error("no weight " + weight.name);
    if (known->shape.back() == weight.shape.back() || weight.name.find("linear_1") == npos) {
      return stored_.read_rows(weight, first, count, dtype, to);
    }
    const size_t bytes = static_cast<size_t>(known->columns()) * dtype_size(dtype);
    std::vector<std::byte> rows(static_cast<size_t>(count) * bytes);
    stored_.read_rows(*known, first, count, dtype, rows.data());
    std::memset(to, 0, 2 * rows.size());
    for (size_t row = 0; row < static_cast<size_t>(count); ++row) {
      std::memcpy(static_cast<std::byte*>(to) + (2 * row + static_cast<size_t>(which_)) * bytes,
                  rows.data() + row * bytes, bytes);
    }
  }

 private:
  static constexpr auto npos = std::string::npos;
  const checkpoint::WeightSource& stored_;
  const model::ModelSpec& narrow_;
  int64_t which_;
};

/// LLaVA's embeddings of an image where the projector takes these layers.
std::vector<float> llava_embeddings(const fs::path& folder, const Json& layers, int64_t which) {
  Json config = model::read_config(folder);
  config["vision_feature_layer"] = -1;  // all tensors of the tower
  const model::ModelSpec one = model::make_model_spec(config);
  config["vision_feature_layer"] = layers;
  const model::ModelSpec all = model::make_model_spec(config);
  const checkpoint::Checkpoint checkpoint = checkpoint::Checkpoint::open(folder);
  const checkpoint::WeightReader reader(checkpoint, one);
  const Json settings = engine::read_processor_settings(*all.vision, folder);
  const auto processor = engine::make_image_processor(*all.vision, settings, Json::object());
  return Encoder(OneOfTwo(reader, one, which), all, DType::f32)
      .encode(processor->process(image("odd_37x53.png")));
}

enum class Numbers { float32, stored };

void check_towers(Numbers numbers) {
  for (const fs::path& recipe : model_folders("multimodal_run")) {
    const std::string name = recipe.filename();
    const fs::path folder =
        fs::temp_directory_path() / fmt::format("plimsoll-{}-{}", name, getpid());
    write_checkpoint(recipe, folder);
    const model::ModelSpec spec = model::make_model_spec(model::read_config(folder));
    REQUIRE(spec.vision);
    const fs::path settings_folder =
        spec.vision->kind == model::VisionKind::internvl ? folder : recipe;
    const Json settings = engine::read_processor_settings(*spec.vision, settings_folder);
    const DType dtype = numbers == Numbers::stored ? spec.dtype : DType::f32;
    const checkpoint::Checkpoint checkpoint = checkpoint::Checkpoint::open(folder);
    Encoder encoder(checkpoint::WeightReader(checkpoint, spec), spec, dtype);
    const Json known = Json::parse(read_maybe_xz(recipe / "golden.json"));
    double worst = 0;
    for (const Json& c : known["cases"]) {
      if (!c.contains("image_embeddings")) continue;
      INFO(name << ", " << c["name"]);
      const auto processor = engine::make_image_processor(
          *spec.vision, settings, c.value("mm_processor_kwargs", Json::object()));
      const auto pixels = pixels_of(c, *processor);
      REQUIRE(pixels.size() == c["image_embeddings"].size());
      for (size_t i = 0; i < pixels.size(); ++i) {
        const std::vector<float> found = encoder.encode(pixels[i]);
        const Json& expected = c["image_embeddings"][i];
        CHECK(pixels[i].layout.tokens == expected["shape"][0]);
        std::vector<float> samples;
        for (const Json& hash : known["sample_hashes"]) {
          samples.push_back(found[hash.get<uint64_t>() % found.size()]);
        }
        const double error =
            relative_error(samples, expected["samples"].get<std::vector<double>>());
        CHECK(error <= allowed(known, dtype));
        worst = std::max(worst, error);
      }
    }
    fmt::print("{:<24} {:<5} embeddings {:.1e}\n", name, safetensors_name(dtype), worst);
    fs::remove_all(folder);
  }
}

}  // namespace

TEST_CASE("towers give the reference's embeddings in float32") {
  check_towers(Numbers::float32);
}

TEST_CASE("towers give the reference's embeddings in the stored half type") {
  check_towers(Numbers::stored);
}

TEST_CASE("several layers' features are projected side by side, in the config's order") {
  for (const fs::path& recipe : model_folders("multimodal_run")) {
    if (recipe.filename() != "llava") continue;
    const fs::path folder =
        fs::temp_directory_path() / fmt::format("plimsoll-features-{}", getpid());
    write_checkpoint(recipe, folder);
    fs::copy(recipe / "preprocessor_config.json", folder, fs::copy_options::overwrite_existing);
    const auto last = llava_embeddings(folder, -1, 0), before = llava_embeddings(folder, -2, 0);
    const auto input = llava_embeddings(folder, 0, 0);
    CHECK(last != before);
    for (const auto& [layers, which, expected] :
         {std::tuple(Json{-2, -1}, 0, before), std::tuple(Json{-2, -1}, 1, last),
          std::tuple(Json{-1, -2}, 0, last), std::tuple(Json{-1, 0}, 1, input),
          std::tuple(Json{-2, -2}, 1, before)}) {
      INFO(layers.dump() << ", of which " << which);
      CHECK(relative_error(llava_embeddings(folder, layers, which),
                           {expected.begin(), expected.end()}) <= 1e-6);
    }
    fs::remove_all(folder);
  }
}
