#include "checkpoint/gguf/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace plimsoll::checkpoint::gguf {

const Value* Keys::find(std::string_view key) const {
  return model_.find(prefix_ + std::string(key));
}

void Keys::refuse(std::string_view key, const std::string& what) const {
  fail(ExitCode::checkpoint_unusable, "{}: {}{}{}{}", model_.path().string(), shown_name(prefix_),
       key, what, cure_);
}

std::optional<int64_t> Keys::integer(std::string_view key) const {
  const Value* const value = find(key);
  if (value == nullptr) return std::nullopt;
  std::optional<int64_t> number = value->integer();
  if (const auto list = value->integers())
    number = list->empty() ? 0 : *std::ranges::max_element(*list);
  if (!number) refuse(key, fmt::format(": a number is needed, {} found", value->type_text()));
  if (*number < 0) refuse(key, fmt::format(" {}: a number from 0 is needed", *number));
  return number;
}

int64_t Keys::count(std::string_view key, int64_t most) const {
  const std::optional<int64_t> number = integer(key);
  if (!number) refuse(key, " is missing in the metadata");
  if (*number < 1 || *number > most)
    refuse(key, fmt::format(" {}: a number from 1 to {} is needed", *number, most));
  return *number;
}

std::optional<double> Keys::number(std::string_view key) const {
  const Value* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<double> number = value->number();
  if (!number) refuse(key, fmt::format(": a number is needed, {} found", value->type_text()));
  if (!std::isfinite(*number)) refuse(key, fmt::format(" is not a number ({})", *number));
  return number;
}

bool Keys::flag(std::string_view key, bool missing) const {
  const Value* const value = find(key);
  if (value == nullptr) return missing;
  const std::optional<int64_t> number = value->integer();
  if (!number) refuse(key, fmt::format(": a bool is needed, {} found", value->type_text()));
  return *number != 0;
}

std::string Keys::text(std::string_view key, std::string_view missing) const {
  const Value* const value = find(key);
  if (value == nullptr) return std::string(missing);
  std::optional<std::string> text = value->text();
  if (!text) refuse(key, fmt::format(": a string is needed, {} found", value->type_text()));
  return *std::move(text);
}

std::optional<std::vector<int64_t>> Keys::by_layer(std::string_view key, int64_t layers) const {
  const Value* const value = find(key);
  if (value == nullptr || !value->is_array()) return std::nullopt;
  std::optional<std::vector<int64_t>> numbers = value->integers();
  if (!numbers) refuse(key, fmt::format(": numbers are needed, {} found", value->type_text()));
  if (static_cast<int64_t>(numbers->size()) < layers)
    refuse(key, fmt::format(": {} numbers for {} layers", numbers->size(), layers));
  numbers->resize(static_cast<size_t>(layers));
  return numbers;
}

const Tensor* Keys::find_tensor(std::string_view name) const {
  const auto& tensors = model_.tensors();
  const auto at = std::ranges::find(tensors, name, &Tensor::name);
  return at == tensors.end() ? nullptr : &*at;
}

bool Keys::has_tensor(std::string_view name) const {
  return find_tensor(name) != nullptr;
}

std::optional<std::vector<float>> Keys::tensor(std::string_view name) const {
  const Tensor* const found = find_tensor(name);
  if (found == nullptr) return std::nullopt;
  if (found->type->type() != GgmlType::f32 || found->ne.size() != 1) {
    fail(ExitCode::checkpoint_unusable, "{}: tensor {}: one dimension of F32 is needed",
         found->file->path().string(), shown_name(found->name));
  }
  std::vector<float> values(static_cast<size_t>(found->ne.front()));
  const GuardedRead guard(*found->file);
  std::memcpy(values.data(), found->data(), values.size() * sizeof(float));
  guard.finish();
  return values;
}

}  // namespace plimsoll::checkpoint::gguf
