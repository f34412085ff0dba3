// The checkpoint that shards are made from, and a check that it does not change meanwhile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"
#include "shard/quantized/tensor_patterns.h"
#include "shard/release.h"

namespace plimsoll::shard {

class Source {
 public:
  /// Opens and checks a model folder, to be sharded for `release`. Throws
  /// Error(checkpoint_unusable).
  explicit Source(const std::filesystem::path& folder, const Release& release = kNewestRelease);
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  ~Source();

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const model::ModelSpec& spec() const { return *spec_; }
  [[nodiscard]] const checkpoint::Checkpoint& checkpoint() const { return *checkpoint_; }
  [[nodiscard]] const checkpoint::TensorEntry& tensor(const model::Part& part) const {
    return reader_->tensor(part);
  }
  [[nodiscard]] DType dtype() const;
  /// The method of a quantized checkpoint, whose weights stand in spec() in vLLM's load layout;
  /// empty: plain weights.
  [[nodiscard]] const std::string& quantization() const { return quantization_; }
  /// True when config.json ties the head to the token table and the checkpoint's head differs.
  [[nodiscard]] bool has_own_head() const { return own_head_; }
  /// Tensors of the checkpoint that no shard holds though answers hang on them (left_out.h).
  [[nodiscard]] std::vector<std::string> left_out() const;

  /// Identity of this checkpoint: names, sizes, times and header digests of its files.
  [[nodiscard]] Json identity() const;
  /// Throws Error(checkpoint_unusable) when a file is no longer what it was when it was opened.
  void check_unchanged() const;

  /// Tensors that a quantized checkpoint has beside those that the config implies ("present"), and
  /// single values that have the shape [1] ("listed"), by name or pattern.
  [[nodiscard]] Json quantized_tensors() const;

  /// Tensors of the checkpoint that vLLM's class has no place for: their names, or a pattern with
  /// the number of several.
  [[nodiscard]] std::vector<std::string> unplaced() const;

  /// Other spellings of tensor names that this checkpoint uses: leading `first` stands as `second`,
  /// the first of them that fits.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> spellings() const;

 private:
  struct File;
  void resolve_head(const Release& release);
  void quantize(const Json& config);
  [[nodiscard]] bool holds_codes(const model::WeightSpec& weight) const;
  void check_biases() const;

  std::filesystem::path folder_;
  std::string quantization_;
  bool own_head_ = false;
  std::unique_ptr<model::ModelSpec> spec_;
  std::unique_ptr<checkpoint::Checkpoint> checkpoint_;
  std::unique_ptr<checkpoint::WeightReader> reader_;
  std::vector<File> files_;
  TensorPatterns present_, listed_;
};

/// Names of top-level entries that vLLM's script copies: all but *.bin, *.pt and *.safetensors.
/// Sorted.
std::vector<std::string> side_files(const std::filesystem::path& folder);

/// True when vLLM's script leaves an entry of this name out: os.path.splitext's last suffix is
/// .bin, .pt or .safetensors.
bool is_weight_name(const std::string& name);

}  // namespace plimsoll::shard
