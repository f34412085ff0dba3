#include "checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "checkpoint/json_events.h"

namespace plimsoll::checkpoint {
namespace {

constexpr uint64_t kLargestHeader = 100'000'000;  // the reference reader's limit
constexpr size_t kMostDimensions = 16;

[[noreturn]] void refuse(const MappedFile& file, const std::string& why) {
  fail(ExitCode::checkpoint_unusable, "{}: {}", file.path().string(), why);
}

// {"NAME": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, "__metadata__": {...}}
class HeaderEvents : public JsonEvents {
 public:
  bool start_object(size_t) override {
    if (depth_ == 2 || list_ != List::none) return stop("an object where none belongs");
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (depth_ == 2 && !in_metadata_ && seen_ != kAllFields) {
      return stop("needs dtype, shape and data_offsets");
    }
    in_metadata_ = false;
    --depth_;
    return true;
  }
  bool key(std::string& name) override {
    if (depth_ == 1) {
      in_metadata_ = name == "__metadata__";
      seen_ = 0;
      field_ = 0;
      if (!in_metadata_) {
        entries.emplace_back();
        entries.back().name = std::move(name);
      }
      return true;
    }
    if (in_metadata_) return true;
    field_ = name == "dtype"          ? kDtype
             : name == "shape"        ? kShape
             : name == "data_offsets" ? kOffsets
                                      : 0u;
    if (field_ == 0) return stop(fmt::format("has an unknown field \"{}\"", name.substr(0, 40)));
    if ((seen_ & field_) != 0) return stop(fmt::format("has {} twice", name));
    seen_ |= field_;
    return true;
  }
  bool string(std::string& value) override {
    if (depth_ == 2 && in_metadata_) return true;
    if (depth_ != 2 || field_ != kDtype) return stop("a string where none belongs");
    const auto dtype = dtype_from_safetensors(value);
    if (!dtype) return stop(fmt::format("has an unknown dtype \"{}\"", value.substr(0, 40)));
    entries.back().dtype = *dtype;
    return true;
  }
  bool start_array(size_t) override {
    const bool expected = depth_ == 2 && !in_metadata_ && (field_ == kShape || field_ == kOffsets);
    if (!expected || list_ != List::none) return stop("a list where none belongs");
    list_ = field_ == kShape ? List::shape : List::offsets;
    offsets_ = 0;
    return true;
  }
  bool end_array() override {
    if (list_ == List::offsets && offsets_ != 2) return stop("needs two data_offsets");
    list_ = List::none;
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (list_ == List::none) return stop("a number where none belongs");
    HeaderEntry& entry = entries.back();
    if (list_ == List::offsets) {
      if (offsets_ == 2) return stop("needs two data_offsets");
      (offsets_++ == 0 ? entry.begin : entry.end) = value;
      return true;
    }
    if (entry.shape.size() == kMostDimensions) {
      return stop(fmt::format("has more than {} dimensions", kMostDimensions));
    }
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return stop("has a dimension beyond 2^63");
    }
    entry.shape.push_back(static_cast<int64_t>(value));
    return true;
  }

  /// The error that stopped the parse, with the tensor's name.
  [[nodiscard]] std::string described_problem() const {
    if (entries.empty() || depth_ != 2 || in_metadata_) return "header: " + problem();
    return fmt::format("tensor \"{}\": {}", shown(entries.back().name), problem());
  }

  std::vector<HeaderEntry> entries;

 private:
  enum class List : uint8_t { none, shape, offsets };
  static constexpr unsigned kDtype = 1, kShape = 2, kOffsets = 4, kAllFields = 7;

