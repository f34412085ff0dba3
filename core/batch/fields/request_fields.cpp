#include "batch/fields/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/nearest_name.h"
#include "batch/fields/sampling_fields.h"
#include "batch/fields/structured_fields.h"
#include "batch/fields/tool_fields.h"
#include "batch/line_error.h"

namespace plimsoll::batch {
namespace {

constexpr int64_t kMostChoices = 16384;

void check_objects(const FieldValue& value) {
  for (const OrderedJson& entry : value.array()) {
    if (!entry.is_object()) value.refuse("an array of objects");
  }
}

// Abbreviations of the table's setters.
using V = const FieldValue&;
using C = const Field::Context&;
using F = RequestFields&;
using Use = Field::Use;

constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium",
                                         "high", "xhigh",   "max"};
constexpr std::string_view kSides[] = {"left", "right"};

// Fields that are checked and have no effect.
void take_number(V v, C, F) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  (void)v.number(-kAny, kAny);
}
void take_boolean(V v, C, F) {
  (void)v.boolean();
}
void take_string(V v, C, F) {
  (void)v.string();
}
void take_object(V v, C, F) {
  (void)v.object();
}

// Accepts only false: the feature that true asks for is not supported.
void take_false(V v, C, F) {
  if (v.boolean()) v.refuse("false: it is not supported");
}

void refuse_max_tokens(V v) {
  v.refuse("a whole number of at least 1 (left out, the answer may be as long as the context)");
}

void set_max_tokens(V v, C, F f) {
  const int64_t most = v.integer(FieldValue::kLeast);
  if (most < 0) refuse_max_tokens(v);
  f.max_tokens = most;
}

