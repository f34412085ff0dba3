#include <stdexcept>

#include "base/config_view.h"
#include "base/error.h"
#include "batch/scratch.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/index.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "fuzz/targets.h"
#include "model/config.h"
#include "quantization/config.h"

namespace plimsoll::fuzz {

void safetensors(std::string_view bytes) {
  static const test::Scratch scratch;
  const std::string file = scratch.write("model.safetensors", std::string(bytes));
  try {
    const checkpoint::MappedFile mapped(file);
    const checkpoint::Header header = checkpoint::read_header(mapped);
    uint64_t at = 0;
    for (const checkpoint::HeaderEntry& entry : header.entries) {
      if (entry.begin != at || entry.end < entry.begin) throw std::logic_error("tensors that gape");
      at = entry.end;
    }
    if (header.data_start + at != bytes.size()) throw std::logic_error("bytes of no tensor");
  } catch (const Error&) {
  }
}

void gguf(std::string_view bytes) {
  static const test::Scratch scratch;
  const std::string file = scratch.write("model.gguf", std::string(bytes));
  try {
    const auto model = checkpoint::gguf::Model::open(file);
    for (const checkpoint::gguf::Tensor& tensor : model.tensors()) {
      if (tensor.offset > bytes.size() || tensor.bytes > bytes.size() - tensor.offset)
        throw std::logic_error("a tensor beyond the file");
    }
    for (const checkpoint::gguf::Pair& pair : model.pairs()) {
      (void)pair.value.number();
      (void)pair.value.text();
      (void)pair.value.integers();
      (void)pair.value.texts();
    }
  } catch (const Error&) {
  }
}

void index(std::string_view bytes) {
  static const test::Scratch scratch;
  try {
    const checkpoint::Index read =
        checkpoint::read_index(scratch.write("model.safetensors.index.json", std::string(bytes)));
    for (const std::string& name : read.files) {
      if (name.find('/') != std::string::npos || name == "..") throw std::logic_error("a way out");
    }
    for (const auto& [name, file] : read.tensors) {
      if (file >= read.files.size()) throw std::logic_error("a tensor without a file");
    }
  } catch (const Error&) {
  }
}

void config(std::string_view bytes) {
  try {
    const Json json = parse_json<Json>(bytes);
    try {
      (void)model::make_model_spec(json);
    } catch (const Error&) {
    }
    if (!json.is_object() || !json.contains("quantization_config")) return;
    (void)quantization::Quantization(
        ConfigView(json["quantization_config"], "quantization_config"));
  } catch (const Error&) {
  } catch (const JsonError&) {
  }
}

}  // namespace plimsoll::fuzz
