#include "batch/files/record.h"

#include "base/json.h"

namespace plimsoll::batch {
namespace {

// Apart from ids, which have the seed 0.
constexpr uint64_t kLineSeed = 1;

// A string, null, or absent: anything else is no id.
bool read_id(const Json& json, const char* key, Record& record) {
  const auto found = json.find(key);
  if (found == json.end()) return false;
  if (found->is_string()) record.id = found->get<std::string>();
  return found->is_string() || found->is_null();
}

bool read_error(const Json& error, Record& record) {
  if (!error.is_object() || !error.contains("code") || !error["code"].is_string()) return false;
  record.failed = true;
  record.code = error["code"].get<std::string>();
  const auto line = error.find("line");
  if (line != error.end() && line->is_number_unsigned()) record.line = line->get<uint64_t>();
  return true;
}

bool read_response(const Json& response, Record& record) {
  if (!response.is_object() || !response.contains("status_code")) return false;
  record.failed = response["status_code"] != 200;
  if (record.failed) record.code = "invalid_request";
  return true;
}

std::optional<Record> read_object(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  Record record;
  const bool batch = json.contains("custom_id");
  if (!read_id(json, batch ? "custom_id" : "id", record)) return std::nullopt;
  const auto error = json.find("error");
  if (error != json.end() && !error->is_null()) {
    if (!read_error(*error, record)) return std::nullopt;
  } else if (batch) {
    if (!read_response(json.value("response", Json()), record)) return std::nullopt;
  } else if (!json.contains("choices") && !json.contains("token_ids")) {
    return std::nullopt;
  }
  if (!record.id && !record.line) return std::nullopt;
  return record;
}

/// Goes over the members of a JSON object at its first level, without looking into their values.
class Members {
 public:
  explicit Members(std::string_view object) : rest_(object) { is_open_ = skip('{'); }

  /// The next key without its quotation marks, and its value as it stands; false at the end, and
  /// where the text is no such object.
  bool next(std::string_view& key, std::string_view& value) {
    if (!is_open_ || !take(key) || !skip(':') || !take(value) || key.size() < 2) return false;
    key = key.substr(1, key.size() - 2);
    is_open_ = skip(',');
    return true;
  }
  [[nodiscard]] bool is_whole() const { return rest_ == "}" && !is_open_; }

 private:
  bool skip(char wanted) {
    const bool is_there = rest_.starts_with(wanted);
    if (is_there) rest_.remove_prefix(1);
    return is_there;
  }

  // Takes a string, an array or an object up to its end, another value up to a comma or brace.
  bool take(std::string_view& value) {
    size_t depth = 0;
    for (size_t at = 0; at < rest_.size(); ++at) {
      const char c = rest_[at];
      if (c == '"') {
        at = end_of_string(at);
        if (at == std::string_view::npos) return false;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if ((c == '}' || c == ']') && depth > 0) {
        --depth;
      }
      const bool more = at + 1 < rest_.size();
      const bool ends =
          more && (rest_[at + 1] == ',' || rest_[at + 1] == '}' || rest_[at + 1] == ':');
      if (depth > 0 || !ends) continue;
      value = rest_.substr(0, at + 1);
      rest_.remove_prefix(at + 1);
      return true;
    }
    return false;
  }

  [[nodiscard]] size_t end_of_string(size_t begin) const {
    size_t end = begin;
    while ((end = rest_.find('"', end + 1)) != std::string_view::npos) {
      size_t escape = end;
      while (rest_[escape - 1] == '\\') --escape;
      if ((end - escape) % 2 == 0) break;
    }
    return end;
  }

  std::string_view rest_;
  bool is_open_ = false;
};

enum class Level : uint8_t { record, response };

// The members of a record that read_object() looks at, those within a response too; choices stand
// there as null.
std::optional<Json> outline_of(std::string_view object, Level level) {
  Json outline = Json::object();
  Members members(object);
  std::string_view key;
  std::string_view value;
  while (members.next(key, value)) {
    if (key == "id" || key == "custom_id" || key == "error" || key == "status_code") {
      const bool plain = value.starts_with('"') && value.find('\\') == std::string_view::npos;
      outline[std::string(key)] = plain             ? Json(value.substr(1, value.size() - 2))
                                  : value == "null" ? Json()
                                                    : parse_json<Json>(value);
    } else if (key == "choices" || key == "token_ids") {
      outline[std::string(key)] = nullptr;
    } else if (key == "response" && level == Level::record) {
      std::optional<Json> response = value == "null" ? Json() : outline_of(value, Level::response);
      if (!response) return std::nullopt;
      outline["response"] = std::move(*response);
    }
  }
  return members.is_whole() ? std::optional(std::move(outline)) : std::nullopt;
}

}  // namespace

std::optional<Record> read_record(std::string_view text) {
  try {
    return read_object(parse_json<Json>(text));
  } catch (const JsonError&) {
    return std::nullopt;
  }
}

std::optional<Record> read_own_record(std::string_view text) {
  try {
    const std::optional<Json> outline = outline_of(text, Level::record);
    return outline ? read_object(*outline) : std::nullopt;
  } catch (const JsonError&) {
    return std::nullopt;
  }
}

Digest key_of_line(uint64_t line) {
  return digest(std::to_string(line), kLineSeed);
}

Digest key_of_id(std::string_view id) {
  return digest(id);
}

Digest key_of(const Record& record) {
  return record.line ? key_of_line(*record.line) : key_of_id(*record.id);
}

}  // namespace plimsoll::batch
