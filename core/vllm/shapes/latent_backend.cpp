#include "vllm/shapes/latent_backend.h"

#include <array>
#include <initializer_list>

#include "base/error.h"
#include "model/vllm/types.h"

namespace plimsoll::vllm {
namespace {

using hardware::Architecture;
using model::Releases;
using model::VllmVersion;

/// Members of an enumeration, a bit each.
template <typename Member>
class Some {
 public:
  constexpr Some(std::initializer_list<Member> members) {
    for (const Member member : members) bits_ |= bit(member);
  }
  [[nodiscard]] constexpr bool has(Member member) const { return (bits_ & bit(member)) != 0; }

 private:
  static constexpr uint32_t bit(Member member) { return 1U << static_cast<uint32_t>(member); }
  uint32_t bits_ = 0;
};

struct Row {
  LatentBackend backend;
  Some<Architecture> cards;
  Some<CacheType> types;
  Releases releases{{0, 0, 0}};
};

constexpr auto kHopper = Architecture::hopper;
constexpr auto kBlackwell = Architecture::blackwell;
constexpr auto kConsumer = Architecture::consumer_blackwell;
constexpr Some kWhole{CacheType::whole};
constexpr Some kFp8{CacheType::fp8, CacheType::e4m3};
constexpr Some kDense{CacheType::whole, CacheType::fp8, CacheType::e4m3};
constexpr Some kPacked{CacheType::fp8, CacheType::packed};

constexpr VllmVersion kByPriority{0, 15, 0};  // before: FlashMLA and CUTLASS by card
constexpr VllmVersion kTritonFp8{0, 18, 0};
constexpr VllmVersion kOwnSparseType{0, 11, 1};  // before: "auto" was fp8_ds_mla
constexpr VllmVersion kSparseE4m3{0, 18, 0};     // before: each fp8 was fp8_ds_mla
constexpr VllmVersion kSparseFlashAttention{0, 25, 0};
constexpr VllmVersion kSparseHopper{0, 30, 0};
constexpr VllmVersion kSparseConsumer{0, 24, 0};

/// flashinfer_mla_sparse_sm90.py: _WORKSPACE_BYTES.
constexpr LatentBackend kSparseHopperKernel{
    "FLASHINFER_MLA_SPARSE_SM90", 64, 64, false, 1, false, 128 << 20};

/// FlashMLA's for sparse attention, which is there for every type of the cache.
constexpr LatentBackend flash_sparse(bool packed, bool masks = false) {
  return {.name = "FLASHMLA_SPARSE",
          .block = 64,
          .multiple = 64,
          .packed = packed,
          .gathers = true,
          .expands = true,
          .masks = masks};
}

constexpr LatentBackend kTriton{.name = "TRITON_MLA", .splits = true};

/// Rows for latents without positions, which go before all others (vllm/platforms/cuda.py:
/// head_size == 512).
constexpr auto kUnrotatedRows = std::to_array<Row>({
    {kSparseHopperKernel, {kHopper}, kDense, {kSparseHopper}},
});

/// The first that fits is chosen.
constexpr auto kDenseRows = std::to_array<Row>({
    {{"FLASHMLA", 64}, {kHopper}, kDense, {{0, 0, 0}, kByPriority}},
    {{"CUTLASS_MLA", 128}, {kBlackwell}, kDense, {{0, 0, 0}, kByPriority}},
    {{"FLASH_ATTN_MLA"}, {kHopper}, kWhole},
    {{"FLASHMLA", 64}, {kHopper}, kFp8},
    {{"FLASHINFER_MLA", 32}, {kBlackwell}, kDense},
    {kTriton, {Architecture::older, Architecture::ampere, Architecture::ada, kConsumer}, kWhole},
    {kTriton, {Architecture::ada, kConsumer}, kFp8, {kTritonFp8}},
});

constexpr auto kSparseRows = std::to_array<Row>({
    {flash_sparse(true), {kHopper, kBlackwell}, kDense, {{0, 0, 0}, kOwnSparseType}},
    {flash_sparse(true), {kHopper, kBlackwell}, {CacheType::e4m3}, {{0, 0, 0}, kSparseE4m3}},
    {{.name = "FLASH_ATTN_MLA_SPARSE", .block = 64, .multiple = 64, .expands = true},
     {kHopper},
     kWhole,
     {kSparseFlashAttention}},
    {{.name = "FLASHINFER_MLA_SPARSE", .block = 64, .multiple = 64, .rows = 32, .expands = true},
     {kBlackwell},
     kFp8,
     {kSparseE4m3}},
    {flash_sparse(false), {kHopper}, kWhole},
    {flash_sparse(false, true), {kBlackwell}, kWhole},
    {flash_sparse(true), {kHopper, kBlackwell}, kPacked},
    {kSparseHopperKernel, {kHopper}, {CacheType::e4m3}, {kSparseHopper}},
    {{"FLASHINFER_MLA_SPARSE_SM120", 64, 64, true},
     {kConsumer},
     {CacheType::whole, CacheType::fp8, CacheType::e4m3, CacheType::packed},
     {kSparseConsumer}},
});

const char* type_name(CacheType type) {
  switch (type) {
    case CacheType::whole:
      return "auto";
    case CacheType::fp8:
      return "fp8";
    case CacheType::e4m3:
      return "fp8_e4m3";
    case CacheType::packed:
      return "fp8_ds_mla";
    case CacheType::other:
      break;
  }
  return "of this type";
}

}  // namespace

CacheType cache_type(const std::string& dtype, bool stored_fp8) {
  if (dtype == "auto") return stored_fp8 ? CacheType::e4m3 : CacheType::whole;
  if (dtype == "bfloat16" || dtype == "float16" || dtype == "float32") return CacheType::whole;
  if (dtype == "fp8") return CacheType::fp8;
  if (dtype == "fp8_e4m3") return CacheType::e4m3;
  return dtype == "fp8_ds_mla" ? CacheType::packed : CacheType::other;
}

LatentBackend latent_backend(const LatentCache& cache, bool sparse) {
  const auto choose = [&](const auto& rows) -> const Row* {
    for (const Row& row : rows) {
      if (row.cards.has(cache.card) && row.types.has(cache.type) &&
          row.releases.hold(cache.version))
        return &row;
    }
    return nullptr;
  };
  const Row* row = sparse && !cache.positions ? choose(kUnrotatedRows) : nullptr;
  if (row == nullptr) row = sparse ? choose(kSparseRows) : choose(kDenseRows);
  if (row != nullptr) return row->backend;
  const bool hinders = cache.type != CacheType::whole;
  fail(ExitCode::usage,
       "No valid attention backend found for cuda with AttentionSelectorConfig(kv_cache_dtype={}, "
       "use_mla=True, use_sparse={}): the release has no kernel for it on this card. Use {}.",
       type_name(cache.type), sparse ? "True" : "False",
       hinders ? "another --kv-cache-dtype, or a Hopper or Blackwell card"
               : "a Hopper or Blackwell card");
}

}  // namespace plimsoll::vllm