constexpr Field kFields[] = {
    {"add_generation_prompt", Field::chat, Use::used, "true or false; default true",
     [](V v, C, F f) { f.add_generation_prompt = v.boolean(); }},
    {"add_special_tokens", Field::both, Use::used, "true or false; default true, chat false",
     [](V v, C, F f) { f.add_special_tokens = v.boolean(); }},
    {"allowed_token_ids", Field::both, Use::used, "token ids",
     [](V v, C c, F f) {
       f.sampling.allowed_token_ids = v.token_ids(c.limits.vocab_size);
       if (f.sampling.allowed_token_ids.empty()) v.refuse("at least one token id");
     }},
    {"bad_words", Field::both, Use::used, "strings",
     [](V v, C, F f) { f.bad_words = v.strings(); }},
    {"best_of", Field::completions, Use::ignored, "1", [](V v, C, F) { (void)v.integer(1, 1); }},
    {"cache_salt", Field::both, Use::ignored, "string", take_string},
    {"chat_template", Field::chat, Use::used,
     "Jinja source, or the name of a template of the model",
     [](V v, C, F f) { f.chat_template = v.string(); }},
    {"chat_template_kwargs", Field::chat, Use::used, "object",
     [](V v, C, F f) {
       for (const auto& [key, entry] : v.object().items()) f.chat_template_kwargs[key] = entry;
     }},
    {"continue_final_message", Field::chat, Use::used, "true or false",
     [](V v, C, F f) { f.continue_final_message = v.boolean(); }},
    {"documents", Field::chat, Use::used, "array of objects",
     [](V v, C, F f) {
       check_objects(v);
       f.documents = v.json();
     }},
    {"ec_transfer_params", Field::both, Use::ignored, "object", take_object},
    {"echo", Field::both, Use::used, "true or false", [](V v, C, F f) { f.echo = v.boolean(); }},
    {"frequency_penalty", Field::both, Use::used, "-2 to 2",
     [](V v, C, F f) { f.sampling.frequency_penalty = v.number(-2, 2); }},
    {"function_call", Field::chat, Use::refused, "", nullptr},
    {"functions", Field::chat, Use::refused, "", nullptr},
    {"guided_choice", Field::both, Use::used, "strings", nullptr},
    {"guided_decoding_backend", Field::both, Use::ignored, "string", take_string},
    {"guided_grammar", Field::both, Use::used, "grammar in EBNF", nullptr},
    {"guided_json", Field::both, Use::used, "JSON schema, or one as a string", nullptr},
    {"guided_regex", Field::both, Use::used, "regular expression", nullptr},
    {"guided_whitespace_pattern", Field::both, Use::used, "regular expression; needs guided_json",
     nullptr},
    {"ignore_eos", Field::both, Use::used, "true or false",
     [](V v, C, F f) { f.sampling.ignore_eos = v.boolean(); }},
    {"include_reasoning", Field::chat, Use::used, "true or false; default true",
     [](V v, C, F f) { f.include_reasoning = v.boolean(); }},
    {"include_stop_str_in_output", Field::both, Use::used, "true or false",
     [](V v, C, F f) { f.sampling.include_stop_str_in_output = v.boolean(); }},
    {"kv_transfer_params", Field::both, Use::ignored, "object", take_object},
    {"length_penalty", Field::both, Use::ignored, "number", take_number},
    {"logit_bias", Field::both, Use::used, "object: token id to -100 to 100", set_logit_bias},
    {"logits_processors", Field::both, Use::refused, "", nullptr},
    {"logprob_token_ids", Field::both, Use::refused, "", nullptr},
    {"logprobs", Field::chat, Use::used, "true or false", set_chat_logprobs},
    {"logprobs", Field::completions, Use::used, "0 to --max-logprobs", set_completion_logprobs},
    {"max_completion_tokens", Field::both, Use::used, "1 or more; goes before max_tokens",
     set_max_tokens},
    {"max_tokens", Field::both, Use::used, "1 or more; 0 with echo", set_max_tokens},
    {"media_io_kwargs", Field::chat, Use::refused, "", nullptr},
    {"messages", Field::chat, Use::used, "array of {role, content}", nullptr},
    {"metadata", Field::both, Use::ignored, "object", take_object},
    {"min_p", Field::both, Use::used, "0 to 1",
     [](V v, C, F f) { f.sampling.min_p = v.number(0, 1); }},
    {"min_tokens", Field::both, Use::used, "0 to max_tokens",
     [](V v, C, F f) { f.sampling.min_tokens = v.integer(0); }},
    {"mm_payload", Field::both, Use::ignored, "string", take_string},
    {"mm_processor_kwargs", Field::both, Use::used, "object: settings of the image processor",
     [](V v, C, F f) { f.mm_processor_kwargs = v.object(); }},
    {"model", Field::both, Use::ignored, "string", [](V v, C, F f) { f.model = v.string(); }},
    {"multi_modal_data", Field::completions, Use::used,
     "{\"image\": file or files, \"video\": files of its frames}", nullptr},
    {"n", Field::both, Use::used, "1 to 16384",
     [](V v, C, F f) { f.sampling.n = v.integer(1, kMostChoices); }},
    {"parallel_tool_calls", Field::chat, Use::used, "true or false; default true",
     [](V v, C, F f) { f.parallel_tool_calls = v.boolean(); }},
    {"presence_penalty", Field::both, Use::used, "-2 to 2",
     [](V v, C, F f) { f.sampling.presence_penalty = v.number(-2, 2); }},
    {"priority", Field::both, Use::ignored, "whole number",
     [](V v, C, F) { (void)v.integer(FieldValue::kLeast); }},
    {"prompt", Field::completions, Use::used, "string, token ids, or an array of either", nullptr},
    {"prompt_embeds", Field::completions, Use::refused, "", nullptr},
    {"prompt_logprobs", Field::both, Use::used, "0 to --max-logprobs",
     [](V v, C c, F f) { f.sampling.prompt_logprobs = checked_logprobs(v, c); }},
    {"prompt_token_ids", Field::completions, Use::used, "token ids", nullptr},
    {"reasoning_effort", Field::chat, Use::used,
     "\"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\" or \"max\"",
     [](V v, C, F f) { f.reasoning_effort = v.choice(kEfforts); }},
    {"repetition_detection", Field::both, Use::refused, "", nullptr},
    {"repetition_penalty", Field::both, Use::used, "0.000001 to 1000000",
     set_repetition_penalty},
    {"request_id", Field::both, Use::ignored, "string", take_string},
    {"response_format", Field::both, Use::used,
     "{\"type\": \"json_schema\", \"json_schema\": {...}}, or type \"json_object\" or \"text\"",
     nullptr},
    {"return_mm_kwargs", Field::both, Use::ignored, "true or false", take_boolean},
    {"return_prompt_text", Field::chat, Use::used, "false", take_false},
    {"return_token_ids", Field::both, Use::used, "true or false",
     [](V v, C, F f) { f.return_token_ids = v.boolean(); }},
    {"return_token_offsets", Field::both, Use::ignored, "true or false", take_boolean},
    {"return_tokens_as_token_ids", Field::both, Use::used, "false", take_false},
    {"return_weight_versions", Field::both, Use::used, "false", take_false},
    {"routed_experts_prompt_start", Field::both, Use::ignored, "0 or more",
     [](V v, C, F) { (void)v.integer(0); }},
    {"seed", Field::both, Use::used, "whole number; -1 for none", set_seed},
    {"service_tier", Field::both, Use::ignored, "string", take_string},
    {"session_id", Field::both, Use::ignored, "string", take_string},
    {"skip_special_tokens", Field::both, Use::used, "true or false; default true",
     [](V v, C, F f) { f.sampling.skip_special_tokens = v.boolean(); }},
    {"spaces_between_special_tokens", Field::both, Use::ignored, "true or false",
     take_boolean},
    {"stop", Field::both, Use::used, "a string or several",
     [](V v, C, F f) { f.sampling.stop = v.strings(); }},
    {"stop_token_ids", Field::both, Use::used, "token ids",
     [](V v, C c, F f) { f.sampling.stop_token_ids = v.token_ids(c.limits.vocab_size); }},
    {"store", Field::both, Use::ignored, "true or false", take_boolean},
    {"stream", Field::both, Use::used, "false",
     [](V v, C, F) {
       if (v.boolean()) v.refuse("false: a batch is not streamed");
     }},
    {"stream_interval", Field::both, Use::ignored, "1 or more",
     [](V v, C, F) { (void)v.integer(1); }},
    {"stream_options", Field::both, Use::ignored, "object", take_object},
    {"structured_outputs", Field::both, Use::used,
     "{\"json\": schema}, or regex, choice, grammar or json_object", nullptr},
    {"suffix", Field::completions, Use::refused, "", nullptr},
    {"temperature", Field::both, Use::used, "0 (greedy) or more", set_temperature},
    {"thinking_token_budget", Field::both, Use::used,
     "0 or more; -1 for none; needs --reasoning-parser",
     [](V v, C, F f) {
       const int64_t budget = v.integer(-1);
       f.thinking_token_budget = budget < 0 ? std::nullopt : std::optional(budget);
     }},
    {"tool_choice", Field::chat, Use::used,
     "\"none\", \"auto\", \"required\", or {\"type\": \"function\", \"function\": {\"name\": ...}}",
     [](V v, C, F f) { set_tool_choice(v, f); }},
    {"tools", Field::chat, Use::used, "array of objects",
     [](V v, C, F f) {
       check_objects(v);
       f.tools = v.json();
     }},
    {"top_k", Field::both, Use::used, "1 or more; 0 or -1 for all",
     [](V v, C, F f) { f.sampling.top_k = std::max<int64_t>(0, v.integer(-1)); }},
    {"top_logprobs", Field::chat, Use::used, "0 to --max-logprobs; needs logprobs",
     [](V v, C c, F f) { f.top_logprobs = checked_logprobs(v, c); }},
    {"top_p", Field::both, Use::used, "above 0, up to 1", set_top_p},
    {"truncate_prompt_tokens", Field::both, Use::used,
     "keep this many prompt tokens, the last ones unless truncation_side says otherwise; -1: as "
     "many as the context takes",
     [](V v, C, F f) {
       f.truncate_prompt_tokens = v.integer(-1);
       if (f.truncate_prompt_tokens == 0) v.refuse("-1, or 1 or more");
     }},
    {"truncation_side", Field::both, Use::used,
     "\"left\" (default) or \"right\": the side that truncate_prompt_tokens cuts",
     [](V v, C, F f) {
       f.truncation_side = v.choice(kSides) == "right" ? RequestFields::Side::right
                                                      : RequestFields::Side::left;
     }},
    {"use_beam_search", Field::both, Use::used, "false",
     [](V v, C, F) {
       if (v.boolean()) v.refuse("false: beam search is not supported");
     }},
    {"user", Field::both, Use::ignored, "string", take_string},
    {"vllm_xargs", Field::both, Use::refused, "", nullptr},
    {"watermarking", Field::both, Use::ignored, "true or false", take_boolean},
};

