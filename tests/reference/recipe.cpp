#include "reference/recipe.h"

#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/float8.h"
#include "base/json.h"

namespace plimsoll::testing {
namespace {

uint64_t fnv1a64(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

std::vector<float> values(const Json& tensor, uint64_t seed, size_t count) {
  const uint64_t start = fnv1a64(tensor.at("name").get<std::string>()) ^ seed;
  const double mean = tensor.at("mean").get<double>();
  const double amplitude = tensor.at("amplitude").get<double>();
  std::vector<float> result(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = mix(start + (i + 1) * 0x9E3779B97F4A7C15u) >> 40;
    result[i] =
        static_cast<float>(mean + amplitude * ((static_cast<double>(bits) + 0.5) / 8388608.0 - 1));
  }
  return result;
}

// "i div 128", "(i * 5) mod 256 div 128": from left to right.
uint64_t follow(const std::string& formula, uint64_t i) {
  std::string text = formula;
  std::erase_if(text, [](char c) { return c == '(' || c == ')'; });
  std::istringstream words(text);
  std::string word;
  uint64_t number = 0;
  words >> word;
  if (word != "i") throw std::runtime_error("recipe: unknown formula " + formula);
  while (words >> word >> number) {
    if (word == "*")
      i *= number;
    else if (word == "mod")
      i %= number;
    else if (word == "div")
      i /= number;
    else if (word == "+")
      i += number;
    else
      throw std::runtime_error("recipe: unknown formula " + formula);
  }
  return i;
}

// Element i of an entry, where z(k) is the number of step k + 1.
template <typename Z>
uint64_t integer(const Json& tensor, uint64_t i, const Z& z) {
  if (tensor.contains("field")) {
    const auto bits = tensor.at("field").get<uint64_t>();
    const auto low = tensor.at("low").get<uint64_t>();
    const uint64_t range = tensor.at("high").get<uint64_t>() - low + 1;
    uint64_t word = 0;
    for (uint64_t k = 0; k < 32 / bits; ++k) {
      word |= (low + z(i * 32 / bits + k) % range) << k * bits;
    }
    return word;
  }
  if (tensor.contains("low")) {
    const auto low = tensor.at("low").get<uint64_t>();
    return low + z(i) % (tensor.at("high").get<uint64_t>() - low + 1);
  }
  if (tensor.contains("codes")) return z(i) % 127 + 128 * (z(i) >> 63);
  if (tensor.contains("bits")) return z(i);
  if (tensor.contains("value")) return static_cast<uint64_t>(tensor.at("value").get<int64_t>());
  if (tensor.contains("values")) {
    return static_cast<uint64_t>(tensor.at("values").at(i).get<int64_t>());
  }
  if (tensor.contains("cycle")) {
    const Json& cycle = tensor.at("cycle");
    return static_cast<uint64_t>(cycle.at(i % cycle.size()).get<int64_t>());
  }
  if (tensor.contains("text")) {
    return static_cast<uint8_t>(tensor.at("text").get_ref<const std::string&>().at(i));
  }
  return follow(tensor.at("formula").get<std::string>(), i);
}

// Kinds of entry beside the formula with mean and amplitude.
std::vector<char> integers(const Json& tensor, uint64_t seed, size_t count, size_t size) {
  const uint64_t start = fnv1a64(tensor.at("name").get<std::string>()) ^ seed;
  const auto z = [start](uint64_t i) { return mix(start + (i + 1) * 0x9E3779B97F4A7C15u); };
  std::vector<char> bytes(count * size);
  for (size_t i = 0; i < count; ++i) {
    uint64_t value = 0;
    const bool numbers = tensor.at("dtype") == "F32";
    if (numbers) {
      const auto number = tensor.at(tensor.contains("values") ? "values" : "value");
      const auto element = number.is_array() ? number.at(i).get<float>() : number.get<float>();
      std::memcpy(&value, &element, sizeof element);
    } else {
      value = integer(tensor, i, z);
    }
    std::memcpy(bytes.data() + i * size, &value, size);  // little endian
  }
  return bytes;
}

struct Tensor {
  DType dtype;
  size_t elements;
  size_t bytes;
};

Tensor describe(const Json& entry) {
  const auto name = entry.at("dtype").get<std::string>();
  const auto dtype = dtype_from_safetensors(name);
  if (!dtype) throw std::runtime_error("recipe: unknown dtype " + name);
  size_t elements = 1;
  for (const Json& dimension : entry.at("shape")) elements *= dimension.get<size_t>();
  return {*dtype, elements, elements * dtype_size(*dtype)};
}

std::string header_of(const Json& tensors) {
  Json header = Json::object();
  size_t offset = 0;
  for (const Json& entry : tensors) {
    const Tensor tensor = describe(entry);
    header[entry.at("name").get<std::string>()] = {
        {"dtype", entry.at("dtype")},
        {"shape", entry.at("shape")},
        {"data_offsets", {offset, offset + tensor.bytes}}};
    offset += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

void write_checkpoint(const std::filesystem::path& recipe_folder,
                      const std::filesystem::path& out) {
  namespace fs = std::filesystem;
  fs::create_directories(out);
  for (const char* name : {"config.json", "generation_config.json", "preprocessor_config.json",
                           "hf_quant_config.json"}) {
    if (!fs::exists(recipe_folder / name)) continue;
    fs::copy_file(recipe_folder / name, out / name, fs::copy_options::overwrite_existing);
  }
  write_tensors(recipe_folder / "recipe.json", out / "model.safetensors");
}

void write_tensors(const std::filesystem::path& recipe_file, const std::filesystem::path& out) {
  const Json recipe = read_json_file(recipe_file);
  const auto seed = recipe.at("seed").get<uint64_t>();
  std::ofstream file(out, std::ios::binary | std::ios::trunc);
  const std::string header = header_of(recipe.at("tensors"));
  const uint64_t length = header.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const Json& entry : recipe.at("tensors")) {
    const Tensor tensor = describe(entry);
    if (!entry.contains("mean")) {
      const auto bytes = integers(entry, seed, tensor.elements, dtype_size(tensor.dtype));
      file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      continue;
    }
    const std::vector<float> from = values(entry, seed, tensor.elements);
    std::vector<char> bytes(tensor.bytes);
    if (tensor.dtype == DType::f8_e4m3) {
      for (size_t i = 0; i < from.size(); ++i) bytes[i] = static_cast<char>(float_to_e4m3(from[i]));
    } else {
      convert(from.data(), DType::f32, bytes.data(), tensor.dtype, tensor.elements);
    }
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + out.string());
}

}  // namespace plimsoll::testing
