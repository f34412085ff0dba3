// Checkpoints on disk: where they are, what tensors they hold, and weights put together from those
// tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/ggml/types.h"
#include "model/model_spec.h"

namespace plimsoll::checkpoint {

class MappedFile;
namespace gguf {
class Model;
}

/// One tensor of a safetensors file, in the memory map.
struct TensorEntry {
  std::string name;
  DType dtype{};
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;  // unaligned; read it under a GuardedRead of `file`
  size_t bytes = 0;
  const MappedFile* file = nullptr;  // lives as long as the Checkpoint
  /// Type of a GGUF file's tensor, else null. `dtype` is then the type that plain reads give: its
  /// own, or float32 of packed types.
  const GgmlTypeInfo* blocks = nullptr;

  [[nodiscard]] bool is_packed() const { return blocks != nullptr && blocks->is_packed(); }
};

/// All tensors of a model folder or of a GGUF model, memory-mapped and validated as hostile input.
class Checkpoint {
 public:
  /// model.safetensors.index.json with its files, or model.safetensors (or the only *.safetensors).
  /// A GGUF file: its tensors under their own names, shapes in the order of PyTorch, of two
  /// dimensions at most ([experts * outputs, inputs]). Throws Error(checkpoint_unusable) naming
  /// file, tensor and cure; recognises LFS pointers, .bin/.pt-only.
  static Checkpoint open(const std::filesystem::path& folder_or_file);
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  [[nodiscard]] const TensorEntry* find(const std::string& name) const;
  [[nodiscard]] const std::map<std::string, TensorEntry>& tensors() const;
  /// The GGUF model that this is; null: it is none.
  [[nodiscard]] const gguf::Model* gguf() const;
  /// The file that the index names for a tensor that no file holds; empty: it names none.
  [[nodiscard]] std::string promised_file(const std::string& name) const;
  /// Gives an existing tensor another shape of as many elements.
  void reshape(const std::string& name, const std::vector<int64_t>& shape);
  /// Splits an existing tensor into the tensors that it holds one after the other. Their shape is
  /// [rest] where the tensor's first size is their count, else [first size / count, rest], if the
  /// stack does not say. The count divides the first size.
  void split(const model::StackedTensor& stack);
  /// Replaces an existing tensor by one of each of `names`.
  void share(const std::string& name, const std::vector<std::string>& names);

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The one dtype of all floating tensors among these, else float32 (as vLLM decides).
DType common_dtype(const std::vector<DType>& stored);

/// The model's dtype: what its config states, else the common one of all its tensors.
DType model_dtype(const Checkpoint& checkpoint, const model::ModelSpec& spec);

/// A rectangle of a tensor, seen as [rows, columns] in the engine's orientation, or of a weight,
/// whose matrices are stacked.
struct Block {
  int64_t row = 0, rows = 0;
  int64_t column = 0, columns = 0;
};

/// The source of the engine's weights.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// Rows [first, first + count) of the weight, over all its matrices stacked ([matrices * rows,
  /// columns]), converted to `dtype`, row-major without gaps. Thread-safe.
  virtual void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                         void* to) const = 0;
  /// Reads a block of a weight, columns too, to `to` [block.rows, block.columns], converted. By
  /// default whole rows are read and cut.
  virtual void read_block(const model::WeightSpec& weight, const Block& block, DType dtype,
                          void* to) const;
  /// Opens a block of a part of a weight that is kept quantized (Part::packing), rows counted from
  /// the part's first. The source must outlive it. By default plain rows are read, and quantized
  /// where the packing asks for that.
  [[nodiscard]] virtual std::unique_ptr<model::PackedRows> packed(const model::WeightSpec& weight,
                                                                  size_t part,
                                                                  const Block& block) const;
  /// Bytes in the files that these rows (or this part) are read from; 0: not known.
  [[nodiscard]] virtual uint64_t stored_bytes(const model::WeightSpec&, int64_t /*first*/,
                                              int64_t /*count*/) const {
    return 0;
  }
  [[nodiscard]] virtual uint64_t stored_bytes(const model::WeightSpec&, size_t /*part*/) const {
    return 0;
  }
};

/// Whether a launch computes with the towers (ModelSpec::towers).
enum class Towers { wanted, unwanted };

/// Throws Error(checkpoint_unusable) where a tensor that the spec needs is missing, or has another
/// shape or type than the spec says. Tensors of towers that are not wanted are not needed.
void check_present(const Checkpoint& checkpoint, const model::ModelSpec& spec, Towers towers);

/// Puts weights together from checkpoint tensors as the weight table says.
class WeightReader final : public WeightSource {
 public:
  /// Checks every part of every weight against the checkpoint (presence, shape, convertible dtype)
  /// and that no tensor is left over unknown; throws Error(checkpoint_unusable) naming the tensor
  /// with its expected and its actual form. Tensors of towers that are not wanted may be there or
  /// not. Both must outlive the reader.
  WeightReader(const Checkpoint& checkpoint, const model::ModelSpec& spec,
               Towers towers = Towers::wanted);

  void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                 void* to) const override {
    read_block(weight, {first, count, 0, weight.columns()}, dtype, to);
  }
  void read_block(const model::WeightSpec& weight, const Block& block, DType dtype,
                  void* to) const override;
  [[nodiscard]] std::unique_ptr<model::PackedRows> packed(const model::WeightSpec& weight,
                                                          size_t part,
                                                          const Block& block) const override;
  [[nodiscard]] uint64_t stored_bytes(const model::WeightSpec& weight, int64_t first,
                                      int64_t count) const override;
  [[nodiscard]] uint64_t stored_bytes(const model::WeightSpec& weight, size_t part) const override;

  /// Throws Error(checkpoint_unusable) where a bias that the model has no place for holds more than
  /// zeros. vLLM and `shard` leave such biases out, but answers would not be the checkpoint's.
  void require_zero_biases() const;

  /// The tensor that a part of the weight table is stored in, whatever its spelling.
  [[nodiscard]] const TensorEntry& tensor(const model::Part& part) const;

 private:
  const Checkpoint* checkpoint_;
  const model::ModelSpec* spec_;
  std::vector<const TensorEntry*> left_out_;  // biases without a place
};

}  // namespace plimsoll::checkpoint
