// Speed of the kernels that are bound by memory, as shares of the rate of reading measured in the
// same run. The shapes are those of Llama-3.1-8B in bf16.
//   kernels_cuda [PART OF A NAME]
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/slices.h"
#include "backend/random_part.h"
#include "base/error.h"
#include "bench/cuda/kernel_cases.h"
#include "kernels/products/experts.h"
#include "kernels/products/linear.h"
#include "kernels/products/packed/inputs.h"
#include "kernels/products/slices.h"
#include "kernels/products/small_linear.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/rows/change_logits.h"
#include "kernels/rows/random.h"
#include "kernels/rows/rows.h"
#include "kernels/rows/sample.h"
#include "model/slices.h"

namespace plimsoll::testing {
namespace {

constexpr int64_t kHidden = 4096;
constexpr int64_t kIntermediate = 14336;
constexpr int64_t kVocabulary = 128256;
constexpr size_t kMemory = size_t{12} << 30;

void small_products(Ring& ring, const Table& table, cudaStream_t stream) {
  constexpr const char* kHow[] = {"", " by a ring", " by bulk copies"};
  const int64_t shapes[][2] = {
      {6144, kHidden},          {kHidden, kHidden},     {2 * kIntermediate, kHidden},
      {kHidden, kIntermediate}, {kVocabulary, kHidden}, {1024, 2048}};
  for (const auto& [n, k] : shapes)
    for (const int64_t rows : {1, 2, 4, 8})
      for (const kernels::Feed feed : kernels::feeds()) {
        const double bytes = 2.0 * double(n) * double(k);
        const char* how = kHow[static_cast<size_t>(feed)];
        table.row(fmt::format("small_linear {} x [{}, {}]{}", rows, n, k, how), bytes, [&] {
          kernels::small_linear({.out = ring.take(rows, n, DType::bf16),
                                 .in = ring.take(rows, k, DType::bf16),
                                 .weight = ring.take(n, k, DType::bf16),
                                 .feed = feed},
                                stream);
        });
      }
}

/// Few rows are bound by reading codes and scales; many (64 and on) by what rows cost.
void packed_products(Ring& ring, const Table& table, cudaStream_t stream) {
  using model::Code;
  using model::ScaleType;
  struct Format {
    const char* name;
    model::Packing packing;
  };
  for (const Format& format :
       {Format{"int4, groups of 128",
               {.bits = 4, .group = 128, .scale = ScaleType::bf16, .zero = 8}},
        Format{"int4, zero points",
               {.bits = 4, .group = 128, .scale = ScaleType::f16, .zeros = true}},
        Format{"int4, groups of 32",
               {.bits = 4, .group = 32, .scale = ScaleType::f16, .zeros = true}},
        Format{"int2", {.bits = 2, .group = 128, .scale = ScaleType::f16, .zeros = true}},
        Format{"int3", {.bits = 3, .group = 128, .scale = ScaleType::f16, .zeros = true}},
        Format{"nf4",
               {.code = Code::table,
               .group = 64,
               .scale = ScaleType::nested,
               .block_inputs = 64 * 256}},
        Format{"mxfp4", {.code = Code::table, .group = 32, .scale = ScaleType::e8m0}},
        Format{"nvfp4",
               {.code = Code::table, .group = 16, .scale = ScaleType::e4m3, .factors = true}},
        Format{"int8", {.bits = 8, .zero = 128}}, Format{"fp8", {.code = Code::e4m3, .bits = 8}},
        Format{"Q8_0", testing::ggml_case(GgmlType::q8_0)},
        Format{"Q4_K", testing::ggml_case(GgmlType::q4_k)},
        Format{"Q6_K", testing::ggml_case(GgmlType::q6_k)}}) {
    std::optional<PackedCopies> copies;  // loading takes seconds
    for (const int64_t count : {1, 8, 16, 64, 256}) {
      const std::string name =
          fmt::format("packed {} {} x [{}, {}]", format.name, count, kIntermediate, kHidden);
      if (!table.wants(name)) continue;
      if (!copies) copies.emplace(format.packing, kIntermediate, kHidden);
      table.row(name, copies->bytes(), [&] {
        kernels::packed_linear({.out = ring.take(count, kIntermediate, DType::bf16),
                                .in = ring.take(count, kHidden, DType::bf16),
                                .part = copies->next()},
                               stream);
      });
    }
  }
}

/// A product of a layer's last matrix, in the fastest order and in that of --deterministic, which
/// is the same at every width (backend/cuda/slices.h): each with algorithms of its own.
class OrderedProduct {
 public:
  OrderedProduct(Ring& ring, int64_t rows, cudaStream_t stream)
      : ring_(ring), rows_(rows), stream_(stream) {
    for (auto* products : {&free_, &fixed_}) {
      products->use_workspace(static_cast<std::byte*>(workspace_.data()), workspace_.size());
    }
    spec_.shape = {kHidden, kIntermediate};
    run_free();
    run_fixed();
    const std::span scratch(static_cast<std::byte*>(scratch_.data()), scratch_.size());
    free_.tune(scratch, rows);
    fixed_.tune(scratch, rows);
  }
  void run_free() {
    (void)free_.run(out(rows_), in(rows_), {&spec_, DType::bf16, matrix().data}, {},
                    model::Activation::none);
  }
  void run_fixed() {
    constexpr int64_t kMost = backend::cuda::kSlicedRows, kSlices = model::kMostSlices;
    for (int64_t first = 0; first < rows_; first += kMost) {
      const int64_t count = std::min(kMost, rows_ - first);
      const View sums = ring_.take(kSlices * count, kHidden, DType::f32);
      auto* const at = static_cast<float*>(sums.data);
      (void)fixed_.run_slices({.in = in(count),
                               .weight = matrix(),
                               .out = at,
                               .out_stride = kHidden,
                               .slices = kSlices});
      kernels::sum_slices(out(count), {at, kSlices, count, kHidden, kHidden}, stream_);
    }
  }

