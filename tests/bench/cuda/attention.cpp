// Speed of attention on a CUDA device as shares of what the device can do: decode against the rate
// of reading, prefill against matrix products, both measured in the same run.
//   attention_cuda
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include "base/error.h"
#include "bench/cuda/roofs.h"
#include "kernels/attention/flash_attention.h"
#include "kernels/attention/hopper_attention.h"
#include "kernels/runtime/cuda_error.h"
#include "kernels/runtime/device.h"

namespace plimsoll::testing {
namespace {

constexpr double kReadRate = 4.60e12;  // of an H200, as published with this project's targets
constexpr double kProductRate = 796e12;
constexpr int64_t kBlock = 16;
constexpr size_t kPoolBytes = size_t{2} << 30;  // read between two uses of one layer, at least

/// `sequences` of equal length: the last `rows` of `context` tokens are computed.
struct Case {
  int64_t sequences, rows, context;
  DType kv = DType::bf16;
  const kernels::HopperUnit* hopper = nullptr;  // that takes the prefill; none: the usual kernels
};

/// Limits of a case that fills them.
kernels::FlashLimits limits_of(const Case& c, int64_t processors) {
  return {.tokens = c.sequences * c.rows,
          .sequences = c.sequences,
          .context = c.context,
          .multiprocessors = processors,
          .hopper = c.hopper != nullptr};
}

model::AttentionSpec llama_8b() {
  model::AttentionSpec spec;
  spec.heads = 32;
  spec.kv_heads = 8;
  spec.head_dim = 128;
  spec.scale = 0.088388f;
  return spec;
}

/// A case on the device: caches of as many layers as it takes to be larger than the L2 cache.
class Stage {
 public:
  Stage(const Case& c, int64_t processors, cudaStream_t stream)
      : spec_(llama_8b()),
        stream_(stream),
        table_stride_((c.context + kBlock - 1) / kBlock),
        limits_(limits_of(c, processors)),
        layer_bytes_(static_cast<size_t>(2 * spec_.kv_heads * kBlock * spec_.head_dim) *
                     dtype_size(c.kv)),
        blocks_(c.sequences * table_stride_),
        layers_(1 +
                static_cast<int64_t>(kPoolBytes / (static_cast<size_t>(blocks_) * layer_bytes_))),
        pool_(static_cast<size_t>(blocks_ * layers_) * layer_bytes_),
        q_(static_cast<size_t>(limits_.tokens * columns()) * 2),
        out_(static_cast<size_t>(limits_.tokens * spec_.heads * spec_.head_dim) * 2),
        workspace_(kernels::flash_workspace_bytes(limits_, kernels::flash_shape(spec_))),
        planner_(kernels::flash_shape(spec_), limits_),
        slab_(planner_.layout().bytes),
        unit_(kernels::find_flash_unit(spec_, DType::bf16, c.kv)),
        hopper_(c.hopper),
        table_(static_cast<size_t>(blocks_) * sizeof(int32_t)),
        query_start_(static_cast<size_t>(c.sequences + 1) * sizeof(int32_t)),
        context_(static_cast<size_t>(c.sequences) * sizeof(int32_t)) {
    // Small numbers in all types.
    kernels::check(cudaMemset(pool_.data(), 0x2c, pool_.size()), "cudaMemset");
    kernels::check(cudaMemset(q_.data(), 0x3c, q_.size()), "cudaMemset");
    if (hopper_ != nullptr) {
      planner_.use_hopper(1);
      kernels::check(hopper_->prepare(), "loading kernels");
    }
    upload(c);
    kernels::check(unit_->prepare(memory()), "loading kernels");
    // The stream of the kernels waits for none of these copies.
    kernels::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  /// Seconds of one layer.
  double run() {
    const int repeats = static_cast<int>(std::max<int64_t>(1, 32 / layers_));
    return seconds_of(stream_, repeats,
                      [&] {
                        for (int64_t layer = 0; layer < layers_; ++layer) enqueue(layer);
                      }) /
           static_cast<double>(layers_);
  }

 private:
  [[nodiscard]] int64_t columns() const {
    return (spec_.heads + 2 * spec_.kv_heads) * spec_.head_dim;
  }
  static int32_t capability() {
    return static_cast<int32_t>(kernels::describe_device(0).compute_capability);
  }
  static kernels::FlashMemory memory() {
    int bytes = 0;
    kernels::check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0),
                   "cudaDeviceGetAttribute");
    return bytes >= 160 << 10 ? kernels::FlashMemory::large : kernels::FlashMemory::small;
  }

  void upload(const Case& c) {
    std::vector<int32_t> table(static_cast<size_t>(blocks_)), query_start{0}, context;
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
    std::mt19937 random(1);
    std::shuffle(table.begin(), table.end(), random);
    for (int64_t b = 0; b < c.sequences; ++b) {
      query_start.push_back(query_start.back() + static_cast<int32_t>(c.rows));
      context.push_back(static_cast<int32_t>(c.context));
    }
    std::vector<std::byte> slab(slab_.size());
    planner_.plan({query_start, context, table_stride_}, slab);
    const auto copy = [](const kernels::DeviceMemory& to, const auto& from) {
      kernels::check(
          cudaMemcpy(to.data(), from.data(), from.size() * sizeof(from[0]), cudaMemcpyHostToDevice),
          "cudaMemcpy");
    };
    copy(slab_, slab);
    copy(table_, table);
    copy(query_start_, query_start);
    copy(context_, context);
  }

