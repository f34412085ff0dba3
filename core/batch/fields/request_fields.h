// The fields of a request: one table drives validation, defaults, the known names and the manual.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "batch/fields/field_value.h"
#include "engine/request.h"
#include "grammar/constraint.h"

namespace plimsoll::batch {

/// Whose schema a request follows; plain lines with a prompt count as completions.
enum class Endpoint : uint8_t { completions, chat };
/// How the line is wrapped, in and out.
enum class Envelope : uint8_t { plain, batch };

/// Parameters of a request besides its prompt, over the run's defaults.
struct RequestFields {
  engine::SamplingParams sampling;  // max_tokens, bad_words, logprobs, grammar are set later
  std::optional<int64_t> max_tokens;
  std::optional<int64_t> top_logprobs;
  std::vector<std::string> bad_words;
  std::optional<grammar::Constraint> constraint;                           // of the answer
  std::optional<int64_t> truncate_prompt_tokens;                           // -1: to the context
  enum class Side : uint8_t { left, right } truncation_side = Side::left;  // where tokens are cut
  std::optional<bool> add_special_tokens;
  bool echo = false;
  bool return_token_ids = false;
  OrderedJson mm_processor_kwargs = OrderedJson::object();  // over those of the launch
  // chat
  std::optional<std::string> chat_template;
  OrderedJson chat_template_kwargs = OrderedJson::object();
  std::optional<std::string> reasoning_effort;  // goes into chat_template_kwargs
  std::optional<bool> add_generation_prompt;
  bool continue_final_message = false;
  std::optional<OrderedJson> documents;
  std::optional<OrderedJson> tools;
  enum class ToolChoice : uint8_t { automatic, none, required, named };
  ToolChoice tool_choice = ToolChoice::automatic;
  std::string forced_tool;  // of ToolChoice::named
  bool parallel_tool_calls = true;
  std::optional<int64_t> thinking_token_budget;
  bool include_reasoning = true;
  std::string model;  // the name that the line gives; empty when it gives none

  /// True where the answer must be calls of tools.
  [[nodiscard]] bool forces_call() const {
    return tool_choice == ToolChoice::required || tool_choice == ToolChoice::named;
  }
};

/// Limits of the run that the checks of fields need.
struct FieldLimits {
  int64_t vocab_size = 0;
  int64_t max_logprobs = 20;  // -1: no limit
};

/// One field of a request. `set` checks the value (never null) and stores it.
struct Field {
  std::string_view name;
  enum Where : uint8_t { chat = 1, completions = 2, both = 3 } where;
  enum class Use : uint8_t {
    used,
    ignored,  // accepted, without effect here
    refused,  // would change the answer, and is not supported
  } use;
  std::string_view values;  // for the manual: "0 to 2"
  struct Context {
    Envelope envelope;
    const FieldLimits& limits;
  };
  void (*set)(const FieldValue& value, const Context& context, RequestFields& fields) = nullptr;
};

/// All fields, sorted by name. Prompts (prompt, messages, prompt_token_ids) and the form of answers
/// (structured_fields.h) are among them and have no `set`.
std::span<const Field> request_field_table();

/// Called for what a line has and nothing reads, such as "temprature" or "messages[].contents".
/// `reason` goes on after the name: "is no known field and has no effect; did you mean
/// temperature?"
using UnknownField = std::function<void(std::string_view name, std::string_view reason)>;

/// Reads every field of `body` over `defaults`. Throws LineError(bad_field).
RequestFields read_fields(const OrderedJson& body, Endpoint endpoint, Envelope envelope,
                          const RequestFields& defaults, const FieldLimits& limits,
                          const UnknownField& unknown);

}  // namespace plimsoll::batch
