#include "reference/recipe.h"

#include <bit>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/float8.h"
#include "base/json.h"
#include "reference/drawn_numbers.h"

namespace plimsoll::testing {
namespace {

std::vector<float> values(const Json& tensor, uint64_t seed, size_t count) {
  const DrawnNumbers z(tensor.at("name").get<std::string>(), seed);
  const double mean = tensor.at("mean").get<double>();
  const double amplitude = tensor.at("amplitude").get<double>();
  std::vector<float> result(count);
  for (size_t i = 0; i < count; ++i) result[i] = z.value(i, mean, amplitude);
  return result;
}

// "i div 128", "(i * 5) mod 256 div 128": from left to right.
struct Formula {
  struct Step {
    char operation = 0;  // the first letter of its word, or the sign
    uint64_t number = 0;
  };
  std::vector<Step> steps;

  explicit Formula(const std::string& formula) {
    std::string text = formula;
    std::erase_if(text, [](char c) { return c == '(' || c == ')'; });
    std::istringstream words(text);
    std::string word;
    words >> word;
    if (word != "i") throw std::runtime_error("recipe: unknown formula " + formula);
    for (uint64_t number = 0; words >> word >> number;) {
      if (word != "*" && word != "mod" && word != "div" && word != "+")
        throw std::runtime_error("recipe: unknown formula " + formula);
      steps.push_back({word.front(), number});
    }
  }

  uint64_t operator()(uint64_t i) const {
    for (const auto& [operation, number] : steps) {
      switch (operation) {
        case '*':
          i *= number;
          break;
        case 'm':
          i %= number;
          break;
        case 'd':
          i /= number;
          break;
        default:
          i += number;
      }
    }
    return i;
  }
};

using Element = std::function<uint64_t(uint64_t)>;

// Element i of an entry with whole numbers, where z(k) is the number of step k + 1.
Element integers_of(const Json& tensor, const Element& z) {
  const auto number = [&](const char* key) { return tensor.at(key).get<uint64_t>(); };
  const auto list = [&](const char* key) { return tensor.at(key).get<std::vector<int64_t>>(); };
  if (tensor.contains("low")) {
    const uint64_t low = number("low"), range = number("high") - low + 1;
    if (!tensor.contains("field")) return [=](uint64_t i) { return low + z(i) % range; };
    return [=, bits = number("field")](uint64_t i) {
      uint64_t word = 0;
      for (uint64_t k = 0; k < 32 / bits; ++k) {
        word |= (low + z(i * 32 / bits + k) % range) << k * bits;
      }
      return word;
    };
  }
  if (tensor.contains("codes")) return [=](uint64_t i) { return z(i) % 127 + 128 * (z(i) >> 63); };
  if (tensor.contains("bits")) return z;
  if (tensor.contains("value")) {
    return [value = tensor.at("value").get<int64_t>()](uint64_t) {
      return static_cast<uint64_t>(value);
    };
  }
  if (tensor.contains("values")) {
    return [all = list("values")](uint64_t i) { return static_cast<uint64_t>(all.at(i)); };
  }
  if (tensor.contains("cycle")) {
    return [all = list("cycle")](uint64_t i) { return static_cast<uint64_t>(all[i % all.size()]); };
  }
  if (tensor.contains("text")) {
    return [text = tensor.at("text").get<std::string>()](uint64_t i) {
      return uint64_t{static_cast<uint8_t>(text.at(i))};
    };
  }
  return Formula(tensor.at("formula").get<std::string>());
}

// Bits of element i of an F32 entry that lists its numbers.
Element floats_of(const Json& tensor) {
  const Json& listed = tensor.at(tensor.contains("values") ? "values" : "value");
  const auto all = listed.is_array() ? listed.get<std::vector<float>>()
                                     : std::vector<float>{listed.get<float>()};
  return [all, one = !listed.is_array()](uint64_t i) {
    return uint64_t{std::bit_cast<uint32_t>(all.at(one ? 0 : i))};
  };
}

// Kinds of entry beside the formula with mean and amplitude.
std::vector<char> integers(const Json& tensor, uint64_t seed, size_t count, size_t size) {
  const Element z = DrawnNumbers(tensor.at("name").get<std::string>(), seed);
  const Element element = tensor.at("dtype") == "F32" ? floats_of(tensor) : integers_of(tensor, z);
  std::vector<char> bytes(count * size);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t value = element(i);
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