  void enqueue(int64_t layer) {
    const kernels::PagedLayer at = {.plan = &planner_,
                                    .slab = static_cast<const std::byte*>(slab_.data()),
                                    .q = q_.data(),
                                    .q_stride = columns(),
                                    .out = out_.data(),
                                    .kv = static_cast<const std::byte*>(pool_.data()) +
                                          static_cast<size_t>(layer) * layer_bytes_,
                                    .block_stride = static_cast<size_t>(layers_) * layer_bytes_,
                                    .block_size = kBlock,
                                    .block_table = static_cast<const int32_t*>(table_.data()),
                                    .query_start = static_cast<const int32_t*>(query_start_.data()),
                                    .context_length = static_cast<const int32_t*>(context_.data())};
    kernels::flash_attention(at,
                             {.unit = unit_,
                              .memory = memory(),
                              .limits = &limits_,
                              .workspace = static_cast<std::byte*>(workspace_.data()),
                              .sequences = limits_.sequences},
                             spec_, stream_);
    kernels::hopper_attention(
        at, {.unit = hopper_, .rows = limits_.tokens, .table_stride = table_stride_}, spec_,
        stream_);
  }

  model::AttentionSpec spec_;
  cudaStream_t stream_;
  int64_t table_stride_;
  kernels::FlashLimits limits_;
  size_t layer_bytes_;
  int64_t blocks_, layers_;
  kernels::DeviceMemory pool_, q_, out_, workspace_;
  kernels::FlashPlanner planner_;
  kernels::DeviceMemory slab_;
  const kernels::FlashUnit* unit_;
  const kernels::HopperUnit* hopper_;
  kernels::DeviceMemory table_, query_start_, context_;
};

void decode(int64_t processors, double roof, cudaStream_t stream) {
  fmt::print("\ndecode, 32 / 8 heads of 128         GB/s   of this run's {:.0f}   of 4,600\n",
             roof / 1e9);
  for (const DType kv : {DType::bf16, DType::f8_e4m3})
    for (const auto& [sequences, context] :
         {std::pair{1, 32768}, std::pair{64, 2048}, std::pair{256, 1024}, std::pair{512, 1536}}) {
      const double bytes = double(sequences) * context * 2 * 8 * 128 * double(dtype_size(kv));
      const double rate = bytes / Stage({sequences, 1, context, kv}, processors, stream).run();
      fmt::print("{:>4} x {:>6} tokens, {:<14} {:>8.0f}   {:>18.1f} % {:>9.1f} %\n", sequences,
                 context, torch_name(kv), rate / 1e9, 100 * rate / roof, 100 * rate / kReadRate);
    }
}

void prefill(int64_t processors, double roof, const kernels::HopperUnit* hopper,
             cudaStream_t stream) {
  if (hopper != nullptr) fmt::print("\nby the kernels for Hopper:");
  fmt::print("\ncausal prefill, 32 / 8 heads of 128  TFLOP/s   of this run's {:.0f}   of 796\n",
             roof / 1e12);
  for (const int64_t tokens : {1024, 2048, 4096, 8192, 32768}) {
    const double operations = 2.0 * double(tokens) * double(tokens) * 32 * 128;
    const double rate =
        operations / Stage({1, tokens, tokens, DType::bf16, hopper}, processors, stream).run();
    fmt::print("{:>6} tokens {:>30.0f}   {:>16.1f} % {:>7.1f} %\n", tokens, rate / 1e12,
               100 * rate / roof, 100 * rate / kProductRate);
  }
}

int run() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    fmt::print(stderr, "no CUDA device: nothing is measured\n");
    return static_cast<int>(ExitCode::device_lost);
  }
  if (kernels::flash_units().empty()) {
    fmt::print("built without FlashInfer: nothing is measured\n");
    return 0;
  }
  kernels::use_device(0);
  cudaDeviceProp device{};
  kernels::check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  const kernels::Stream stream;
  constexpr int64_t kProduct = 8192;
  double reading = 0, products = 0;
  {
    const kernels::DeviceMemory memory(std::max(kPoolBytes * 2, product_rate_bytes(kProduct)));
    kernels::check(cudaMemset(memory.data(), 0x3c, memory.size()), "cudaMemset");
    kernels::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    reading = read_rate(memory.data(), memory.size(), stream.get());
    products = product_rate(static_cast<std::byte*>(memory.data()), kProduct, stream.get());
  }
  fmt::print("{}: reads {:.0f} GB/s, bf16 products {:.0f} TFLOP/s\n", device.name, reading / 1e9,
             products / 1e12);
  decode(device.multiProcessorCount, reading, stream.get());
  prefill(device.multiProcessorCount, products, nullptr, stream.get());
  const kernels::HopperUnit* const hopper = kernels::find_hopper_unit(128, DType::bf16);
  const bool is_hopper = device.major == 9 && device.minor == 0;
  if (hopper != nullptr && is_hopper) {
    prefill(device.multiProcessorCount, products, hopper, stream.get());
  }
  return 0;
}

}  // namespace
}  // namespace plimsoll::testing

int main() {
  try {
    return plimsoll::testing::run();
  } catch (const plimsoll::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
