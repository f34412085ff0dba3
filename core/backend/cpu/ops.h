// The CPU backend's class; its ops live in ops_*.cpp by subject.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels/dots/bf16_tiles.h"
#include "backend/cpu/kernels/dots/fixed.h"
#include "backend/cpu/kernels/dots/integer.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/packed_layout.h"
#include "backend/cpu/round_inputs.h"
#include "backend/cpu/thread_pool.h"
#include "base/rounding.h"

namespace plimsoll::backend {

/// A row of floats in scratch.
inline float* row_of(const View& view, int64_t row) {
  return static_cast<float*>(view.data) + row * view.stride;
}

/// A vector that is kept in float32.
inline const float* floats(const Weight& vector) {
  return static_cast<const float*>(vector.data);
}

/// A product of rows with one packed matrix.
struct ProductJob {
  const std::byte* rows_packed = nullptr;  // by CpuBackend::pack
  int64_t rows = 0;
  const std::byte* matrix = nullptr;
  const model::Part* part = nullptr;  // of a quantized weight: the matrix is this part of it
  int planes = 0;                     // InputRule::planes
  float* out = nullptr;               // [rows, n]
  int64_t out_stride = 0;
};

/// RowMost of several rows that are shares of longer ones.
struct SharedMost {
  const float* largest = nullptr;  // of the first row
  int64_t stride = 0;
  int64_t lead = 0;

  [[nodiscard]] RowMost of_row(int64_t row) const {
    return {largest == nullptr ? nullptr : largest + row * stride, lead};
  }
  [[nodiscard]] SharedMost from_row(int64_t row) const {
    return {of_row(row).largest, stride, lead};
  }
};

/// How the rows of a product are packed.
struct PackedRowsRule {
  InputRule rule{};    // of a quantized weight
  int64_t slices = 1;  // of the columns, as Product::slices
  SharedMost most{};
};

/// Jobs of equal shape that run together: out = activation(in [rows, k] * matrix [n, k]^T + bias).
struct Product {
  int64_t n = 0;
  int64_t k = 0;
  int64_t slices = 1;       // of k, as WeightSpec::slices; `bias` is added to the first slice's sum
  int64_t first_input = 0;  // as Weight::first_input
  DType dtype = DType::f32;
  const float* bias = nullptr;
  model::Activation activation = model::Activation::none;
  std::span<const ProductJob> jobs;
};

/// Strips of a job's tiles of rows [first_tile, end_tile).
struct ProductRegion {
  int64_t first_strip = 0;
  int64_t strips = 0;
  int64_t first_tile = 0;
  int64_t end_tile = 0;
};

/// Some rows of some strips of a job's output.
struct OutputTile {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_strip = 0;
  int64_t strips = 1;
};

/// Size of a region.
struct RegionSize {
  int64_t rows = 0;
  int64_t columns = 0;
};
/// Destination of a region's sums [rows, columns].
struct RegionSums {
  float* data = nullptr;
  int64_t stride = 0;
};

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(CpuOptions options);

  void parallel(int64_t tasks, const HostJob& job) override;

  void compute(const ops::Embed& op);
  void compute(const ops::EmbedPositions& op);
  void compute(const ops::PlaceEmbeddings& op);
  void compute(const ops::GatherRows& op);
  void compute(const ops::Norm& op);
  void compute(const ops::Add& op);
  void compute(const ops::AddNorm& op);
  void compute(const ops::CopyHeads& op);
  void compute(const ops::AverageParts& op);
  void compute(const ops::ScaleColumns& op);
  void compute(const ops::SoftCap& op);
  void compute(const ops::MultiplyFactors& op);
  void compute(const ops::Scale& op);
  void compute(const ops::MatchSize& op);
  void compute(const ops::KeepAbove& op);
  void compute(const ops::Linear& op, std::byte* workspace);
  void compute(const ops::MultiplyGates& op);
  void compute(const ops::LimitGates& op);
  void compute(const ops::GatedActivation& op);
  void compute(const ops::Xielu& op);
  void compute(const ops::Route& op);
  void compute(const ops::Experts& op, std::byte* workspace);
  void compute(const ops::RopeAngles& op);
  void compute(const ops::RopeAndStore& op);
  void compute(const ops::ChooseKeys& op, std::byte* workspace);
  void compute(const ops::Attention& op, std::byte* workspace);
  void compute(const ops::Convolve& op);
  void compute(const ops::SelectiveScan& op);
  void compute(const ops::GatedDelta& op);
  void compute(const ops::LinearRecurrence& op);

 protected:
  void dispatch(ops::AnyOp op, std::span<std::byte> workspace) override {
    ops::compute_with(*this, op, workspace);
  }
  void do_load_weight(const Weight& weight, const RowReader& read) override;
  const float* do_host_logits(View logits, std::span<float> staging) override;

