#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/index.h"
#include "checkpoint/json_events.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors.h"

namespace plimsoll::checkpoint {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  fail(ExitCode::checkpoint_unusable, "{}: {}", path.string(), why);
}

std::vector<std::string> file_names(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error) refuse(folder, error.message());
  std::ranges::sort(names);
  return names;
}

// Says what a folder without safetensors holds instead.
[[noreturn]] void refuse_other_formats(const fs::path& folder,
                                       const std::vector<std::string>& names) {
  struct Format {
    std::string_view suffix;
    std::string_view what;
  };
  static constexpr std::string_view kConvert =
      "load it with transformers and call save_pretrained(FOLDER, safe_serialization=True)";
  static constexpr Format kFormats[] = {{".gguf", "a GGUF file"},      {".bin", "PyTorch pickles"},
                                        {".pt", "PyTorch pickles"},    {".pth", "PyTorch pickles"},
                                        {".h5", "TensorFlow weights"}, {".msgpack", "Flax weights"},
                                        {".onnx", "an ONNX graph"}};
  for (const Format& format : kFormats) {
    const auto found = std::ranges::find_if(
        names, [&](const std::string& name) { return name.ends_with(format.suffix); });
    if (found == names.end()) continue;
    const bool gguf = format.suffix == ".gguf";
    refuse(folder, fmt::format("holds {} ({}) and no safetensors; {}", format.what, shown(*found),
                               gguf ? "get the original model's safetensors" : kConvert));
  }
  refuse(folder, "holds no *.safetensors file; is the download complete?");
}

// The weight files of a folder without an index.
std::vector<std::string> weight_files(const fs::path& folder) {
  const std::vector<std::string> names = file_names(folder);
  if (std::ranges::binary_search(names, "model.safetensors")) return {"model.safetensors"};
  std::vector<std::string> files;
  std::string other;  // safetensors that are no model in Hugging Face's layout
  for (const std::string& name : names) {
    if (!name.ends_with(".safetensors") || name.starts_with(".")) continue;
    if (name.starts_with("consolidated") || name.starts_with("adapter_model")) {
      other = name;
    } else {
      files.push_back(name);
    }
  }
  if (!files.empty()) return files;
  if (other.starts_with("adapter")) {
    refuse(folder,
           "holds a LoRA adapter (" + other + "), not a model; merge it into its base first");
  }
  if (!other.empty()) {
    refuse(folder,
           "holds weights under Mistral's own names (" + shown(other) +
               ") alone; get the files that Hugging Face's layout names model*.safetensors");
  }
  refuse_other_formats(folder, names);
}

}  // namespace

struct Checkpoint::Impl {
  std::vector<std::unique_ptr<MappedFile>> files;
  std::map<std::string, TensorEntry> tensors;
  std::map<std::string, std::string> promised;  // file by tensor, of an index
  std::optional<gguf::Model> gguf;

  void open_gguf(const fs::path& path) {
    gguf.emplace(gguf::Model::open(path));
    for (const gguf::Tensor& from : gguf->tensors()) {
      TensorEntry tensor{.name = from.name,
                         .dtype = gguf::plain_dtype(*from.type),
                         .shape = {from.ne.rbegin(), from.ne.rend()},
                         .data = from.data(),
                         .bytes = from.bytes,
                         .file = from.file,
                         .blocks = from.type};
      while (tensor.shape.size() > 2) {
        tensor.shape[1] *= tensor.shape[0];
        tensor.shape.erase(tensor.shape.begin());
      }
      tensors.emplace(from.name, std::move(tensor));
    }
    for (const gguf::Pair& pair : gguf->pairs()) add_numbers(pair);
  }

  /// Numbers of Apertus' activation, a list of a number for each layer in the metadata, as tensors
  /// "KEY[LAYER]".
  void add_numbers(const gguf::Pair& pair) {
    constexpr uint64_t kMostLayers = 4096;
    const gguf::Value& value = pair.value;
    const bool floats = value.is_array() && value.item == gguf::ValueType::f32;
    if (!pair.key.starts_with("xielu.") || !floats || value.count > kMostLayers) return;
    for (uint64_t i = 0; i < value.count; ++i) {
      TensorEntry number{.name = fmt::format("{}[{}]", pair.key, i),
                         .dtype = DType::f32,
                         .shape = {1},
                         .data = value.data + i * sizeof(float),
                         .bytes = sizeof(float),
                         .file = value.file};
      tensors.emplace(number.name, std::move(number));
    }
  }

