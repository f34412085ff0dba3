#include "reference/gguf_bytes.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "base/dtype.h"
#include "base/ggml/types.h"
#include "reference/drawn_numbers.h"

namespace plimsoll::testing {
namespace {

template <typename T>
void put(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& to, const std::string& text) {
  put(to, static_cast<uint64_t>(text.size()));
  to += text;
}

struct TypeName {
  const char* name;
  uint32_t id;
};
constexpr TypeName kTypes[] = {{"u8", 0},     {"i8", 1},   {"u16", 2},  {"i16", 3},
                               {"u32", 4},    {"i32", 5},  {"f32", 6},  {"bool", 7},
                               {"string", 8}, {"u64", 10}, {"i64", 11}, {"f64", 12}};

uint32_t type_id(const std::string& name) {
  for (const TypeName& type : kTypes)
    if (name == type.name) return type.id;
  throw std::runtime_error("recipe: unknown type " + name);
}

void put_value(std::string& to, uint32_t type, const Json& value) {
  switch (type) {
    case 0:
      return put(to, value.get<uint8_t>());
    case 1:
      return put(to, value.get<int8_t>());
    case 2:
      return put(to, value.get<uint16_t>());
    case 3:
      return put(to, value.get<int16_t>());
    case 4:
      return put(to, value.get<uint32_t>());
    case 5:
      return put(to, value.get<int32_t>());
    case 6:
      return put(to, value.get<float>());
    case 7:
      return put(to, static_cast<uint8_t>(value.get<bool>() ? 1 : 0));
    case 8:
      return put_text(to, value.get<std::string>());
    case 10:
      return put(to, value.get<uint64_t>());
    case 11:
      return put(to, value.get<int64_t>());
    default:
      return put(to, value.get<double>());
  }
}

void put_pair(std::string& to, const Json& pair) {
  put_text(to, pair.at(0).get<std::string>());
  std::string type = pair.at(1).get<std::string>();
  const Json& value = pair.at(2);
  if (!type.starts_with("[")) {
    put(to, type_id(type));
    return put_value(to, type_id(type), value);
  }
  type = type.substr(1, type.size() - 2);
  put(to, uint32_t{9});
  put(to, type_id(type));
  put(to, static_cast<uint64_t>(value.size()));
  for (const Json& item : value) put_value(to, type_id(type), item);
}

/// Where a type's blocks keep the scale and the minimum in float16, in bytes; -1: nowhere. Rules
/// (2) and (3) of the recipes.
struct PackedRule {
  const char* type;
  int scale, minimum;
  double factor;  // of the minimum
  bool either_sign;
};
constexpr PackedRule kRules[] = {
    {"Q4_0", 0, -1, 0, true},     {"Q5_0", 0, -1, 0, true},    {"Q8_0", 0, -1, 0, true},
    {"Q3_K", 108, -1, 0, true},   {"Q6_K", 208, -1, 0, true},  {"IQ4_NL", 0, -1, 0, true},
    {"IQ4_XS", 0, -1, 0, true},   {"Q4_1", 0, 2, -7.5, false}, {"Q5_1", 0, 2, -15.5, false},
    {"Q2_K", 80, 82, 1.5, false}, {"Q4_K", 0, 2, 7.5, false},  {"Q5_K", 0, 2, 15.5, false}};

void put_half(std::string& bytes, size_t at, double value) {
  const uint16_t half = float_to_f16(static_cast<float>(value));
  std::memcpy(bytes.data() + at, &half, sizeof half);
}

std::string packed_bytes(const Json& tensor, uint64_t seed, const GgmlTypeInfo& type,
                         size_t blocks) {
  const auto size = static_cast<size_t>(type.bytes);
  const std::string name = tensor.at("name");
  const DrawnNumbers z(name, seed), w(name + "#scale", seed);
  std::string bytes(blocks * size + 8, '\0');
  for (size_t i = 0; i * 8 < blocks * size; ++i) {
    const uint64_t word = z(i);
    std::memcpy(bytes.data() + i * 8, &word, sizeof word);
  }
  bytes.resize(blocks * size);
  for (size_t b = 0; b < blocks; ++b) {
    const uint64_t drawn = w(b);
    if (tensor.contains("e")) {
      const auto e = tensor.at("e").get<uint64_t>();
      for (size_t k = 0; type.name == "NVFP4" && k < 4; ++k)
        bytes[b * size + k] = static_cast<char>(e + (drawn >> 8 * k & 15));
      if (type.name == "MXFP4") bytes[b * size] = static_cast<char>(e + (drawn >> 62));
      continue;
    }
    const auto d = tensor.at("d").get<double>();
    double scale = d * (0.5 + static_cast<double>(drawn >> 40) / 16777216.0);
    for (const PackedRule& rule : kRules) {
      if (type.name != rule.type) continue;
      if (rule.either_sign && drawn % 2 == 1) scale = -scale;
      put_half(bytes, b * size + static_cast<size_t>(rule.scale), scale);
      if (rule.minimum < 0) continue;
      const double part = static_cast<double>(drawn >> 16 & 0xffffff) / 16777216.0;
      put_half(bytes, b * size + static_cast<size_t>(rule.minimum), rule.factor * d * (0.5 + part));
    }
  }
  return bytes;
}

DType float_type(const std::string& name) {
  return name == "F32" ? DType::f32 : name == "F16" ? DType::f16 : DType::bf16;
}

/// Appends the numbers of a tensor of the checkpoint that a file was converted from: those at
/// `piece` = [name, sizes, strides, first], the last size running fastest, and perhaps a factor.
void append_piece(const Json& piece, const Json& recipe, std::vector<float>& values) {
  const std::string name = piece.at(0);
  const Json& source = recipe.at("sources").at(name);
  const DrawnNumbers z(name, recipe.at("seed").get<uint64_t>());
  const auto sizes = piece.at(1).get<std::vector<int64_t>>();
  const auto strides = piece.at(2).get<std::vector<int64_t>>();
  const auto mean = source.at("mean").get<double>(),
             amplitude = source.at("amplitude").get<double>();
  std::vector<int64_t> at = {piece.at(3).get<int64_t>()};  // of each number
  for (size_t k = 0; k < sizes.size(); ++k) {
    std::vector<int64_t> inner;
    inner.reserve(at.size() * static_cast<size_t>(sizes[k]));
    for (const int64_t first : at)
      for (int64_t i = 0; i < sizes[k]; ++i) inner.push_back(first + i * strides[k]);
    at = std::move(inner);
  }
  std::vector<float> drawn;
  drawn.reserve(at.size());
  for (const int64_t i : at) drawn.push_back(z.value(static_cast<uint64_t>(i), mean, amplitude));
  const DType stored = float_type(source.at("dtype"));
  std::string bytes(drawn.size() * dtype_size(stored), '\0');
  convert(drawn.data(), DType::f32, bytes.data(), stored, drawn.size());
  convert(bytes.data(), stored, drawn.data(), DType::f32, drawn.size());
  if (piece.size() > 4)
    for (float& value : drawn) value *= piece.at(4).get<float>();
  values.insert(values.end(), drawn.begin(), drawn.end());
}

/// Values of a tensor that has those of a converted checkpoint's ("of").
std::vector<float> converted_values(const Json& tensor, const Json& recipe) {
  std::vector<float> values;
  for (const Json& piece : tensor.at("of")) append_piece(piece, recipe, values);
  const auto add = tensor.value("add", 0.0F);
  const bool minus_exp = tensor.value("minus_exp", false);
  for (float& value : values) {
    value += add;
    if (minus_exp) value = -std::exp(value);
  }
  return values;
}

std::string tensor_bytes(const Json& tensor, const Json& recipe) {
  const auto seed = recipe.at("seed").get<uint64_t>();
  const GgmlTypeInfo& type = *find_ggml_type(tensor.at("type").get<std::string>());
  size_t count = 1;
  for (const Json& size : tensor.at("ne")) count *= size.get<size_t>();
  if (type.is_packed())
    return packed_bytes(tensor, seed, type, count / static_cast<size_t>(type.values));
  std::vector<float> values(count);
  if (tensor.contains("values")) {
    values = tensor.at("values").get<std::vector<float>>();
  } else if (tensor.contains("of")) {
    values = converted_values(tensor, recipe);
  } else {
    const DrawnNumbers z(tensor.at("name"), seed);
    for (size_t i = 0; i < count; ++i)
      values[i] = z.value(i, tensor.at("mean").get<double>(), tensor.at("amplitude").get<double>());
  }
  const DType dtype = float_type(std::string(type.name));
  std::string bytes(count * dtype_size(dtype), '\0');
  convert(values.data(), DType::f32, bytes.data(), dtype, count);
  return bytes;
}

constexpr size_t kAlignment = 32;

void pad(std::string& bytes) {
  bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment);
}

std::string header_bytes(const Json& pairs, const Json& tensors,
                         const std::vector<uint64_t>& offsets) {
  std::string bytes = "GGUF";
  put(bytes, uint32_t{3});
  put(bytes, static_cast<uint64_t>(tensors.size()));
  put(bytes, static_cast<uint64_t>(pairs.size()));
  for (const Json& pair : pairs) put_pair(bytes, pair);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Json& tensor = tensors[i];
    put_text(bytes, tensor.at("name"));
    put(bytes, static_cast<uint32_t>(tensor.at("ne").size()));
    for (const Json& size : tensor.at("ne")) put(bytes, size.get<uint64_t>());
    put(bytes, find_ggml_type(tensor.at("type").get<std::string>())->id);
    put(bytes, offsets[i]);
  }
  pad(bytes);
  return bytes;
}