const Field* find_field(std::string_view name, Endpoint endpoint) {
  const auto wanted = endpoint == Endpoint::chat ? Field::chat : Field::completions;
  for (const Field& field : kFields) {
    if (field.name == name && (field.where & wanted)) return &field;
  }
  return nullptr;
}

// Names that clients use and that no endpoint reads, with where their values go.
struct Misplaced {
  std::string_view name, reason;
};
constexpr Misplaced kMisplaced[] = {
    {"enable_thinking",
     "has no effect here; write \"chat_template_kwargs\": {\"enable_thinking\": ...}"},
    {"extra_body",
     "has no effect: OpenAI's client sends its keys as fields of their own; write them so"},
    {"thinking", "has no effect here; write \"chat_template_kwargs\": {\"thinking\": ...}"},
};

// Why nothing reads the field.
std::string unread_reason(std::string_view name, Endpoint endpoint) {
  const auto* const misplaced = std::ranges::find(kMisplaced, name, &Misplaced::name);
  if (misplaced != std::end(kMisplaced)) return std::string(misplaced->reason);
  const bool chat = endpoint == Endpoint::chat;
  if (find_field(name, chat ? Endpoint::completions : Endpoint::chat)) {
    return chat ? "has no effect beside messages, only beside a prompt"
                : "has no effect beside a prompt, only beside messages";
  }
  std::vector<std::string_view> names;
  for (const Field& field : kFields) {
    if (find_field(field.name, endpoint)) names.push_back(field.name);
  }
  return "is no known field and has no effect" + did_you_mean(nearest_name(name, names));
}