 private:
  [[nodiscard]] View in(int64_t rows) { return ring_.take(rows, kIntermediate, DType::bf16); }
  [[nodiscard]] View out(int64_t rows) { return ring_.take(rows, kHidden, DType::bf16); }
  [[nodiscard]] View matrix() { return ring_.take(kHidden, kIntermediate, DType::bf16); }

  Ring& ring_;
  int64_t rows_;
  cudaStream_t stream_;
  model::WeightSpec spec_{.name = "w"};
  kernels::DeviceMemory workspace_{backend::product_workspace_bytes({})};
  kernels::DeviceMemory scratch_{size_t{512} << 20};
  kernels::Products free_{kernels::Pinning::by_rows, stream_};
  kernels::Products fixed_{kernels::Pinning::single, stream_};
};

/// Cost of --deterministic beside free order.
void orders(Ring& ring, const Table& table, cudaStream_t stream) {
  for (const int64_t count : {1, 64, 2048}) {
    const std::string name =
        fmt::format("fixed order {} x [{}, {}]", count, kHidden, kIntermediate);
    if (!table.wants(name)) continue;
    OrderedProduct product(ring, count, stream);
    const double fast = seconds_of(stream, kRepeats, [&] { product.run_free(); });
    const double fixed = seconds_of(stream, kRepeats, [&] { product.run_fixed(); });
    fmt::print("{:40} {:9.1f} us {:9.1f} us in free order, {:.2f} times\n", name, fixed * 1e6,
               fast * 1e6, fixed / fast);
    std::fflush(stdout);
  }
}

void rows(Ring& ring, const Table& table, cudaStream_t stream) {
  for (const int64_t count : {1, 64, 256, 8192}) {
    const auto wide = [&] { return ring.take(count, kHidden, DType::bf16); };
    table.row(fmt::format("add_norm {}", count), 4 * bytes_of(wide()), [&] {
      const View out = wide(), in = wide(), delta = wide(),
                 weight = ring.take(1, kHidden, DType::bf16);
      kernels::norm({.out = out,
                     .in = in,
                     .delta = delta,
                     .spec = {.present = true},
                     .weight = {weight.data, DType::bf16}},
                    stream);
    });
    table.row(fmt::format("gated_activation {}", count), 6.0 * double(count) * kIntermediate, [&] {
      kernels::compute(
          backend::ops::GatedActivation{ring.take(count, kIntermediate, DType::bf16),
                                        ring.take(count, 2 * kIntermediate, DType::bf16),
                                        model::Activation::silu},
          stream);
    });
  }
}

void sampling(const Table& table, cudaStream_t stream) {
  struct Kind {
    const char* name;
    double temperature;
    int32_t top_k;
    double top_p;
  };
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2.5f);
  std::vector<float> numbers(static_cast<size_t>(8 * kVocabulary));
  for (float& x : numbers) x = normal(random);
  for (const int64_t count : {1, 256}) {
    std::vector<float> logits;
    for (int64_t r = 0; r < count; ++r) {
      const auto from = numbers.begin() + r % 8 * kVocabulary;
      logits.insert(logits.end(), from, from + kVocabulary);
    }
    const Uploaded memory(logits);
    const View view{memory.data(), DType::f32, count, kVocabulary, kVocabulary};
    for (const Kind& kind :
         {Kind{"greedy", 0, 0, 1}, Kind{"temperature", 1, 0, 1}, Kind{"top_k", 1, 20, 1},
          Kind{"top_p", 1, 0, 0.9}, Kind{"top_k and top_p", 0.7, 20, 0.8}}) {
      const auto all = [&](auto value) {
        return std::vector<decltype(value)>(static_cast<size_t>(count), value);
      };
      const Uploaded temperature(all(kind.temperature)), top_p(all(kind.top_p));
      const Uploaded min_p(all(0.0)), uniform(all(0.5));
      const Uploaded top_k(all(kind.top_k)), drawn(all(0));
      table.row(fmt::format("sample {} {}", kind.name, count), bytes_of(view), [&] {
        kernels::sample({view, temperature.data(), top_k.data(), top_p.data(), min_p.data(),
                         uniform.data(), drawn.data()},
                        stream);
      });
    }
  }
}

/// A repetition penalty over 800 different tokens of each row.
void penalties(const Table& table, cudaStream_t stream) {
  constexpr int32_t kSeen = 800;
  for (const int64_t count : {1, 256}) {
    const auto rows = static_cast<size_t>(count);
    std::vector<int32_t> sections{0};
    std::vector<backend::TokenChange> changes;
    for (int64_t r = 0; r < count; ++r) {
      const auto begin = static_cast<int32_t>(changes.size());
      for (int32_t i = 0; i < kSeen; ++i) changes.push_back({i * 157, i % 3});
      sections.insert(sections.end(), {begin, begin, begin, begin + kSeen});
    }
    const Uploaded logits(std::vector<float>(rows * kVocabulary, 1.5f));
    const Uploaded repetition(std::vector<float>(rows, 1.1f)), none(std::vector<float>(rows, 0));
    const Uploaded adds_own(std::vector<uint8_t>(rows, 1));
    const Uploaded borders(sections), zeros(std::vector<int32_t>(rows, 0));
    const Uploaded list(changes);
    const View view{logits.data(), DType::f32, count, kVocabulary, kVocabulary};
    table.row(fmt::format("change_logits {}", count),
              static_cast<double>(changes.size()) * (sizeof(backend::TokenChange) + 8), [&] {
                kernels::change_logits(
                    {view, repetition.data(), none.data(), none.data(), adds_own.data(),
                     borders.data(), list.data(), zeros.data(), zeros.data()},
                    stream);
              });
  }
}

/// Qwen3-30B-A3B: 128 experts of 768, 8 for each token.
void experts(Ring& ring, const Table& table, cudaStream_t stream) {
  const model::MlpSpec mlp{
      .kind = model::MlpKind::experts, .intermediate = 768, .experts = 128, .experts_per_token = 8};
  constexpr int64_t kWidth = 2048;
  std::mt19937 random(1);
  for (const int64_t count : {1, 64, 4096}) {
    std::vector<int32_t> choices;
    std::vector<bool> used(128);
    for (int64_t i = 0; i < count * 8; ++i) {
      choices.push_back(static_cast<int32_t>(random() % 128));
      used[static_cast<size_t>(choices.back())] = true;
    }
    const Uploaded chosen(choices);
    const Uploaded weights(std::vector<float>(choices.size(), 0.125f));
    const kernels::DeviceMemory workspace(
        kernels::experts_layout(count, mlp, kWidth, DType::bf16).bytes);
    const auto read = double(std::count(used.begin(), used.end(), true));
    table.row(fmt::format("experts {}", count), read * 3 * 768 * kWidth * 2, [&] {
      kernels::experts({.out = ring.take(count, kWidth, DType::bf16),
                        .in = ring.take(count, kWidth, DType::bf16),
                        .choices = {{chosen.data(), DType::i32, count, 8, 8},
                                    {weights.data(), DType::f32, count, 8, 8}},
                        .mlp = &mlp,
                        .own = 128,
                        .up = {ring.take(128 * 2 * 768, kWidth, DType::bf16).data},
                        .down = {ring.take(128 * kWidth, 768, DType::bf16).data},
                        .workspace = static_cast<std::byte*>(workspace.data())},
                       stream);
    });
  }
}

/// Mamba-2 of Nemotron-H-8B, the delta rule and the convolution of Qwen3-Next-80B. Of decode, bytes
/// are those of states, read and written; of prefill, those of rows too.
void mixers(Ring& ring, const Table& table, cudaStream_t stream) {
  const model::RecurrentSpec scan{.heads = 128, .head_dim = 64, .groups = 8, .state = 128};
  const model::RecurrentSpec delta{.heads = 32, .head_dim = 128, .groups = 16, .state = 128};
  const model::ConvSpec conv{.width = 8192, .taps = 4, .activation = model::Activation::silu};
  for (const auto& [sequences, rows] :
       {std::pair<int64_t, int64_t>{1, 1}, {64, 1}, {256, 1}, {1, 8192}, {8, 1024}}) {
    const int64_t count = sequences * rows;
    const auto wide = [&](int64_t columns) { return ring.take(count, columns, DType::bf16); };
    const auto vector = [&](int64_t numbers) {
      return kernels::Vector{ring.take(1, numbers, DType::bf16).data, DType::bf16};
    };
    const std::string name = fmt::format("{} x {}", sequences, rows);
    const auto bytes = [&](const Mixing& mixing, int64_t columns) {
      return 2 * mixing.state_bytes() + (rows > 1 ? 2 * double(count * columns) : 0);
    };
    const Mixing scanned(sequences, rows, scan.state_floats());
    table.row("selective_scan " + name, bytes(scanned, 2 * 8192 + 2 * 1024 + 128), [&] {
      kernels::selective_scan({.out = wide(8192),
                               .in = {wide(8192), wide(128), wide(1024), wide(1024)},
                               .spec = &scan,
                               .decay = vector(128),
                               .skip = vector(128),
                               .step_bias = vector(128),
                               .states = scanned.states(ring)},
                              scanned.batch, stream);
    });
    const Mixing ruled(sequences, rows, delta.state_floats());
    table.row("gated_delta " + name, bytes(ruled, 2 * 4096 + 2 * 2048 + 64), [&] {
      kernels::gated_delta({.out = wide(4096),
                            .in = {wide(2048), wide(2048), wide(4096), wide(32), wide(32)},
                            .spec = &delta,
                            .decay_log = vector(32),
                            .step_bias = vector(32),
                            .states = ruled.states(ring)},
                           ruled.batch, stream);
    });
    const Mixing convolved(sequences, rows, conv.width * (conv.taps - 1));
    table.row("convolve " + name, bytes(convolved, 2 * 8192), [&] {
      kernels::convolve({.out = wide(conv.width),
                         .in = wide(conv.width),
                         .spec = conv,
                         .weight = vector(conv.width * conv.taps),
                         .states = convolved.states(ring)},
                        convolved.batch, stream);
    });
  }
}

void run(std::string_view filter) {
  const kernels::Stream stream;
  const kernels::DeviceMemory memory(kMemory);
  // Small numbers everywhere, and the inputs of no case are written by another's time.
  kernels::fill_random(memory.data(), DType::bf16, static_cast<int64_t>(kMemory / 2), 1, 0.01f,
                       stream.get());
  stream.wait();
  const double rate = read_rate(memory.data(), kMemory, stream.get());
  fmt::print("reading {:.0f} GB/s\n", rate / 1e9);
  Ring ring(memory);
  const Table table(stream.get(), rate, filter);
  small_products(ring, table, stream.get());
  packed_products(ring, table, stream.get());
  orders(ring, table, stream.get());
  rows(ring, table, stream.get());
  sampling(table, stream.get());
  penalties(table, stream.get());
  experts(ring, table, stream.get());
  mixers(ring, table, stream.get());
}

}  // namespace
}  // namespace plimsoll::testing

int main(int argc, char** argv) {
  try {
    plimsoll::testing::run(argc > 1 ? argv[1] : "");
  } catch (const plimsoll::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
