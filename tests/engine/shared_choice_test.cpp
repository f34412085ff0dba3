// Layers that see the keys that a layer before chose.
#include <catch2/catch.hpp>
#include <vector>

#include "conformance/model_runner.h"
#include "engine/tiny_model.h"

using namespace plimsoll;
using testing::TinyModel;

namespace {

/// Logits of a prompt, in one step.
std::vector<std::vector<float>> answer(const TinyModel& model, const model::ModelSpec& spec) {
  constexpr int64_t kTokens = 100;  // three times as many as a row sees
  const auto checkpoint = checkpoint::Checkpoint::open(model.folder());
  const auto backend = testing::cpu_backend();
  testing::ModelRunner runner(spec, checkpoint::WeightReader(checkpoint, spec), *backend,
                              DType::f32, {.length = kTokens});
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < kTokens; ++i) prompt.push_back(3 + i * 37 % 500);
  return runner.run(std::vector<testing::Feed>{{0, prompt}});
}

}  // namespace

TEST_CASE("a layer without an indexer sees what the layer before chose") {
  const TinyModel model("glm_moe_dsa");
  model::ModelSpec own = model.spec();
  // The first layer leaves the residual as it is, so that the second would choose the same keys if
  // it had its weights.
  own.layers[0].branch_factor = 0;
  model::ModelSpec like = own;
  model::LayerSpec& second = like.layers[1];
  const model::LayerSpec& first = like.layers[0];
  second.attention_norm = first.attention_norm;
  second.attention.latent.kv_down = first.attention.latent.kv_down;
  second.attention.latent.q_norm = first.attention.latent.q_norm;
  second.attention.indexer = first.attention.indexer;
  model::ModelSpec shared = like;
  shared.layers[1].attention.indexer.heads = 0;
  const auto expected = answer(model, like);
  CHECK(answer(model, shared) == expected);
  CHECK(answer(model, own) != expected);
}
