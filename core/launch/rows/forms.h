// What the values of flags are made of: how a text becomes a field of a request, and what the field
// is in a record. The rows of parameters (rows.h) are written in these words.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/units.h"
#include "launch/parameters.h"
#include "launch/values.h"

namespace plimsoll::launch {

using vllm::EngineArgs;

/// The field of a request: one of vLLM's arguments, or one of the request's own.
template <typename Field>
Field& field_of(LaunchRequest& request, Field EngineArgs::*field) {
  return request.args.*field;
}
template <typename Field>
Field& field_of(LaunchRequest& request, Field LaunchRequest::*field) {
  return request.*field;
}
template <typename Field>
const Field& field_of(const LaunchRequest& request, Field EngineArgs::*field) {
  return request.args.*field;
}
template <typename Field>
const Field& field_of(const LaunchRequest& request, Field LaunchRequest::*field) {
  return request.*field;
}

template <typename Number>
OrderedJson json_of(const Number& value) {
  return value;
}
template <typename Number>
OrderedJson json_of(const std::optional<Number>& value) {
  return value ? OrderedJson(*value) : OrderedJson();
}

template <typename Member>
Getter getter_of(Member member) {
  return [member](const LaunchRequest& request) { return json_of(field_of(request, member)); };
}

/// A field that `parse` reads from the text.
template <typename Member, typename Parse>
Value read(Member member, Parse parse) {
  return {Form::value,
          [member, parse = std::move(parse)](LaunchRequest& request, const std::string& text) {
            auto& field = field_of(request, member);
            field = static_cast<std::remove_reference_t<decltype(field)>>(parse(text));
          },
          getter_of(member)};
}

template <typename Member>
Value text(Member member) {
  return read(member, [](const std::string& text) { return text; });
}

template <typename Member>
Value count(Member member, CountBounds bounds = {}) {
  return read(member, [bounds](const std::string& text) { return parse_count(text, bounds); });
}

/// A size of memory; a bare number is bytes.
template <typename Member>
Value memory(Member member) {
  return read(member, [](const std::string& text) { return parse_memory(text); });
}

template <typename Member>
Value size(Member member, uint64_t bare_unit = 1, uint64_t least = 1) {
  return read(member, [=](const std::string& text) { return parse_size(text, bare_unit, least); });
}

template <typename Member>
Value on_off(Member member, Form form = Form::on_off) {
  return {form,
          [member](LaunchRequest& request, const std::string& text) {
            field_of(request, member) = text == "true";
          },
          getter_of(member)};
}

/// A value that a function of vLLM's arguments reads. `get`: what a record says of it; none:
/// nothing.
inline Value for_vllm(void (*set)(const std::string&, EngineArgs&), Getter get = nullptr) {
  return {Form::value,
          [set](LaunchRequest& request, const std::string& text) { set(text, request.args); },
          std::move(get)};
}

inline OrderedJson limits_json(const LaunchRequest& request) {
  OrderedJson limits = OrderedJson::object();
  for (const auto& [modality, limit] : request.args.limits) {
    limits[modality] = {limit.count, limit.width, limit.height, limit.frames};
  }
  return limits;
}

}  // namespace plimsoll::launch
