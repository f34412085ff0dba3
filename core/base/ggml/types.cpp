#include "base/ggml/types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace plimsoll {
namespace {

constexpr bool kRun = true, kCounted = false;

// ggml.c's type_traits.
constexpr std::array kGgmlTypes = {
    GgmlTypeInfo{0, "F32", 1, 4, kRun},
    GgmlTypeInfo{1, "F16", 1, 2, kRun},
    GgmlTypeInfo{2, "Q4_0", 32, 18, kRun},
    GgmlTypeInfo{3, "Q4_1", 32, 20, kRun},
    GgmlTypeInfo{6, "Q5_0", 32, 22, kRun},
    GgmlTypeInfo{7, "Q5_1", 32, 24, kRun},
    GgmlTypeInfo{8, "Q8_0", 32, 34, kRun},
    GgmlTypeInfo{9, "Q8_1", 32, 36, kCounted},
    GgmlTypeInfo{10, "Q2_K", 256, 84, kRun},
    GgmlTypeInfo{11, "Q3_K", 256, 110, kRun},
    GgmlTypeInfo{12, "Q4_K", 256, 144, kRun},
    GgmlTypeInfo{13, "Q5_K", 256, 176, kRun},
    GgmlTypeInfo{14, "Q6_K", 256, 210, kRun},
    GgmlTypeInfo{15, "Q8_K", 256, 292, kCounted},
    GgmlTypeInfo{16, "IQ2_XXS", 256, 66, kCounted},
    GgmlTypeInfo{17, "IQ2_XS", 256, 74, kCounted},
    GgmlTypeInfo{18, "IQ3_XXS", 256, 98, kCounted},
    GgmlTypeInfo{19, "IQ1_S", 256, 50, kCounted},
    GgmlTypeInfo{20, "IQ4_NL", 32, 18, kRun},
    GgmlTypeInfo{21, "IQ3_S", 256, 110, kCounted},
    GgmlTypeInfo{22, "IQ2_S", 256, 82, kCounted},
    GgmlTypeInfo{23, "IQ4_XS", 256, 136, kRun},
    GgmlTypeInfo{24, "I8", 1, 1, kCounted},
    GgmlTypeInfo{25, "I16", 1, 2, kCounted},
    GgmlTypeInfo{26, "I32", 1, 4, kCounted},
    GgmlTypeInfo{27, "I64", 1, 8, kCounted},
    GgmlTypeInfo{28, "F64", 1, 8, kRun},
    GgmlTypeInfo{29, "IQ1_M", 256, 56, kCounted},
    GgmlTypeInfo{30, "BF16", 1, 2, kRun},
    GgmlTypeInfo{34, "TQ1_0", 256, 54, kCounted},
    GgmlTypeInfo{35, "TQ2_0", 256, 66, kCounted},
    GgmlTypeInfo{39, "MXFP4", 32, 17, kRun},
    GgmlTypeInfo{40, "NVFP4", 64, 36, kRun},
    GgmlTypeInfo{41, "Q1_0", 128, 18, kCounted},
    GgmlTypeInfo{42, "Q2_0", 64, 18, kCounted},
};

struct RemovedType {
  uint32_t id;
  std::string_view name;
};
constexpr std::array kRemovedTypes = {
    RemovedType{4, "Q4_2"},        RemovedType{5, "Q4_3"},        RemovedType{31, "Q4_0_4_4"},
    RemovedType{32, "Q4_0_4_8"},   RemovedType{33, "Q4_0_8_8"},   RemovedType{36, "IQ4_NL_4_4"},
    RemovedType{37, "IQ4_NL_4_8"}, RemovedType{38, "IQ4_NL_8_8"},
};

}  // namespace

const GgmlTypeInfo* find_ggml_type(uint32_t id) {
  const auto at = std::ranges::find(kGgmlTypes, id, &GgmlTypeInfo::id);
  return at == kGgmlTypes.end() ? nullptr : &*at;
}

const GgmlTypeInfo* find_ggml_type(std::string_view name) {
  const auto at = std::ranges::find(kGgmlTypes, name, &GgmlTypeInfo::name);
  return at == kGgmlTypes.end() ? nullptr : &*at;
}

std::string ggml_type_text(uint32_t id) {
  const auto at = std::ranges::find(kRemovedTypes, id, &RemovedType::id);
  return at == kRemovedTypes.end() ? fmt::format("{}", id)
                                   : fmt::format("{} ({}, removed)", id, at->name);
}

}  // namespace plimsoll