bool given(const OrderedJson& body, const char* name) {
  const auto found = body.find(name);
  return found != body.end() && !found->is_null();
}

// vLLM's rule: templates see the effort, and whether to think unless the line says it itself.
void resolve_reasoning_effort(const OrderedJson& body, RequestFields& fields) {
  if (!fields.reasoning_effort) return;
  fields.chat_template_kwargs["reasoning_effort"] = *fields.reasoning_effort;
  if (given(body, "chat_template_kwargs") &&
      body["chat_template_kwargs"].contains("enable_thinking")) {
    return;
  }
  fields.chat_template_kwargs["enable_thinking"] = *fields.reasoning_effort != "none";
}

// Checks fields that are right by themselves and may contradict each other.
void check_together(const OrderedJson& body, RequestFields& fields) {
  if (fields.top_logprobs > 0 || (fields.top_logprobs && fields.sampling.logprobs)) {
    if (!fields.sampling.logprobs) {
      throw LineError(code::bad_field, "top_logprobs: needs \"logprobs\": true beside it",
                      "top_logprobs");
    }
    fields.sampling.logprobs = fields.top_logprobs;
  }
  if (fields.max_tokens == 0 && !fields.echo) {
    refuse_max_tokens(FieldValue("max_tokens", OrderedJson(0)));
  }
  resolve_reasoning_effort(body, fields);
  read_tools(body, fields, read_constraint(body, fields));
  if (fields.continue_final_message) {
    if (given(body, "add_generation_prompt") && fields.add_generation_prompt.value_or(false)) {
      throw LineError(code::bad_field,
                      "continue_final_message: excludes \"add_generation_prompt\": true",
                      "continue_final_message");
    }
    fields.add_generation_prompt = false;
  }
}

}  // namespace

std::span<const Field> request_field_table() {
  return kFields;
}

RequestFields read_fields(const OrderedJson& body, Endpoint endpoint, Envelope envelope,
                          const RequestFields& defaults, const FieldLimits& limits,
                          const UnknownField& unknown) {
  RequestFields fields = defaults;
  const Field::Context context{envelope, limits};
  for (const auto& [name, json] : body.items()) {
    if (envelope == Envelope::plain && name == "id") continue;
    const Field* field = find_field(name, endpoint);
    if (!field) {
      unknown(name, unread_reason(name, endpoint));
      continue;
    }
    if (json.is_null()) continue;
    if (field->use == Field::Use::refused) {
      throw LineError(code::bad_field, fmt::format("{}: is not supported; leave it out", name),
                      name);
    }
    // max_completion_tokens goes before its older name, whatever their order.
    if (name == "max_tokens" && given(body, "max_completion_tokens")) continue;
    if (field->set) field->set(FieldValue(name, json), context, fields);
  }
  check_together(body, fields);
  return fields;
}

}  // namespace plimsoll::batch
