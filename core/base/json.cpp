#include "base/json.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <set>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/long_strings.h"

namespace plimsoll {
namespace {

/// Strings that an outline left out of a text.
struct LeftOut {
  const std::vector<LongString>& strings;
  std::vector<std::string> contents;
};

// Builds a value from parser events, so that depth and duplicate keys are checked before anything
// is nested.
template <typename Value>
class Builder {
 public:
  Builder(Value& root, JsonLimits limits, LeftOut& left_out)
      : root_(root), limits_(limits), left_out_(left_out) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(int64_t value) { return put(value); }
  bool number_unsigned(uint64_t value) { return put(value); }
  bool number_float(double value, const std::string& text) {
    if (!limits_.number_texts && open_.size() < exact_from_) return put(value);
    return put(Value::binary({text.begin(), text.end()}));
  }
  bool string(std::string& value) {
    fill(value);
    return put(std::move(value));
  }
  bool binary(typename Value::binary_t&) { return false; }
  bool start_object(size_t) { return open(Value::object()); }
  bool start_array(size_t) { return open(Value::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    fill(name);
    Value& object = *open_.back();
    if (object.size() >= limits_.max_keys) return refuse("an object has too many keys");
    if (object.contains(name)) return refuse(fmt::format("duplicate key \"{}\"", name));
    if (open_.size() <= std::min<size_t>(exact_from_, 2)) {
      const bool exact =
          std::ranges::find(limits_.exact_fields, name) != limits_.exact_fields.end();
      exact_from_ = exact ? open_.size() : SIZE_MAX;
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& cause) {
    problem = cause.what();
    // Keep the reason alone: "[json.exception...] parse error at line 1, column 2: REASON; last
    // read: '...'".
    // Numbers out of range have no position: "[json.exception...] REASON".
    const size_t position_end = problem.find(": ");
    const size_t name_end = problem.find("] ");
    if (position_end != std::string::npos && problem.find("parse error at") == name_end + 2) {
      problem.erase(0, position_end + 2);
    } else if (problem.starts_with("[json.exception") && name_end != std::string::npos) {
      problem.erase(0, name_end + 2);
    }
    offset = position == 0 ? 0 : position - 1;
    return false;
  }

  std::string problem;
  size_t offset = std::string::npos;

 private:
  /// Fills in the text's next string where its contents were left out.
  void fill(std::string& value) {
    if (filled_ < left_out_.strings.size() && left_out_.strings[filled_].number == strings_) {
      value = std::move(left_out_.contents[filled_++]);
    }
    ++strings_;
  }
  template <typename T>
  bool put(T&& value) {
    place(Value(std::forward<T>(value)));
    return true;
  }
  bool open(Value container) {
    if (open_.size() >= limits_.max_depth) {
      return refuse(fmt::format("nested deeper than {} levels", limits_.max_depth));
    }
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  Value* place(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Value& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    Value& slot = parent[key_];
    slot = std::move(value);
    return &slot;
  }
  bool refuse(std::string why) {
    problem = std::move(why);
    return false;
  }

  Value& root_;
  JsonLimits limits_;
  LeftOut& left_out_;
  size_t strings_ = 0;  // met so far
  size_t filled_ = 0;
  std::vector<Value*> open_;
  std::string key_;
  size_t exact_from_ = SIZE_MAX;  // nesting from which numbers keep their texts
};

// An input iterator that knows how far the parser has read.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** furthest;

  reference operator*() const { return *at; }
  Cursor& operator++() {
    ++at;
    *furthest = at;
    return *this;
  }
  Cursor operator++(int) {
    Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return at == other.at; }
  bool operator!=(const Cursor& other) const { return at != other.at; }
};

constexpr std::string_view kNul = "a NUL character";
constexpr std::string_view kEnd = "unexpected end of input";  // nlohmann/json's words

/// `text`: of the outline.
template <typename Value>
Value parse(std::string_view text, JsonLimits limits, const Outline& outline, LeftOut& left_out) {
  Value root;
  Builder<Value> builder(root, limits, left_out);
  const char* furthest = text.data();
  const Cursor begin{text.data(), &furthest};
  const Cursor end{text.data() + text.size(), &furthest};
  const size_t null = text.find('\0');  // where the parser takes the text to end
  if (Value::sax_parse(begin, end, &builder)) {
    if (null == std::string_view::npos) return root;
    builder.problem = kNul;
    builder.offset = null;
  }
  if (null != std::string_view::npos && builder.problem.find(kEnd) != std::string::npos)
    builder.problem = kNul;
  const size_t read = static_cast<size_t>(furthest - text.data());
  const size_t offset = std::min(
      builder.offset == std::string::npos ? (read ? read - 1 : 0) : builder.offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const size_t line = 1 + static_cast<size_t>(std::ranges::count(before, '\n'));
  const size_t line_start =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  throw JsonError(builder.problem, line,
                  outline.place_of(offset) - outline.place_of(line_start) + 1);
}

}  // namespace

template <typename Value>
Value parse_json(std::string_view text, JsonLimits limits) {
  const Outline outline(text);
  LeftOut left_out{outline.strings(), {}};
  if (outline.strings().empty()) return parse<Value>(text, limits, outline, left_out);
  for (const LongString& string : outline.strings()) {
    left_out.contents.emplace_back(text.substr(string.at, string.length));
  }
  return parse<Value>(outline.text_of(text), limits, outline, left_out);
}

template <typename Value>
Value parse_json_from(std::string&& text, JsonLimits limits) {
  std::string spent = std::move(text);
  const Outline outline(spent);
  LeftOut left_out{outline.strings(), {}};
  if (outline.strings().empty()) return parse<Value>(spent, limits, outline, left_out);
  const auto longest = std::ranges::max_element(outline.strings(), {}, &LongString::length);
  for (const LongString& string : outline.strings()) {
    const bool takes_over = string.number == longest->number;
    left_out.contents.emplace_back(takes_over ? "" : spent.substr(string.at, string.length));
  }
  const std::string rest = outline.text_of(spent);
  spent.resize(longest->at + longest->length);
  spent.erase(0, longest->at);
  left_out.contents[static_cast<size_t>(longest - outline.strings().begin())] = std::move(spent);
  return parse<Value>(rest, limits, outline, left_out);
}

template Json parse_json_from<Json>(std::string&&, JsonLimits);
template OrderedJson parse_json_from<OrderedJson>(std::string&&, JsonLimits);
template Json parse_json<Json>(std::string_view, JsonLimits);
template OrderedJson parse_json<OrderedJson>(std::string_view, JsonLimits);

std::string exact_text_of(const OrderedJson& value) {
  if (value.is_binary()) return {value.get_binary().begin(), value.get_binary().end()};
  if (!value.is_structured()) return value.dump();
  std::string out(1, value.is_array() ? '[' : '{');
  for (const auto& [key, member] : value.items()) {
    if (out.size() > 1) out += ',';
    if (value.is_object()) out += OrderedJson(key).dump() + ':';
    out += exact_text_of(member);
  }
  return out + (value.is_array() ? ']' : '}');
}

OrderedJson rounded(OrderedJson value) {
  if (value.is_binary()) {
    const std::string text = exact_text_of(value);
    double number = 0;  // stays so where it is nearer to 0 than a double can be
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }
  if (value.is_structured()) {
    for (OrderedJson& member : value) member = rounded(std::move(member));
  }
  return value;
}

std::string read_text_file(const std::filesystem::path& file, size_t max_bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) {
    fail(ExitCode::checkpoint_unusable, "{}: {}", file.string(),
         error ? error.message() : "no such file");
  }
  if (!std::filesystem::is_regular_file(status)) {
    fail(ExitCode::checkpoint_unusable, "{}: not a regular file", file.string());
  }
  const auto size = std::filesystem::file_size(file, error);
  if (error) fail(ExitCode::checkpoint_unusable, "{}: {}", file.string(), error.message());
  if (size > max_bytes) {
    fail(ExitCode::checkpoint_unusable, "{}: {} bytes, more than the {} allowed here",
         file.string(), size, max_bytes);
  }
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  std::string text(size, '\0');
  if (!stream || !stream.read(text.data(), static_cast<std::streamsize>(size))) {
    fail(ExitCode::checkpoint_unusable, "{}: cannot be read: {}", file.string(),
         errno == 0 ? "it became shorter meanwhile" : std::generic_category().message(errno));
  }
  if (text.starts_with("version https://git-lfs")) {
    fail(ExitCode::checkpoint_unusable,
         "{}: a Git LFS pointer, not the file itself; fetch it with `git lfs pull`", file.string());
  }
  return text;
}

Json parse_file_text(const std::filesystem::path& file, std::string_view text, JsonLimits limits) {
  try {
    return parse_json<Json>(text, limits);
  } catch (const JsonError& error) {
    fail(ExitCode::checkpoint_unusable, "{}, line {}, column {}: {}", file.string(), error.line,
         error.column, error.what());
  }
}

Json read_json_file(const std::filesystem::path& file, size_t max_bytes, JsonLimits limits) {
  return parse_file_text(file, read_text_file(file, max_bytes), limits);
}

}  // namespace plimsoll
