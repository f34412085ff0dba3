// A model in GGUF files: one file, or the parts of a split one.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/gguf/header.h"

namespace plimsoll::checkpoint::gguf {

/// Metadata and tensors of a model, over all of its files.
class Model {
 public:
  /// Opens a file, or all parts of the split model that it is a part of. Throws
  /// Error(checkpoint_unusable) naming the file, and the key or tensor with what was found, or the
  /// part that is missing.
  static Model open(const std::filesystem::path& file);

  /// Whole numbers of the metadata under a key behind the architecture's name; several: an array.
  struct Number {
    std::string key;
    std::vector<int64_t> values;
  };
  /// The header of a model that is no GGUF file yet: names, types and bytes of tensors, without
  /// their data. `source` is the file that it was made of, which messages name.
  static Model described(const std::filesystem::path& source, std::string architecture,
                         std::vector<Number> numbers, std::vector<Tensor> tensors);

  /// The files, the part with the metadata first.
  [[nodiscard]] const std::vector<std::unique_ptr<MappedFile>>& files() const { return files_; }
  [[nodiscard]] const std::filesystem::path& path() const { return files_.front()->path(); }
  /// Metadata of the first part, in the file's order.
  [[nodiscard]] const std::vector<Pair>& pairs() const { return pairs_; }
  [[nodiscard]] const Value* find(std::string_view key) const { return find_value(pairs_, key); }
  /// Tensors of all parts, in the order of parts and tables; no name twice.
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
  /// Value of "general.architecture".
  [[nodiscard]] const std::string& architecture() const { return architecture_; }
  /// Largest alignment that a part asks for, in bytes.
  [[nodiscard]] int64_t alignment() const { return alignment_; }

 private:
  void add(const std::filesystem::path& path, int64_t part, int64_t parts);

  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<Pair> pairs_;
  std::vector<Tensor> tensors_;
  std::vector<Number> numbers_;  // that values of `pairs_` read, where no file has them
  std::string architecture_;
  int64_t alignment_ = 0;
};

/// The dtype of values that a type's tensors are read as: its own, or float32 of packed types.
DType plain_dtype(const GgmlTypeInfo& type);

/// True when the path is a regular file that begins with GGUF's magic or ends in ".gguf".
bool is_gguf_path(const std::filesystem::path& path);

/// The one model in a folder: its file, or the first part of a split one. Nullopt: the folder has
/// no GGUF file. Projectors ("mmproj...") do not count. Throws Error(checkpoint_unusable), listing
/// the files, where there are several models.
std::optional<std::filesystem::path> find_in_folder(const std::filesystem::path& folder);

}  // namespace plimsoll::checkpoint::gguf
