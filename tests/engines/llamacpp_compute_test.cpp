// Buffers of a step of llama.cpp, summed by hand: four streams of 16384 cells, steps of 512 tokens;
// and how far --fit shortens a context for them.
#include <catch2/catch.hpp>
#include <functional>
#include <vector>

#include "engines/llamacpp/fit.h"
#include "engines/llamacpp/memory.h"

using namespace plimsoll::engines;
using namespace plimsoll::engines::llamacpp;
using plimsoll::find_ggml_type;

namespace {

constexpr int64_t kStep = 512, kOfStream = 16384, kStreams = 4;
constexpr int64_t kWeight = int64_t{4} << 20;                // bytes of a matrix
constexpr int64_t kMask = 2 * kStep * kOfStream;             // 16 bits
constexpr int64_t kTables = 20 * kStep;                      // ids, positions, rows
constexpr int64_t kHidden = 256, kQuery = 256, kWide = 512;  // values of a token
constexpr int64_t kKeys = 128;                               // of a layer and token; values as many

/// Bytes of so many values of each token of a step, in float32.
constexpr int64_t of_step(int64_t values) {
  return values * 4 * kStep;
}

/// Three outputs of the MLP as wide as it is, two hidden states, the queries.
constexpr int64_t kPlain = of_step(3 * kWide + 2 * kHidden + kQuery);

/// Two layers with gate and up, two heads for KV and four for queries, of 64.
struct Steps {
  std::vector<plimsoll::checkpoint::gguf::Tensor> tensors{4};
  Shape shape;
  Launch launch;
  Placement placement;

  Steps() {
    shape.architecture = "llama";
    shape.embedding = kHidden;
    shape.feed_forward = kWide;
    shape.vocabulary = 1000;
    shape.gated = true;
    for (int64_t layer : {0, 1}) {
      shape.layers.push_back({.key = kKeys, .value = kKeys, .key_head = 64, .heads = 4});
      for (const MlpPart part : {MlpPart::gate, MlpPart::up}) {
        auto& tensor = tensors[shape.weights.size()];
        tensor.type = find_ggml_type("F32");
        tensor.ne = {1024, 1024};
        tensor.bytes = kWeight;
        shape.weights.emplace_back();
        shape.weights.back().tensor = &tensor;
        shape.weights.back().layer = layer;
        shape.weights.back().part = part;
      }
    }
    launch.cards = {{"CUDA0", int64_t{24} << 30, int64_t{20} << 30}};
    launch.key_type = launch.value_type = find_ggml_type("F16");
    launch.sequences = kStreams;
    placement.context = kStreams * kOfStream;
    placement.gpu_layers = -1;
  }
  void add_card() { launch.cards.push_back({"CUDA1", int64_t{24} << 30, int64_t{20} << 30}); }
  [[nodiscard]] int64_t card(size_t at = 0) const {
    return measure(shape, launch, placement).cards[at].compute;
  }
  [[nodiscard]] int64_t host() const { return measure(shape, launch, placement).pinned.compute; }
};

int64_t card_with(const std::function<void(Steps&)>& change) {
  Steps steps;
  change(steps);
  return steps.card();
}

}  // namespace

TEST_CASE("a step of llama.cpp takes what its widest layer does, its masks and its tables") {
  CHECK(Steps().card() == kPlain + kMask + kTables);
  CHECK(Steps().host() == of_step(2 * kHidden) + kMask + kTables);
  // Every layer with an indexer has one mask of its own beside the common one.
  CHECK(card_with([](Steps& s) {
          for (Layer& layer : s.shape.layers) layer.indexer = 128;
        }) == kPlain + 2 * kMask + kTables);
  CHECK(card_with([](Steps& s) { s.shape.gated = false; }) ==
        of_step(kWide + 3 * kHidden) + kMask + kTables);
  // Steps hold as many tokens of each stream.
  CHECK(card_with([](Steps& s) { s.launch.micro_batch = kStep - 3; }) == kPlain + kMask + kTables);
}

TEST_CASE("llama.cpp copies caches of other types to 16 bits, those of every stream") {
  const auto copied = [](const char* key, const char* value) {
    return card_with([&](Steps& s) {
      s.launch.key_type = find_ggml_type(key);
      s.launch.value_type = find_ggml_type(value);
    });
  };
  constexpr int64_t kCells = kStreams * kOfStream, kStates = of_step(2 * kQuery + 2 * kHidden);
  CHECK(copied("Q8_0", "F16") == kCells * 2 * kKeys + kStates + kMask + kTables);
  CHECK(copied("F16", "Q8_0") == kCells * 2 * kKeys + kStates + kMask + kTables);
  CHECK(copied("Q8_0", "Q4_0") == kCells * 2 * (2 * kKeys) + kStates + kMask + kTables);
}

TEST_CASE("llama.cpp stores all scores, and masks of 32 bits, without flash attention") {
  CHECK(card_with([](Steps& s) { s.launch.flash_attention = false; }) ==
        of_step(4 * kOfStream + 2 * kHidden + 2 * kQuery + 2 * kKeys) + 2 * kMask + kTables);
}

