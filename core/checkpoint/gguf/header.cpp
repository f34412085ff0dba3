#include "checkpoint/gguf/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "checkpoint/json_events.h"

namespace plimsoll::checkpoint::gguf {
namespace {

constexpr size_t kMagicBytes = 4;
constexpr size_t kMostDimensions = 4;  // GGML_MAX_DIMS
constexpr size_t kLongestName = 63;    // GGML_MAX_NAME less its final zero
constexpr size_t kLongestKey = 65535;  // gguf-py's and the specification's limit
constexpr uint64_t kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

[[noreturn]] void refuse(const MappedFile& file, const std::string& why) {
  fail(ExitCode::checkpoint_unusable, "{}: {}", file.path().string(), why);
}

/// Reads the file from its start, and never beyond its end.
class Cursor {
 public:
  explicit Cursor(const MappedFile& file) : file_(file) {}

  [[nodiscard]] size_t at() const { return at_; }
  [[nodiscard]] uint64_t left() const { return file_.size() - at_; }
  [[nodiscard]] const std::byte* here() const { return file_.data() + at_; }
  /// Names the part of the file that is being read, for refusals.
  void enter(const char* part) { part_ = part; }

  template <typename T>
  T take() {
    T value{};
    const std::byte* const from = skip(sizeof value);
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  /// Passes over `count` bytes and returns the first.
  const std::byte* skip(uint64_t count) {
    if (count > left()) {
      refuse(file_, fmt::format("ends inside {} (byte {}); is the download complete?", part_,
                                file_.size()));
    }
    const std::byte* const from = here();
    at_ += count;
    return from;
  }
  /// Takes a string of at most `longest` bytes; `what` names it.
  std::string take_name(size_t longest, const char* what) {
    const auto length = take<uint64_t>();
    if (length > longest && length <= left()) {
      const std::string start(reinterpret_cast<const char*>(here()), longest);
      refuse(file_, fmt::format("{} \"{}\" of {} bytes (at most {} are allowed)", what,
                                shown_name(start), length, longest));
    }
    const std::byte* const from = skip(length);
    return {reinterpret_cast<const char*>(from), length};
  }

 private:
  const MappedFile& file_;
  size_t at_ = 0;
  const char* part_ = "the header";
};

class HeaderReader {
 public:
  explicit HeaderReader(const MappedFile& file) : file_(file), cursor_(file) {}

  Header read() {
    read_start();
    read_pairs();
    read_alignment();
    read_tensors();
    place_tensors();
    return std::move(header_);
  }

 private:
  void read_start() {
    cursor_.enter("the header");
    const std::byte* const magic = cursor_.skip(kMagicBytes);
    if (std::memcmp(magic, "GGUF", kMagicBytes) != 0) {
      refuse(file_, fmt::format("not a GGUF file (magic \"{}\")",
                                shown_name({reinterpret_cast<const char*>(magic), kMagicBytes})));
    }
    header_.version = cursor_.take<uint32_t>();
    if (header_.version != 2 && header_.version != 3) {
      const bool swapped = header_.version == 0x02000000u || header_.version == 0x03000000u;
      refuse(file_, swapped
                        ? fmt::format("a big-endian GGUF file (version {}) is not read; get the "
                                      "little-endian one",
                                      header_.version)
                        : fmt::format("GGUF version {} is not read (2 and 3 are); convert the "
                                      "model anew",
                                      header_.version));
    }
    tensors_ = cursor_.take<uint64_t>();
    pairs_ = cursor_.take<uint64_t>();
    const auto check = [&](uint64_t count, const char* what) {
      if (count <= cursor_.left()) return;  // each has more bytes than one
      refuse(file_, fmt::format("announces {} {}, more than the file's {} bytes could hold", count,
                                what, file_.size()));
    };
    check(tensors_, "tensors");
    check(pairs_, "metadata pairs");
  }

  void read_pairs() {
    cursor_.enter("the metadata");
    std::unordered_set<std::string> keys;
    for (uint64_t i = 0; i < pairs_; ++i) {
      Pair pair;
      pair.key = cursor_.take_name(kLongestKey, "a metadata key");
      if (pair.key.empty()) refuse(file_, fmt::format("metadata pair {} has an empty key", i));
      if (!keys.insert(pair.key).second) {
        refuse(file_, fmt::format("the metadata key {} stands twice", shown_name(pair.key)));
      }
      pair.value = read_value(pair.key);
      header_.pairs.push_back(std::move(pair));
    }
  }