  void add(const fs::path& path) {
    files.push_back(std::make_unique<MappedFile>(path));
    const MappedFile& file = *files.back();
    Header header = read_header(file);
    std::ranges::sort(header.entries, {}, &HeaderEntry::name);
    for (HeaderEntry& entry : header.entries) {
      TensorEntry tensor{.name = entry.name,
                         .dtype = entry.dtype,
                         .shape = std::move(entry.shape),
                         .data = file.data() + header.data_start + entry.begin,
                         .bytes = entry.end - entry.begin,
                         .file = &file};
      const auto [at, added] = tensors.try_emplace(std::move(entry.name), std::move(tensor));
      if (added) continue;
      fail(ExitCode::checkpoint_unusable, "tensor \"{}\" is both in {} and in {}", shown(at->first),
           at->second.file->path().string(), path.string());
    }
  }
};

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Checkpoint Checkpoint::open(const fs::path& folder) {
  auto impl = std::make_unique<Impl>();
  if (gguf::is_gguf_path(folder)) {
    impl->open_gguf(folder);
    return Checkpoint(std::move(impl));
  }
  const fs::path index_file = folder / "model.safetensors.index.json";
  std::error_code error;
  if (!fs::exists(fs::symlink_status(index_file, error))) {
    for (const std::string& name : weight_files(folder)) impl->add(folder / name);
    return Checkpoint(std::move(impl));
  }
  const Index index = read_index(index_file);
  for (const std::string& name : index.files) {
    if (!fs::exists(fs::symlink_status(folder / name, error))) {
      refuse(folder, fmt::format("{} is missing, which {} names; is the download complete?",
                                 shown(name), index_file.filename().string()));
    }
    impl->add(folder / name);
  }
  for (const auto& [tensor, file] : index.tensors) {
    const auto at = impl->tensors.find(tensor);
    if (at == impl->tensors.end()) impl->promised.emplace(tensor, index.files[file]);
  }
  return Checkpoint(std::move(impl));
}

const TensorEntry* Checkpoint::find(const std::string& name) const {
  const auto at = impl_->tensors.find(name);
  return at == impl_->tensors.end() ? nullptr : &at->second;
}

const gguf::Model* Checkpoint::gguf() const {
  return impl_->gguf ? &*impl_->gguf : nullptr;
}

std::string Checkpoint::promised_file(const std::string& name) const {
  const auto at = impl_->promised.find(name);
  return at == impl_->promised.end() ? "" : at->second;
}

void Checkpoint::reshape(const std::string& name, const std::vector<int64_t>& shape) {
  impl_->tensors.at(name).shape = shape;
}

void Checkpoint::split(const model::StackedTensor& stack) {
  const int64_t count = stack.count;
  const auto found = impl_->tensors.extract(stack.tensor);
  TensorEntry one = found.mapped();
  one.bytes /= static_cast<size_t>(count);
  if (one.shape.front() == count) {
    one.shape.erase(one.shape.begin());
  } else {
    one.shape.front() /= count;
  }
  if (!stack.single_shape.empty()) one.shape = stack.single_shape;
  const std::string& name = stack.name.empty() ? stack.tensor : stack.name;
  for (int64_t i = 0; i < count; ++i) {
    one.name = fmt::format("{}[{}]{}", name, i, stack.ending);
    impl_->tensors.emplace(one.name, one);
    one.data += one.bytes;
  }
}

void Checkpoint::share(const std::string& name, const std::vector<std::string>& names) {
  TensorEntry one = impl_->tensors.extract(name).mapped();
  for (const std::string& other : names) {
    one.name = other;
    impl_->tensors.emplace(other, one);
  }
}

const std::map<std::string, TensorEntry>& Checkpoint::tensors() const {
  return impl_->tensors;
}

}  // namespace plimsoll::checkpoint