/// Layers of "0-3,7".
std::set<int> layers_in(const std::string& ranges) {
  std::set<int> layers;
  std::istringstream parts(ranges);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t dash = part.find('-');
    const int first = std::stoi(part);
    const int last = dash == std::string::npos ? first : std::stoi(part.substr(dash + 1));
    for (int layer = first; layer <= last; ++layer) layers.insert(layer);
  }
  return layers;
}

/// Tensors of a recipe whose neighbors with "layers" stand layer by layer, within one as listed.
Json spread_over_layers(const Json& entries) {
  Json tensors = Json::array();
  for (size_t i = 0; i < entries.size();) {
    if (!entries[i].contains("layers")) {
      tensors.push_back(entries[i++]);
      continue;
    }
    std::map<int, Json> by_layer;
    for (; i < entries.size() && entries[i].contains("layers"); ++i) {
      for (const int layer : layers_in(entries[i].at("layers"))) {
        Json tensor = entries[i];
        std::string name = tensor.at("name");
        tensor["name"] = name.replace(name.find("{}"), 2, std::to_string(layer));
        by_layer[layer].push_back(std::move(tensor));
      }
    }
    for (const auto& [layer, all] : by_layer)
      for (const Json& tensor : all) tensors.push_back(tensor);
  }
  return tensors;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

}  // namespace

