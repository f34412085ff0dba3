#include "checkpoint/gguf/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace plimsoll::checkpoint::gguf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".gguf";

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  fail(ExitCode::checkpoint_unusable, "{}: {}", path.string(), why);
}

/// A file's name STEM-00002-of-00003.gguf.
struct PartName {
  std::string stem;
  int64_t number = 1;  // from 1
  int64_t count = 1;

  [[nodiscard]] std::string name_of(int64_t part) const {
    return fmt::format("{}-{:05}-of-{:05}{}", stem, part, count, kEnding);
  }
};

std::optional<PartName> parse_part_name(const std::string& name) {
  // "-00002-of-00003.gguf"
  constexpr size_t kDigits = 5;
  constexpr std::string_view kOf = "-of-";
  constexpr size_t kTail = 1 + kDigits + kOf.size() + kDigits + kEnding.size();
  if (name.size() < kTail || !name.ends_with(kEnding)) return std::nullopt;
  const std::string_view tail = std::string_view(name).substr(name.size() - kTail);
  if (tail.front() != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  const auto number = [&](size_t at) -> int64_t {
    int64_t value = 0;
    for (const char c : tail.substr(at, kDigits)) {
      if (c < '0' || c > '9') return 0;
      value = value * 10 + (c - '0');
    }
    return value;
  };
  PartName part{name.substr(0, name.size() - kTail), number(1), number(1 + kDigits + kOf.size())};
  if (part.number < 1 || part.count < part.number) return std::nullopt;
  return part;
}

/// A whole number of the file's metadata; nullopt where there is none.
std::optional<int64_t> number_of(const MappedFile& file, const std::vector<Pair>& pairs,
                                 const char* key) {
  const Value* const value = find_value(pairs, key);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = value->integer();
  if (number) return number;
  refuse(file.path(), fmt::format("{}: a number is needed, {} found", key, value->type_text()));
}

std::string architecture_of(const MappedFile& file, const std::vector<Pair>& pairs) {
  const Value* const value = find_value(pairs, "general.architecture");
  if (value == nullptr) refuse(file.path(), "general.architecture is missing in the metadata");
  const std::optional<std::string> text = value->text();
  if (text) return *text;
  refuse(file.path(),
         fmt::format("general.architecture: a string is needed, {} found", value->type_text()));
}

void check_unique(const std::vector<Tensor>& tensors) {
  std::unordered_map<std::string_view, const Tensor*> seen;
  for (const Tensor& tensor : tensors) {
    const auto [at, added] = seen.emplace(tensor.name, &tensor);
    if (added) continue;
    refuse(tensor.file->path(), fmt::format("tensor {} is also in {}", shown_name(tensor.name),
                                            at->second->file->path().string()));
  }
}

}  // namespace

void Model::add(const fs::path& path, int64_t part, int64_t parts) {
  files_.push_back(std::make_unique<MappedFile>(path));
  const MappedFile& file = *files_.back();
  Header header = gguf::read_header(file);
  const int64_t count = number_of(file, header.pairs, "split.count").value_or(0);
  if (parts > 1 || count > 1) {
    if (count != parts) {
      refuse(path, parts == 1 ? fmt::format("is a part of a model split into {} files; name it as "
                                            "gguf-split does: STEM-00001-of-{:05}.gguf",
                                            count, count)
                              : fmt::format("split.count {}, the name says {}", count, parts));
    }
    const int64_t number = number_of(file, header.pairs, "split.no").value_or(-1) + 1;
    if (number != part) {
      refuse(path,
             fmt::format("part {} says it is part {} (split.no {})", part, number, number - 1));
    }
  }
  alignment_ = std::max(alignment_, header.alignment);
  if (part == 1) pairs_ = std::move(header.pairs);
  std::ranges::move(header.tensors, std::back_inserter(tensors_));
}

Model Model::open(const fs::path& file) {
  const std::optional<PartName> named = parse_part_name(file.filename().string());
  const PartName parts = named.value_or(PartName{});
  Model model;
  for (int64_t part = 1; part <= parts.count; ++part) {
    const fs::path path = parts.count == 1 ? file : file.parent_path() / parts.name_of(part);
    std::error_code error;
    if (parts.count > 1 && !fs::exists(path, error)) {
      refuse(file, fmt::format("part {} of {}, {}, is missing; is the download complete?", part,
                               parts.count, path.string()));
    }
    model.add(path, part, parts.count);
  }
  check_unique(model.tensors_);
  const MappedFile& first = *model.files_.front();
  if (parts.count > 1) {
    const std::optional<int64_t> announced = number_of(first, model.pairs_, "split.tensors.count");
    if (announced && *announced != static_cast<int64_t>(model.tensors_.size())) {
      refuse(first.path(), fmt::format("split.tensors.count: {} tensors announced, {} found",
                                       *announced, model.tensors_.size()));
    }
  }
  model.architecture_ = architecture_of(first, model.pairs_);
  return model;
}

Model Model::described(const fs::path& source, std::string architecture,
                       std::vector<Number> numbers, std::vector<Tensor> tensors) {
  Model model;
  model.files_.push_back(std::make_unique<MappedFile>(source));
  model.architecture_ = std::move(architecture);
  model.alignment_ = Header().alignment;
  model.numbers_ = std::move(numbers);
  const MappedFile* const file = model.files_.front().get();
  for (const Number& number : model.numbers_) {
    const size_t count = number.values.size();
    model.pairs_.push_back({model.architecture_ + "." + number.key,
                            {.type = count == 1 ? ValueType::i64 : ValueType::array,
                             .item = ValueType::i64,
                             .count = count,
                             .data = reinterpret_cast<const std::byte*>(number.values.data()),
                             .bytes = count * sizeof(int64_t),
                             .file = file}});
  }
  model.tensors_ = std::move(tensors);
  for (Tensor& tensor : model.tensors_) tensor.file = file;
  return model;
}

DType plain_dtype(const GgmlTypeInfo& type) {
  switch (type.type()) {
    case GgmlType::f16:
      return DType::f16;
    case GgmlType::bf16:
      return DType::bf16;
    case GgmlType::f64:
      return DType::f64;
    default:
      return DType::f32;
  }
}

bool is_gguf_path(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  if (path.extension() == kEnding) return true;
  std::array<char, 4> magic{};
  std::ifstream(path, std::ios::binary).read(magic.data(), magic.size());
  return std::string_view(magic.data(), magic.size()) == "GGUF";
}

std::optional<fs::path> find_in_folder(const fs::path& folder) {
  std::error_code error;
  std::set<std::string> models;  // whole files and first parts
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.ends_with(kEnding) || name.starts_with(".") || name.starts_with("mmproj")) continue;
    const std::optional<PartName> part = parse_part_name(name);
    models.insert(part ? part->name_of(1) : name);
  }
  if (error) refuse(folder, error.message());
  if (models.empty()) return std::nullopt;
  if (models.size() == 1) return folder / *models.begin();
  constexpr size_t kListed = 20;
  std::vector<std::string> listed;
  for (const std::string& name : models)
    if (listed.size() < kListed) listed.push_back(shown_name(name));
  refuse(folder, fmt::format("holds {} GGUF models; name one of them: {}{}", models.size(),
                             fmt::join(listed, ", "), models.size() > kListed ? ", ..." : ""));
}

}  // namespace plimsoll::checkpoint::gguf