  Value read_value(const std::string& key) {
    Value value;
    value.file = &file_;
    value.type = value.item = read_type(key);
    if (value.type == ValueType::array) {
      value.item = read_type(key);
      if (value.item == ValueType::array) {
        refuse(file_, shown_name(key) + ": an array of arrays, which GGUF does not have");
      }
      value.count = cursor_.take<uint64_t>();
      const uint64_t least = value.item == ValueType::string ? 8 : value_size(value.item);
      if (value.count > cursor_.left() / least) {
        refuse(file_,
               fmt::format("{}: an array of {} items, of which the file's {} bytes left "
                           "hold no more than {}",
                           shown_name(key), value.count, cursor_.left(), cursor_.left() / least));
      }
    }
    value.data = cursor_.here();
    const size_t first = cursor_.at();
    if (value.item == ValueType::string) {
      for (uint64_t i = 0; i < value.count; ++i) skip_string(key);
    } else {
      cursor_.skip(value.count * value_size(value.item));
    }
    value.bytes = cursor_.at() - first;
    return value;
  }

  ValueType read_type(const std::string& key) {
    const auto type = cursor_.take<uint32_t>();
    if (type > static_cast<uint32_t>(ValueType::f64)) {
      refuse(file_, fmt::format("{}: value type {} is none that GGUF has", shown_name(key), type));
    }
    return static_cast<ValueType>(type);
  }

  void skip_string(const std::string& key) {
    const auto length = cursor_.take<uint64_t>();
    // Whether the file was cut or the length is wrong cannot be told apart, so both are said.
    if (length > cursor_.left()) {
      refuse(file_, fmt::format("ends inside the metadata (byte {}): {} has a string of {} bytes",
                                file_.size(), shown_name(key), length));
    }
    cursor_.skip(length);
  }

  void read_alignment() {
    const Value* const stated = find_value(header_.pairs, "general.alignment");
    if (stated == nullptr) return;
    // Read without a guard of its own: the caller holds one.
    if (stated->type != ValueType::u32) {
      refuse(file_,
             fmt::format("general.alignment: a u32 is needed, {} found", stated->type_text()));
    }
    uint32_t alignment = 0;
    std::memcpy(&alignment, stated->data, sizeof alignment);
    if (!std::has_single_bit(alignment)) {
      refuse(file_, fmt::format("general.alignment {} is no power of two", alignment));
    }
    header_.alignment = alignment;
  }

  void read_tensors() {
    cursor_.enter("the tensor table");
    std::unordered_set<std::string> names;
    for (uint64_t i = 0; i < tensors_; ++i) {
      Tensor tensor;
      tensor.name = cursor_.take_name(kLongestName, "tensor name");
      tensor.file = &file_;
      if (!names.insert(tensor.name).second) {
        refuse(file_, fmt::format("tensor {} stands twice", shown_name(tensor.name)));
      }
      read_shape(tensor);
      read_type_of(tensor);
      tensor.offset = cursor_.take<uint64_t>();
      header_.tensors.push_back(std::move(tensor));
    }
  }

  void read_shape(Tensor& tensor) {
    const auto dimensions = cursor_.take<uint32_t>();
    if (dimensions == 0 || dimensions > kMostDimensions) {
      refuse_tensor(
          tensor, fmt::format("{} dimensions (1 to {} are possible)", dimensions, kMostDimensions));
    }
    std::string text;
    uint64_t product = 1;
    bool overflows = false;
    for (uint32_t d = 0; d < dimensions; ++d) {
      const auto size = cursor_.take<uint64_t>();
      text += fmt::format("{}{}", d == 0 ? "" : " x ", size);
      if (size == 0) refuse_tensor(tensor, "a dimension of 0");
      overflows = overflows || size > kLargest || product > kLargest / size;
      product = overflows ? 0 : product * size;
      tensor.ne.push_back(overflows ? 0 : static_cast<int64_t>(size));
    }
    if (overflows) refuse_tensor(tensor, text + " values overflow");
  }