std::string gguf_bytes(const Json& recipe) {
  std::string contents;
  std::vector<uint64_t> offsets;
  for (const Json& tensor : recipe.at("tensors")) {
    offsets.push_back(contents.size());
    contents += tensor_bytes(tensor, recipe);
    pad(contents);
  }
  return header_bytes(recipe.at("kv"), recipe.at("tensors"), offsets) + contents;
}

void write_gguf_header(const Json& recipe, const std::filesystem::path& file) {
  const Json tensors = spread_over_layers(recipe.at("tensors"));
  std::vector<uint64_t> offsets;
  uint64_t size = 0;
  for (const Json& tensor : tensors) {
    offsets.push_back(size);
    const GgmlTypeInfo& type = *find_ggml_type(tensor.at("type").get<std::string>());
    uint64_t values = 1;
    for (const Json& length : tensor.at("ne")) values *= length.get<uint64_t>();
    const uint64_t bytes =
        values / static_cast<uint64_t>(type.values) * static_cast<uint64_t>(type.bytes);
    size += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  const std::string header = header_bytes(recipe.at("kv"), tensors, offsets);
  std::ofstream(file, std::ios::binary) << header;
  std::filesystem::resize_file(file, header.size() + size);
}

std::vector<std::pair<std::string, std::string>> hostile_gguf_files(const std::string& list) {
  std::vector<std::pair<std::string, std::string>> files;
  std::ifstream lines(list);
  std::string valid;
  for (std::string line; std::getline(lines, line);) {
    const Json row = parse_json(line);
    std::string bytes;
    if (row.contains("hex")) {
      bytes = valid = from_hex(row.at("hex"));
    } else {
      size_t at = 0;
      for (const Json& edit : row.at("edits")) {
        const auto first = edit.at(0).get<size_t>();
        bytes += valid.substr(at, first - at) + from_hex(edit.at(2));
        at = first + edit.at(1).get<size_t>();
      }
      bytes += valid.substr(at);
    }
    bytes.resize(row.at("size").get<size_t>());
    files.emplace_back(row.at("name"), bytes);
  }
  return files;
}

}  // namespace plimsoll::testing