TEST_CASE("a card of llama.cpp takes weights and caches of the host for large batches") {
  // The first of two layers on the host: both matrices that go first, of one layer.
  const auto halved = [](const std::function<void(Steps&)>& change) {
    return card_with([&](Steps& s) {
      s.placement.gpu_layers = 2;
      s.launch.caches_on_cards = false;
      change(s);
    });
  };
  constexpr int64_t kTaken = of_step(2 * kWide + kHidden) + 2 * kWeight;
  CHECK(halved([](Steps&) {}) == kTaken + kMask + kTables);
  for (const int64_t layers : {0, 1})  // the head alone, or nothing: layers follow each other
    CHECK(halved([&](Steps& s) { s.placement.gpu_layers = layers; }) == kTaken + kMask + kTables);
  CHECK(halved([](Steps& s) { s.launch.offloads_products = false; }) == kPlain + kMask + kTables);
  CHECK(halved([](Steps& s) { s.launch.pinned_host = false; }) == kPlain + kMask + kTables);
  // From 32 tokens on.
  const auto small = [&](int64_t tokens) {
    return halved([&](Steps& s) {
      s.launch.sequences = 1;
      s.launch.micro_batch = tokens;
      s.placement.context = kOfStream;
    });
  };
  CHECK(small(32) == (2 * kWide + kHidden) * 4 * 32 + 2 * kWeight + 2 * 32 * kOfStream + 20 * 32);
  CHECK(small(31) == kPlain / kStep * 31 + 2 * 31 * kOfStream + 20 * 31);
  // Keys and values of a layer, of every stream, and masks in 16 bits and in 32.
  CHECK(halved([](Steps& s) { s.launch.caches_on_cards = true; }) ==
        kStreams * kOfStream * 2 * (2 * kKeys) + 2 * kMask + of_step(kQuery + 2 * kHidden) + kMask +
            kTables);
}

TEST_CASE("cards of llama.cpp that work as a pipeline hold four copies of a step's inputs") {
  constexpr int64_t kCopies = 4;
  Steps steps;
  steps.add_card();
  CHECK(steps.card(0) == kPlain + of_step(kHidden * kCopies) + kCopies * kMask + kTables);
  CHECK(steps.card(1) == kPlain + of_step(2 * kHidden * kCopies) + kCopies * kMask + kTables);
  CHECK(steps.host() == of_step(kHidden * (1 + kCopies)) + kCopies * kMask + kTables);
  const std::function<void(Steps&)> none[] = {
      [](Steps& s) { s.placement.partial = {{.layer = 1, .kept = Fraction::dense, .device = 0}}; },
      [](Steps& s) { s.placement.gpu_layers = s.shape.count(); },
      [](Steps& s) { s.launch.caches_on_cards = false; },
      [](Steps& s) { s.placement.experts_on_host = true; },
      [](Steps& s) { s.launch.overrides.emplace_back(); },
      [](Steps& s) { s.launch.split = Split::row; }};
  for (const auto& change : none) {
    Steps other = steps;
    for (size_t i = 0; i < other.tensors.size(); ++i)
      other.shape.weights[i].tensor = &other.tensors[i];
    change(other);
    CHECK(other.card(1) == kPlain + kMask + kTables);
  }
}

TEST_CASE("the last card of llama.cpp alone holds the logits of all tokens where these are asked") {
  Steps steps;
  steps.add_card();
  steps.launch.all_logits = true;
  steps.launch.caches_on_cards = false;  // no pipeline
  steps.shape.vocabulary = 100'000;
  CHECK(steps.card(0) == kPlain + kMask + kTables);
  CHECK(steps.card(1) == of_step(kHidden + 100'000) + kMask + kTables);
}

TEST_CASE(
    "llama.cpp's --fit shortens a context of several cards with room for a part of a layer on "
    "each") {
  constexpr int64_t kContext = 65536, kLeast = 4096 * kStreams, kFull = kContext * kStreams;
  constexpr int64_t kBeside = int64_t{3} << 20;  // of another model on each card
  struct Row {
    int64_t experts, parts;  // a half of a layer, or a sixth
  };
  for (const Row& row : {Row{0, 2}, Row{8, 6}}) {
    INFO(row.experts);
    Steps steps;
    steps.add_card();
    steps.shape.context = kContext;
    steps.shape.experts = row.experts;
    steps.shape.experts_used = 2;
    steps.shape.expert_feed_forward = 64;
    steps.launch.margins = {0, 0};
    const auto used = [&](int64_t context) {
      Placement placement = steps.placement;
      placement.context = context;
      int64_t bytes = 2 * kBeside;
      for (const Usage& card : measure(steps.shape, steps.launch, placement).cards)
        bytes += card.total();
      return bytes;
    };
    const auto fitted = [&](int64_t free) {
      for (Card& card : steps.launch.cards) card.free_bytes = free / 2;
      return fit(steps.shape, steps.launch,
                 [&](const Placement&) {
                   return std::vector<Usage>(2,
                                             Usage{.model = kBeside, .context = 0, .compute = 0});
                 })
          .placement.context;
    };
    const int64_t most = used(kFull), least = used(kLeast);
    const int64_t free = (most + least) / 4 * 2;
    // Two layers of two matrices each, and the other model's weights, over two layers; for two
    // cards and one more.
    const int64_t kept = 3 * ((4 * kWeight + 2 * kBeside) / 2) / row.parts;
    const int64_t context = kLeast + (kFull - kLeast) * (free - kept - least) / (most - least);
    CHECK(fitted(free) == context / 1024 * 1024);  // 256 tokens of each stream
    CHECK(fitted(most) == kFull);
    steps.launch.gpu_layers = 99;  // as many as there are
    CHECK(fitted(free) == context / 1024 * 1024);
    steps.launch.gpu_layers = -1;
    CHECK(fitted(least / 2) == kLeast);
  }
}