  void read_type_of(Tensor& tensor) {
    const auto id = cursor_.take<uint32_t>();
    tensor.type = find_ggml_type(id);
    if (tensor.type == nullptr) {
      refuse_tensor(tensor, fmt::format("type {} is none that is known", ggml_type_text(id)));
    }
    const auto& type = *tensor.type;
    if (tensor.ne.front() % type.values != 0) {
      refuse_tensor(tensor, fmt::format("rows of {} values, {} has blocks of {}", tensor.ne.front(),
                                        type.name, type.values));
    }
    const auto blocks = static_cast<uint64_t>(tensor.elements() / type.values);
    if (blocks > kLargest / static_cast<uint64_t>(type.bytes)) {
      refuse_tensor(tensor, fmt::format("{} values overflow", tensor.elements()));
    }
    tensor.bytes = blocks * static_cast<uint64_t>(type.bytes);
  }

  /// Makes offsets count from the start of the file, and checks that each tensor lies in it by
  /// itself.
  void place_tensors() {
    const auto alignment = static_cast<uint64_t>(header_.alignment);
    header_.data_start = (cursor_.at() + alignment - 1) / alignment * alignment;
    for (Tensor& tensor : header_.tensors) {
      if (tensor.offset > kLargest - header_.data_start ||
          tensor.bytes > kLargest - header_.data_start - tensor.offset) {
        refuse_tensor(tensor, fmt::format("offset {} overflows", tensor.offset));
      }
      if (tensor.offset % alignment != 0) {
        refuse_tensor(tensor, fmt::format("offset {} is no multiple of {}", tensor.offset,
                                          header_.alignment));
      }
      tensor.offset += header_.data_start;
      if (tensor.offset >= file_.size()) {
        refuse_tensor(tensor, fmt::format("lies beyond the end of the file (byte {} of {}); is the "
                                          "download complete?",
                                          tensor.offset, file_.size()));
      }
      if (tensor.bytes > file_.size() - tensor.offset) {
        refuse_tensor(tensor, fmt::format("ends at byte {}, the file at {}; is the download "
                                          "complete?",
                                          tensor.offset + tensor.bytes, file_.size()));
      }
    }
    check_overlaps();
  }

  void check_overlaps() const {
    std::vector<const Tensor*> placed;
    for (const Tensor& tensor : header_.tensors) placed.push_back(&tensor);
    std::ranges::stable_sort(placed, {}, &Tensor::offset);
    for (size_t i = 1; i < placed.size(); ++i) {
      const Tensor &before = *placed[i - 1], &tensor = *placed[i];
      if (before.offset + before.bytes <= tensor.offset) continue;
      // The later one of the table is named, because files are written in the table's order.
      const bool in_order = &before < &tensor;
      refuse_tensor(in_order ? tensor : before,
                    "overlaps " + shown_name((in_order ? before : tensor).name));
    }
  }

  [[noreturn]] void refuse_tensor(const Tensor& tensor, const std::string& why) const {
    const bool verb = why.starts_with("overlaps") || why.starts_with("lies");
    refuse(file_, fmt::format("tensor {}{} {}", shown_name(tensor.name), verb ? "" : ":", why));
  }

  const MappedFile& file_;
  Cursor cursor_;
  Header header_;
  uint64_t tensors_ = 0, pairs_ = 0;
};

}  // namespace

std::string shown_name(std::string_view name) {
  return shown(name, Letters::ascii);
}

int64_t Tensor::elements() const {
  int64_t count = 1;
  for (const int64_t size : ne) count *= size;
  return count;
}

bool is_gguf(const MappedFile& file) {
  return file.head(kMagicBytes) == "GGUF";
}

Header read_header(const MappedFile& file) {
  const GuardedRead guard(file);
  Header header = HeaderReader(file).read();
  guard.finish();
  return header;
}

const Value* find_value(const std::vector<Pair>& pairs, std::string_view key) {
  const auto at = std::ranges::find(pairs, key, &Pair::key);
  return at == pairs.end() ? nullptr : &at->value;
}

}  // namespace plimsoll::checkpoint::gguf
