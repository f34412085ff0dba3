#include "batch/output_line.h"

#include <utility>

#include "batch/json_text.h"
#include "batch/logprobs_text.h"

namespace plimsoll::batch {
namespace {

// Role of the answer: the assistant, or the last message's, which the answer continues.
std::string answer_role(const FinishedLine& line) {
  return line.fields.add_generation_prompt.value_or(true) ? "assistant" : line.last_role;
}

// Between the answers to the parts of a split prompt.
constexpr std::string_view kBetweenParts = "\n\n";

// One choice with the parts of a split prompt joined.
struct Choice {
  int64_t index = 0;
  std::string text;
  TokenIds token_ids;
  const engine::Completion* last = nullptr;  // of the last part: how it ended
  std::vector<TokenPosition> positions;      // empty when no logprobs were asked
  bool has_logprobs = false;
  bool is_read = false;  // reasoning and calls stand apart from the text
  std::string reasoning;
  std::vector<text::ToolCall> calls;
  const Prompt* prompt = nullptr;
  std::span<const engine::RequestOutput> outputs;  // of this prompt's parts
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
};

// max_tokens 0 with echo: the prompt is all that is wanted.
bool is_echo_alone(const RequestFields& fields) {
  return fields.echo && fields.max_tokens == 0;
}

void echo_prompt(const RequestFields& fields, Choice& choice) {
  choice.text = choice.prompt->text;
  for (size_t part = 0; part < choice.outputs.size(); ++part) {
    const TokenIds& ids = choice.prompt->parts[part];
    choice.token_ids.insert(choice.token_ids.end(), ids.begin(), ids.end());
    if (!fields.sampling.logprobs) continue;
    const auto& logprobs = choice.outputs[part].prompt_logprobs;
    for (size_t i = 0; i < ids.size(); ++i) {
      const bool known = i < logprobs.size() && logprobs[i];
      choice.positions.push_back({ids[i], known ? &*logprobs[i] : nullptr});
    }
  }
}

/// Adds the parts of an answer that was read.
void add_answer(const text::ToolAnswer& answer, Choice& choice) {
  choice.is_read = true;
  choice.text += answer.content;
  if (!choice.reasoning.empty() && !answer.reasoning.empty()) choice.reasoning += kBetweenParts;
  choice.reasoning += answer.reasoning;
  choice.calls.insert(choice.calls.end(), answer.calls.begin(), answer.calls.end());
}

void add_completion(const engine::Completion& completion, Choice& choice) {
  choice.token_ids.insert(choice.token_ids.end(), completion.token_ids.begin(),
                          completion.token_ids.end());
  // One for each token, where they were asked for.
  for (size_t i = 0; i < completion.logprobs.size(); ++i) {
    choice.positions.push_back({completion.token_ids[i], &completion.logprobs[i]});
  }
}

std::vector<Choice> make_choices(const FinishedLine& line, Usage& usage) {
  std::vector<Choice> choices;
  const bool chat = line.head.endpoint == Endpoint::chat;
  const bool echo_prompts = line.fields.echo && !chat;
  // A chat echoes what the answer goes on from.
  const bool echo_message = line.fields.echo && chat && answer_role(line) == line.last_role;
  size_t first = 0;
  for (const Prompt& prompt : line.prompts) {
    const std::span outputs(line.outputs.data() + first, prompt.parts.size());
    const size_t first_part = std::exchange(first, first + prompt.parts.size());
    for (const TokenIds& part : prompt.parts) usage.prompt_tokens += std::ssize(part);
    for (size_t n = 0; n < outputs.front().completions.size(); ++n) {
      Choice& choice = choices.emplace_back();
      choice.index = std::ssize(choices) - 1;
      choice.prompt = &prompt;
      choice.outputs = outputs;
      choice.has_logprobs = line.fields.sampling.logprobs.has_value();
      if (echo_prompts) echo_prompt(line.fields, choice);
      if (echo_message) choice.text = line.last_content;
      for (size_t part = 0; part < outputs.size(); ++part) {
        choice.last = &outputs[part].completions[n];
        if (is_echo_alone(line.fields)) continue;
        if (part > 0) choice.text += kBetweenParts;
        if (line.answers.empty()) {
          choice.text += choice.last->text;
        } else {
          add_answer(line.answers[first_part + part][n], choice);
        }
        add_completion(*choice.last, choice);
        usage.completion_tokens += std::ssize(choice.last->token_ids);
      }
    }
  }
  return choices;
}

void write_ids(JsonText& out, std::span<const int32_t> ids) {
  out.begin_array();
  for (const int32_t id : ids) out.integer(id);
  out.end_array();
}

void write_prompt_ids(JsonText& out, const Prompt& prompt) {
  out.begin_array();
  for (const TokenIds& part : prompt.parts) {
    for (const int32_t id : part) out.integer(id);
  }
  out.end_array();
}

/// The reason for an end. A function that the line names itself stops as OpenAI's and vLLM's do.
std::string_view finish_reason(const Choice& choice, const RequestFields& fields) {
  const bool named = fields.tool_choice == RequestFields::ToolChoice::named;
  if (!choice.calls.empty() && !named) return "tool_calls";
  return choice.last->finish == engine::FinishReason::stop ? "stop" : "length";
}

void write_finish(JsonText& out, const Choice& choice, const RequestFields& fields) {
  const engine::Completion& completion = *choice.last;
  out.key("finish_reason").string(finish_reason(choice, fields)).key("stop_reason");
  if (completion.stop_string) {
    out.string(*completion.stop_string);
  } else if (completion.stop_token) {
    out.integer(*completion.stop_token);
  } else {
    out.null();
  }
}

void write_prompt_logprobs(JsonText& out, const Choice& choice, const OutputOptions& options) {
  std::vector<std::optional<engine::PositionLogprobs>> all;
  for (const engine::RequestOutput& output : choice.outputs) {
    all.insert(all.end(), output.prompt_logprobs.begin(), output.prompt_logprobs.end());
  }
  out.key("prompt_logprobs");
  LogprobsText(options.tokenizer).prompt(out, all);
}

void write_text_or_null(JsonText& out, std::string_view key, const std::string& text) {
  out.key(key);
  if (text.empty()) {
    out.null();
  } else {
    out.string(text);
  }
}

/// Reasoning under both of its names, and calls, of an answer that was read.
void write_parts(JsonText& out, const Choice& choice, const FinishedLine& line,
                 const OutputOptions& options) {
  if (!choice.is_read) return;
  if (options.formats.reasoning && line.fields.include_reasoning) {
    write_text_or_null(out, "reasoning", choice.reasoning);
    write_text_or_null(out, "reasoning_content", choice.reasoning);
  }
  if (choice.calls.empty()) return;
  out.key("tool_calls").begin_array();
  for (size_t i = 0; i < choice.calls.size(); ++i) {
    const text::ToolCall& call = choice.calls[i];
    out.begin_object().key("id").string(call_id(options.formats.tools, call, line.identity,
                                                options.seed, choice.index,
                                                static_cast<int64_t>(i)));
    out.key("type").string("function").key("function").begin_object();
    out.key("name").string(call.name).key("arguments").string(call.arguments);
    out.end_object().end_object();
  }
  out.end_array();
}

bool shows_prompt_logprobs(const Choice& choice) {
  return !choice.outputs.front().prompt_logprobs.empty();
}

void write_completion_choice(JsonText& out, const Choice& choice, const FinishedLine& line,
                             const OutputOptions& options) {
  out.begin_object().key("index").integer(choice.index).key("text").string(choice.text);
  write_parts(out, choice, line, options);
  write_finish(out, choice, line.fields);
  out.key("logprobs");
  if (choice.has_logprobs) {
    LogprobsText(options.tokenizer).completions(out, choice.positions);
  } else {
    out.null();
  }
  if (line.fields.return_token_ids) {
    write_ids(out.key("token_ids"), choice.token_ids);
    write_prompt_ids(out.key("prompt_token_ids"), *choice.prompt);
  }
  if (shows_prompt_logprobs(choice)) write_prompt_logprobs(out, choice, options);
  out.end_object();
}

void write_chat_choice(JsonText& out, const Choice& choice, const FinishedLine& line,
                       const OutputOptions& options) {
  out.begin_object().key("index").integer(choice.index).key("message").begin_object();
  out.key("role").string(answer_role(line));
  if (choice.is_read) {
    write_text_or_null(out, "content", choice.text);
  } else {
    out.key("content").string(choice.text);
  }
  out.key("refusal").null();
  write_parts(out, choice, line, options);
  out.end_object().key("logprobs");
  if (choice.has_logprobs) {
    LogprobsText(options.tokenizer).chat(out, choice.positions, *line.fields.sampling.logprobs);
  } else {
    out.null();
  }
  write_finish(out, choice, line.fields);
  if (line.fields.return_token_ids) write_ids(out.key("token_ids"), choice.token_ids);
  out.end_object();
}

void write_usage(JsonText& out, const Usage& usage, int64_t dropped) {
  out.key("usage").begin_object();
  out.key("prompt_tokens").integer(usage.prompt_tokens);
  out.key("completion_tokens").integer(usage.completion_tokens);
  out.key("total_tokens").integer(usage.prompt_tokens + usage.completion_tokens);
  if (dropped > 0) out.key("dropped_prompt_tokens").integer(dropped);
  out.end_object();
}

// Random-looking and the same in every run: the line's text, the seed and a name for the purpose.
std::string derived_id(const char* prefix, const Digest& identity, uint64_t seed) {
  return prefix + hex(digest(prefix + hex(identity), seed));
}

void write_body(JsonText& out, const FinishedLine& line, const OutputOptions& options) {
  Usage usage;
  const std::vector<Choice> choices = make_choices(line, usage);
  const bool chat = line.head.endpoint == Endpoint::chat;
  out.begin_object().key("id").string(
      derived_id(chat ? "chatcmpl-" : "cmpl-", line.identity, options.seed));
  out.key("object").string(chat ? "chat.completion" : "text_completion");
  out.key("created").integer(options.created).key("model").string(options.model);
  out.key("choices").begin_array();
  for (const Choice& choice : choices) {
    if (chat) {
      write_chat_choice(out, choice, line, options);
    } else {
      write_completion_choice(out, choice, line, options);
    }
  }
  out.end_array();
  write_usage(out, usage, line.dropped_tokens);
  if (chat && shows_prompt_logprobs(choices.front())) {
    write_prompt_logprobs(out, choices.front(), options);
  }
  if (chat && line.fields.return_token_ids) {
    write_prompt_ids(out.key("prompt_token_ids"), line.prompts.front());
  }
  out.end_object();
}

void write_id(JsonText& out, const char* key, const LineHead& head) {
  out.key(key);
  if (head.id) {
    out.string(*head.id);
  } else {
    out.null();
  }
}

void begin_batch(JsonText& out, const LineHead& head, const Digest& identity, uint64_t seed) {
  out.begin_object().key("id").string(derived_id("batch_req_", identity, seed));
  write_id(out, "custom_id", head);
  out.key("response");
}

void begin_response(JsonText& out, int64_t status, const Digest& identity, uint64_t seed) {
  out.begin_object().key("status_code").integer(status);
  out.key("request_id").string(derived_id("req_", identity, seed)).key("body");
}

void write_error(JsonText& out, const LineHead& head, const LineError& error) {
  out.key("error").begin_object().key("code").string(error.code());
  out.key("message").string(error.what());
  out.key("line").unsigned_integer(head.number).end_object();
}

// A failure that is an answer to a sound request, as a server would give it: status 400.
bool is_refusal(const LineHead& head, const LineError& error) {
  return head.is_request &&
         (error.code() == code::bad_field || error.code() == code::context_too_long ||
          error.code() == code::template_error || error.code() == code::tokenizer_error);
}

void write_refusal(JsonText& out, const LineError& error) {
  out.begin_object().key("error").begin_object().key("message").string(error.what());
  out.key("type").string("invalid_request_error").key("param");
  if (error.param().empty()) {
    out.null();
  } else {
    out.string(error.param());
  }
  out.key("code").integer(400).end_object().end_object();
}

void write_ids_line(JsonText& out, const FinishedLine& line) {
  Usage usage;
  const std::vector<Choice> choices = make_choices(line, usage);
  out.begin_object();
  write_id(out, "id", line.head);
  out.key("token_ids");
  if (choices.size() != 1) out.begin_array();
  for (const Choice& choice : choices) write_ids(out, choice.token_ids);
  if (choices.size() != 1) out.end_array();
  out.end_object();
}

std::string finished(JsonText& out) {
  return out.take() + "\n";
}

}  // namespace

std::string answer_line(const FinishedLine& line, const OutputOptions& options) {
  JsonText out;
  if (options.format == OutputFormat::ids) {
    write_ids_line(out, line);
    return finished(out);
  }
  if (line.head.envelope == Envelope::batch) {
    begin_batch(out, line.head, line.identity, options.seed);
    begin_response(out, 200, line.identity, options.seed);
    write_body(out, line, options);
    out.end_object().key("error").null().end_object();
    return finished(out);
  }
  Usage usage;
  out.begin_object();
  write_id(out, "id", line.head);
  out.key("choices").begin_array();
  for (const Choice& choice : make_choices(line, usage)) {
    write_completion_choice(out, choice, line, options);
  }
  out.end_array();
  write_usage(out, usage, line.dropped_tokens);
  out.key("error").null().end_object();
  return finished(out);
}

std::string failure_line(const LineHead& head, const Digest& identity, const LineError& error,
                         const OutputOptions& options) {
  JsonText out;
  if (options.format == OutputFormat::ids) {
    out.begin_object();
    write_id(out, "id", head);
    out.key("token_ids").null();
    write_error(out, head, error);
  } else if (head.envelope == Envelope::plain) {
    out.begin_object();
    write_id(out, "id", head);
    out.key("choices").begin_array().end_array().key("usage").null();
    write_error(out, head, error);
  } else if (is_refusal(head, error)) {
    begin_batch(out, head, identity, options.seed);
    begin_response(out, 400, identity, options.seed);
    write_refusal(out, error);
    out.end_object().key("error").null();
  } else {
    begin_batch(out, head, identity, options.seed);
    out.null();
    write_error(out, head, error);
  }
  out.end_object();
  return finished(out);
}

}  // namespace plimsoll::batch