 private:
  /// f(row) for each row, on all threads where `columns` make it worth their while.
  template <typename F>
  void for_rows(int64_t rows, int64_t columns, const F& f) {
    // About 16 KiB of floats a task: enough to pay for handing it out.
    const int64_t chunk = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, columns));
    const int64_t tasks = divide_up(rows, chunk);
    // A row's ops take some instructions for each of its elements.
    pool_.run(tasks, 16 * rows * columns, [&](int64_t task, int) {
      for (int64_t row = task * chunk; row < std::min(rows, (task + 1) * chunk); ++row) f(row);
    });
  }
  /// Reads row `id` of a table as floats.
  void read_row(const Weight& table, int64_t id, float* row) const;
  /// Normalises a row; `weight` and `bias` [width] may be null.
  void norm_row(float* out, const float* in, int64_t width, const model::Norm& spec,
                const float* weight, const float* bias) const;
  /// Norms q's or k's heads of a row, by themselves or together.
  void norm_heads(float* heads, int64_t count, const model::AttentionSpec& spec,
                  const model::Norm& norm, const Weight& weight, const Weight& bias) const;
  /// Clamps, normalises and rotates a row's q, k and v, as rope_and_store does before it stores
  /// them; `angles` may be null.
  void shape_heads(float* row, const float* angles, int64_t rotary_dim, int64_t position,
                   const model::AttentionSpec& spec, const HeadNorms& norms) const;

  /// Tiles that `rows` rows are packed and multiplied in; sizes differ by one at most.
  [[nodiscard]] int64_t product_tiles(int64_t rows) const;
  /// Packs the rows that `row(i)` points at for products with weights of type `dtype`.
  template <typename RowOf>
  void pack(int64_t rows, int64_t k, DType dtype, std::byte* to, const RowOf& row,
            const PackedRowsRule& how = {});
  /// True when products with plain weights of this type use tiles here, for which rows are bf16.
  [[nodiscard]] bool has_tiles(DType dtype, int64_t columns) const {
    return bf16_tiles_ != nullptr && dtype == DType::bf16 && columns >= kLeastBf16Columns;
  }
  template <typename RowOf>
  void pack_bf16(int64_t rows, int64_t k, std::byte* to, const RowOf& row);
  /// Multiplies strips [first, last) of a job with tiles.
  void multiply_tiles(const Product& product, const ProductJob& job, int64_t first_strip,
                      int64_t last_strip) const;
  template <typename RowOf>
  void pack_integers(int64_t rows, int64_t k, std::byte* to, const RowOf& row,
                     const PackedRowsRule& how);
  template <typename RowOf>
  void pack_fixed(int64_t rows, int64_t k, std::byte* to, const RowOf& row,
                  const PackedRowsRule& how);
  /// A thread's room for `rows` rounded rows of `k` floats.
  float* rounded_rows(int thread, int64_t rows, int64_t k);
  void multiply(const Product& product);
  /// Multiplies strips [first, last) of a plain matrix, up to `task_strips` side by side.
  void multiply_strips(const Product& product, const ProductJob& job, int64_t first_strip,
                       int64_t last_strip, int64_t task_strips) const;
  void multiply_region(const Product& product, const ProductJob& job,
                       const ProductRegion& region) const;
  /// Multiplies one strip whose sums lie side by side until they are whole: rows of `out` would be
  /// in each other's way in the caches.
  void multiply_aside(const Product& product, const ProductJob& job, const ProductRegion& region,
                      const RegionSize& size, const RegionSums& out) const;
  /// Computes the sums of one slice of k.
  void multiply_slice(const Product& product, const ProductJob& job, const ProductRegion& region,
                      int64_t slice, const RegionSums& out) const;
  /// Multiplies strips [first, last) of a quantized part.
  void multiply_packed(const Product& product, const ProductJob& job, int64_t first_strip,
                       int64_t last_strip, int thread);
  /// Multiplies one block of k of a tile's strips, of which `columns` are in use.
  void multiply_tile(ProductTile tile, DType dtype, int64_t columns,
                     const Epilogue& epilogue) const;
  void finish(float* row, int64_t columns, const Epilogue& epilogue) const;
  /// Multiplies strips [first, last) of a part without codes: each is widened to floats, once for
  /// all rows, so that sums have the bits of a plain float32 matrix.
  void multiply_widened(const Product& product, const ProductJob& job, int64_t first_strip,
                        int64_t last_strip, int thread);
  /// Finds the largest inputs of rows, [rows, RowMaxima::count] to `most`; over all ranks where
  /// `weight` is a share of the inputs.
  template <typename RowOf>
  SharedMost find_most(int64_t rows, int64_t k, const RowOf& row, const Weight& weight,
                       float* most);
  /// True when products with a quantized part are sums of integers here; `columns` are a slice's.
  [[nodiscard]] bool has_integers(const model::Part& part, int64_t columns) const {
    return integer_product_ != nullptr && multiplies_integers(*part.packing, columns);
  }
  /// How the inputs of a quantized part of `weight` at `data` are rounded: fixed-point numbers of
  /// 16 bits are more exact than a model's bf16 or f16, those of 24 are as good as floats.
  [[nodiscard]] InputRule rule_of(const model::Part& part, const Weight& weight,
                                  const std::byte* data) const {
    const int64_t columns = weight.spec->columns() / weight.spec->slices;
    InputRule rule = input_rule(part, weight.spec->columns(), data);
    rule.integers = has_integers(part, columns);
    const int planes = rounds_to_bytes(rule.rounding) ? 1 : weight.dtype == DType::f32 ? 3 : 2;
    if (fixed_ != nullptr && !rule.integers &&
        suits_fixed(*fixed_, *part.packing, columns, planes)) {
      rule.planes = planes;
      rule.bits = part.packing->bits;
      rule.group = part.packing->group;
      rule.lead = part.packing->inputs_before(weight.first_input());
      rule.zero = fixed_zero(*part.packing);
    }
    return rule;
  }
  /// Computes outputs of some rows and strips: make(slice, to) stores the sums of a slice of the
  /// columns at `to`, [rows][strips * 32], of which at most kFloats are needed.
  template <int64_t kFloats, typename Make>
  void add_slices(const Product& product, const ProductJob& job, const OutputTile& tile,
                  const Make& make) const;
  void multiply_integers(const Product& product, const ProductJob& job, int64_t first_strip,
                         int64_t last_strip) const;
  void multiply_fixed(const Product& product, const ProductJob& job, int64_t first_strip,
                      int64_t last_strip, int thread);
  void linear_packed(const ops::Linear& op, std::byte* workspace);
  void load_packed(const Weight& weight, const RowReader& read);
  void load_part(const model::Part& part, int64_t columns, const model::PackedRows& rows,
                 std::byte* to);
  /// Packs rows [first, first + rows) of a plain weight as a matrix of their own.
  void load_rows(const Weight& weight, const RowReader& read, int64_t first, int64_t rows,
                 std::byte* to);

  /// Slots, (row, choice) pairs, sorted by expert (ExpertsLayout).
  struct ExpertSlots {
    int64_t experts = 0;
    int32_t* starts = nullptr;
    int32_t* order = nullptr;
    int32_t* place = nullptr;
  };
  static void sort_slots(const ExpertSlots& slots, View experts);
  /// out [slots, n] = each expert's matrix times its slots' rows, to which `row_of` points.
  template <typename RowOf>
  void multiply_experts(const ExpertSlots& slots, const Weight& weight, const RowOf& row_of,
                        std::byte* packed, float* out, const SharedMost& most);
  /// Completes the outputs of sorted slots, of which ranks have some each, or a part of each.
  /// `owners` has room for one number of each.
  static void join_experts(const ExpertSlots& slots, View downs, const Weight& down,
                           int32_t* owners);

  /// Keys [begin, end) of a row's sequence; their scores go to scores[begin, end).
  struct KeyRange {
    int64_t row = 0;
    int64_t begin = 0;
    int64_t end = 0;
    float* scores = nullptr;
    int thread = 0;
  };
  void score_keys(const IndexInputs& in, const model::AttentionSpec& spec, const KvLayer& keys,
                  const BatchMeta& batch, const KeyRange& range);

  /// Attention divided into tasks: by sequence, then `positions` rows, KV head and `heads` of its
  /// query heads.
  struct AttentionTasks {
    int64_t sequences = 0;
    int64_t positions = 0;
    int64_t heads = 0;
    int64_t operations = 0;
    int64_t parts = 0;         // of a KV head's query heads
    int64_t* first = nullptr;  // [sequences + 1] first task of each sequence
  };
  AttentionTasks divide_attention(const model::AttentionSpec& spec, const BatchMeta& batch,
                                  std::byte* workspace) const;

  const Kernels& kernels_;
  const IntegerProduct integer_product_;
  const FixedKernels* const fixed_;
  const int64_t asked_ahead_;
  const TileProduct bf16_tiles_;
  ThreadPool pool_;
  std::vector<std::vector<float>> attention_scratch_;  // one for each thread
  std::vector<std::vector<float>> decoded_scales_;     // one for each thread
  std::vector<std::vector<float>> rounded_;            // one for each thread
  std::vector<std::vector<float>> unpacked_;           // one for each thread
};

}  // namespace plimsoll::backend
