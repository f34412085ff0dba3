#include "checkpoint/index.h"

#include <unordered_map>

#include "base/error.h"
#include "checkpoint/json_events.h"

namespace plimsoll::checkpoint {
namespace {

constexpr size_t kLargestIndex = size_t{256} << 20;
constexpr size_t kMostFiles = 10'000;
constexpr int kDeepest = 16;

bool is_plain_file_name(const std::string& name) {
  return name.ends_with(".safetensors") && !name.starts_with(".") && name.size() <= 255 &&
         name.find('/') == std::string::npos && name.find('\\') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// {"metadata": anything, "weight_map": {"TENSOR": "FILE", ...}}
class IndexEvents : public JsonEvents {
 public:
  bool start_object(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override {
    return depth_ == 0 || in_map_ ? JsonEvents::start_array(0) : open();
  }
  bool end_array() override { return close(); }
  bool null() override { return in_map_ ? JsonEvents::null() : true; }
  bool boolean(bool value) override { return in_map_ ? JsonEvents::boolean(value) : true; }
  bool number_integer(int64_t value) override {
    return in_map_ ? JsonEvents::number_integer(value) : true;
  }
  bool number_unsigned(uint64_t value) override {
    return in_map_ ? JsonEvents::number_unsigned(value) : true;
  }
  bool number_float(double value, const std::string& text) override {
    return in_map_ ? JsonEvents::number_float(value, text) : true;
  }
  bool key(std::string& name) override {
    if (depth_ == 1) {
      const bool is_map = name == "weight_map";
      if (is_map && seen_map) return stop("has weight_map twice");
      in_map_ = is_map;
      seen_map |= is_map;
    } else if (in_map_) {
      tensor_ = std::move(name);
    }
    return true;
  }
  bool string(std::string& file) override {
    if (!in_map_) return true;
    if (depth_ != 2) return stop("weight_map is no object");
    if (!is_plain_file_name(file)) {
      return stop(
          fmt::format("puts tensor \"{}\" in \"{}\"; expected the plain name of a "
                      ".safetensors file in the same folder",
                      shown(tensor_), shown(file)));
    }
    const auto [at, added] = numbers_.try_emplace(file, index.files.size());
    if (added && index.files.size() == kMostFiles) return stop("names too many files");
    if (added) index.files.push_back(std::move(file));
    index.tensors.emplace_back(std::move(tensor_), at->second);
    return true;
  }

  Index index;
  bool seen_map = false;

 private:
  bool open() {
    if (depth_ == kDeepest || (in_map_ && depth_ == 2)) return stop("is nested too deeply");
    ++depth_;
    return true;
  }
  bool close() {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }

  int depth_ = 0;
  bool in_map_ = false;
  std::string tensor_;
  std::unordered_map<std::string, size_t> numbers_;  // of files
};

}  // namespace

Index read_index(const std::filesystem::path& file) {
  const std::string text = read_text_file(file, kLargestIndex);
  IndexEvents events;
  const auto refuse = [&](const std::string& why) {
    fail(ExitCode::checkpoint_unusable, "{}: {}", file.string(), why);
  };
  if (!events.parse(text)) refuse(events.problem());
  if (!events.seen_map || events.index.files.empty()) refuse("has no weight_map with files");
  return std::move(events.index);
}

}  // namespace plimsoll::checkpoint
