// Reads a line as the batch does, for tests of requests and their fields.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "batch/line_error.h"
#include "batch/request_line.h"

namespace plimsoll::testing {

struct Read {
  batch::LineHead head;
  batch::LineRequest request;
  std::string code, message, param;  // of the error, if any
  std::vector<std::string> unknown;  // "name: reason"
};

inline Read read(const std::string& text, batch::Envelope usual = batch::Envelope::plain,
                 const batch::RequestFields& defaults = {}) {
  Read result;
  batch::Line line;
  line.number = 3;
  line.text = text;
  const batch::FieldLimits limits{.vocab_size = 100, .max_logprobs = 20};
  const auto unknown = [&](std::string_view name, std::string_view reason) {
    result.unknown.push_back(std::string(name) + ": " + std::string(reason));
  };
  try {
    OrderedJson body = batch::read_envelope(line, usual, result.head);
    result.request = batch::read_request(result.head, std::move(body), defaults, limits, unknown);
  } catch (const batch::LineError& error) {
    result.code = error.code();
    result.message = error.what();
    result.param = error.param();
  }
  return result;
}

inline std::string batch_line(const std::string& body, const std::string& url = "/v1/completions") {
  return R"({"custom_id":"a","method":"POST","url":")" + url + R"(","body":)" + body + "}";
}

inline std::string with_field(const std::string& name, const std::string& value) {
  return "{\"prompt\":\"x\",\"" + name + "\":" + value + "}";
}

}  // namespace plimsoll::testing