  int depth_ = 0;
  bool in_metadata_ = false;
  List list_ = List::none;
  int offsets_ = 0;
  unsigned field_ = 0;  // which is being read
  unsigned seen_ = 0;   // of this tensor
};

std::string header_text(const MappedFile& file) {
  const std::string start = file.head(64);
  if (start.starts_with("version https://git-lfs.github.com/spec/")) {
    refuse(file, "a Git LFS pointer, not the file itself; fetch it with `git lfs pull`");
  }
  if (start.starts_with("GGUF")) refuse(file, "a GGUF file; expected safetensors");
  if (start.starts_with("PK\x03\x04")) refuse(file, "a PyTorch pickle; expected safetensors");
  uint64_t length = 0;
  if (start.size() < sizeof length) {
    refuse(file, fmt::format("{} bytes are too few for a safetensors file", file.size()));
  }
  std::memcpy(&length, start.data(), sizeof length);
  if constexpr (std::endian::native == std::endian::big) length = __builtin_bswap64(length);
  if (length > kLargestHeader) {
    refuse(file, fmt::format("header length {} is above the format's limit of {} bytes", length,
                             kLargestHeader));
  }
  if (length > file.size() - sizeof length) {
    refuse(file, fmt::format("header length {} goes past the end of the file ({} bytes): the file "
                             "is cut off or no safetensors file",
                             length, file.size()));
  }
  if (length < 2) refuse(file, fmt::format("header length {} is too short", length));
  std::string text = file.head(sizeof length + length).substr(sizeof length);
  if (text.front() != '{') refuse(file, "header does not start with '{'");
  return text;
}

void check_bytes(const MappedFile& file, const HeaderEntry& entry) {
  if (entry.begin > entry.end) {
    refuse(file, fmt::format("tensor \"{}\": data_offsets [{}, {}] run backwards",
                             shown(entry.name), entry.begin, entry.end));
  }
  uint64_t bytes = dtype_size(entry.dtype);
  bool overflow = false;
  for (const int64_t dimension : entry.shape) {
    overflow |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(dimension), &bytes);
  }
  // A zero after an overflow still means an empty tensor, but no writer makes one: refuse.
  if (overflow || bytes != entry.end - entry.begin) {
    refuse(file,
           fmt::format("tensor \"{}\": {} {} takes {} bytes, data_offsets [{}, {}] give {}",
                       shown(entry.name), safetensors_name(entry.dtype), shape_text(entry.shape),
                       overflow ? "more than 2^64" : std::to_string(bytes), entry.begin, entry.end,
                       entry.end - entry.begin));
  }
}

// Ranges, sorted, must tile the data: that rules out overlaps, holes and trailing bytes at once.
void check_tiling(const MappedFile& file, const Header& header) {
  uint64_t at = 0;
  for (const HeaderEntry& entry : header.entries) {
    if (entry.begin != at) {
      refuse(file, fmt::format("tensor \"{}\" starts at byte {} of the data, {} the tensor before "
                               "it, which ends at {}",
                               shown(entry.name), entry.begin,
                               entry.begin < at ? "inside" : "with a gap after", at));
    }
    at = entry.end;
  }
  const uint64_t data = file.size() - header.data_start;
  if (at != data) {
    refuse(file, fmt::format("tensors take {} bytes, but {} bytes of data follow the header: the "
                             "file is {}",
                             at, data, at > data ? "cut off" : "longer than it should be"));
  }
}

void check_names(const MappedFile& file, const std::vector<HeaderEntry>& entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const HeaderEntry& entry : entries) names.push_back(entry.name);
  if (!std::ranges::is_sorted(names)) std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end())
    refuse(file, fmt::format("tensor \"{}\" is there twice", shown(*twice)));
}

}  // namespace

Header read_header(const MappedFile& file) {
  const std::string text = header_text(file);
  HeaderEvents events;
  events.entries.reserve(text.size() / 100);
  if (!events.parse(text)) refuse(file, events.described_problem());
  Header header{.data_start = sizeof(uint64_t) + text.size(), .entries = std::move(events.entries)};
  for (const HeaderEntry& entry : header.entries) check_bytes(file, entry);
  const auto order = [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  };
  if (!std::ranges::is_sorted(header.entries, order)) std::ranges::sort(header.entries, order);
  check_names(file, header.entries);
  check_tiling(file, header);
  return header;
}

}  // namespace plimsoll::checkpoint
