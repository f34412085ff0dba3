#include "shard/parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "base/json.h"

namespace plimsoll::shard {
namespace {

// The crate's order: dtype descending, then name ascending as bytes.
bool comes_before(const ShardTensor* a, const ShardTensor* b) {
  return std::tie(b->dtype, a->name) < std::tie(a->dtype, b->name);
}

PartPlan finish(std::vector<const ShardTensor*> tensors) {
  PartPlan part{.tensors = std::move(tensors)};
  std::ranges::sort(part.tensors, comes_before);
  part.header = safetensors_header(part.tensors);
  for (const ShardTensor* tensor : part.tensors) part.data_bytes += tensor->bytes();
  return part;
}

}  // namespace

std::string safetensors_header(const std::vector<const ShardTensor*>& tensors) {
  std::string json = "{";
  int64_t offset = 0;
  for (const ShardTensor* tensor : tensors) {
    const int64_t end = offset + tensor->bytes();
    json +=
        fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                    offset == 0 ? "" : ",", Json(tensor->name).dump(),
                    safetensors_name(tensor->dtype), fmt::join(tensor->shape, ","), offset, end);
    offset = end;
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string header;
  for (size_t i = 0; i < 8; ++i) header += static_cast<char>((json.size() >> (8 * i)) & 0xff);
  return header + json;
}

std::vector<PartPlan> plan_parts(const Stage& stage, std::optional<int64_t> max_bytes) {
  std::vector<PartPlan> parts;
  std::vector<const ShardTensor*> collected;
  int64_t bytes = 0;
  for (const ShardTensor& tensor : stage) {
    if (max_bytes && bytes + tensor.bytes() > *max_bytes) {
      parts.push_back(finish(std::move(collected)));
      collected.clear();
      bytes = 0;
    }
    collected.push_back(&tensor);
    bytes += tensor.bytes();
  }
  if (!collected.empty()) parts.push_back(finish(std::move(collected)));
  return parts;
}

}  // namespace plimsoll::shard
