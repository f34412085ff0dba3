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

}  // namespace

std::optional<Record> read_record(std::string_view text) {
  Json json;
  try {
    json = parse_json<Json>(text);
  } catch (const JsonError&) {
    return std::nullopt;
  }
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
