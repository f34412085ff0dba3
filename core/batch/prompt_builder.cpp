#include "batch/prompt_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "batch/fields/structured_fields.h"
#include "batch/line_error.h"
#include "text/text_error.h"

namespace plimsoll::batch {
namespace {

// OpenAI's default for /v1/completions.
constexpr int64_t kCompletionTokens = 16;

bool is_openai_completion(const LineHead& head) {
  return head.envelope == Envelope::batch && head.endpoint == Endpoint::completions;
}

const char* prompt_field(const LineHead& head) {
  return head.endpoint == Endpoint::chat ? "messages" : "prompt";
}

// Keeps `room` ids of one end; returns how many went.
int64_t truncate(TokenIds& ids, int64_t room, LongPrompt policy) {
  const int64_t excess = std::ssize(ids) - room;
  if (excess <= 0) return 0;
  if (policy == LongPrompt::truncate_right) {
    ids.resize(static_cast<size_t>(room));
  } else {
    ids.erase(ids.begin(), ids.begin() + excess);
  }
  return excess;
}

std::optional<Placeholders> placeholders_of(const PromptOptions& options) {
  if (!options.images || !options.images->rules().vision) return std::nullopt;
  return Placeholders(*options.images->rules().vision, options.tokenizer);
}

ChatOptions with_placeholders(ChatOptions chat, const std::optional<Placeholders>& placeholders) {
  if (!placeholders) return chat;
  for (const auto& [kind, text] : {std::pair(MediaKind::image, &chat.image_placeholder),
                                   std::pair(MediaKind::video, &chat.video_placeholder)}) {
    try {
      *text = placeholders->text_of(kind);
    } catch (const LineError&) {
      // Lines with such an image get the error when their prompts are built.
    }
  }
  return chat;
}

}  // namespace

PromptBuilder::PromptBuilder(PromptOptions options, ChatOptions chat)
    : options_(std::move(options)),
      placeholders_(placeholders_of(options_)),
      renderer_(with_placeholders(std::move(chat), placeholders_)),
      markers_(options_.tokenizer, options_.formats) {}

const text::Tokenizer& PromptBuilder::tokenizer(std::string_view needed_for) const {
  if (options_.tokenizer) return *options_.tokenizer;
  throw LineError(code::bad_field,
                  fmt::format("{}: needs the tokenizer, and --skip-tokenizer-init leaves it out; "
                              "give prompt_token_ids",
                              needed_for),
                  needed_for);
}

TokenIds PromptBuilder::encode_text(const std::string& text, text::AddSpecials add,
                                    const std::vector<OpenedImage>& images) const {
  if (images.empty()) return options_.tokenizer->encode(text, add);
  return options_.tokenizer->encode(placeholders_->spell_text(text, images), add);
}

PromptBuilder::EncodedChat PromptBuilder::encode_chat(const OrderedJson& messages,
                                                      const RequestFields& fields,
                                                      const std::vector<OpenedImage>& images) {
  (void)tokenizer("messages");
  const bool add = fields.add_special_tokens.value_or(false);
  const std::string text = renderer_.render(messages, fields);
  return {encode_text(text, add ? text::AddSpecials::yes : text::AddSpecials::no, images),
          markers_.thinking_of(text)};
}

BuiltRequest PromptBuilder::start(const LineHead& head, const LineRequest& request) {
  try {
    return build_any(head, request);
  } catch (const text::TextError& error) {
    throw LineError(code::tokenizer_error, fmt::format("{}: {}", prompt_field(head), error.what()),
                    prompt_field(head));
  }
}

BuiltRequest PromptBuilder::build_any(const LineHead& head, const LineRequest& request) {
  const RequestFields& fields = request.fields;
  if (!fields.sampling.stop.empty()) (void)tokenizer("stop");
  BuiltRequest built;
  std::vector<OpenedImage> images;
  if (!request.media.empty()) images = open_images(request);
  std::vector<TokenIds> encoded;
  text::Thinking thinking = text::Thinking::unsaid;
  if (head.endpoint == Endpoint::chat) {
    EncodedChat chat = encode_chat(request.messages, fields, images);
    thinking = chat.thinking;
    encoded.push_back(std::move(chat.ids));
  }
  for (const RawPrompt& raw : request.prompts) {
    if (const auto* text = std::get_if<std::string>(&raw)) {
      const bool add = fields.add_special_tokens.value_or(true);
      (void)tokenizer("prompt");
      encoded.push_back(
          encode_text(*text, add ? text::AddSpecials::yes : text::AddSpecials::no, images));
    } else if (images.empty()) {
      encoded.push_back(std::get<TokenIds>(raw));
    } else {
      encoded.push_back(placeholders_->spell_ids(std::get<TokenIds>(raw), images));
    }
  }
  if (!images.empty()) {
    ExpandedPrompt expanded = placeholders_->expand(encoded.front(), images);
    check_whole(head, fields, expanded.ids.size());
    built.coming = load_images(std::move(images), expanded);
    encoded.front() = std::move(expanded.ids);
  }
  for (size_t i = 0; i < encoded.size(); ++i) {
    TokenIds& ids = encoded[i];
    const int64_t dropped_before = built.dropped_tokens;
    if (ids.empty()) {
      throw LineError(code::bad_field, fmt::format("{}: is empty", prompt_field(head)),
                      prompt_field(head));
    }
    if (fields.truncate_prompt_tokens) {
      const int64_t asked = *fields.truncate_prompt_tokens;
      const LongPrompt side = fields.truncation_side == RequestFields::Side::right
                                  ? LongPrompt::truncate_right
                                  : LongPrompt::truncate_left;
      built.dropped_tokens += truncate(ids, asked < 0 ? options_.max_model_len - 1 : asked, side);
    }
    const int64_t room = room_for_prompt(head, fields, ids.size());
    Prompt& prompt = built.prompts.emplace_back();
    prompt.thinking = thinking;
    if (std::ssize(ids) > room && options_.long_prompt == LongPrompt::split) {
      prompt.parts = head.endpoint == Endpoint::chat ? split_chat(request, ids.size(), room)
                                                     : split_ids(ids, room);
    } else {
      built.dropped_tokens += truncate(ids, room, options_.long_prompt);
      prompt.parts.emplace_back().swap(ids);
    }
    for (const TokenIds& part : prompt.parts) {
      built.sampling.push_back(sampling_params(head, fields, part.size(), thinking));
    }
    if (!fields.echo || !options_.tokenizer) continue;
    const auto* text =
        i < request.prompts.size() ? std::get_if<std::string>(&request.prompts[i]) : nullptr;
    const TokenIds& kept = prompt.parts.size() > 1 ? ids : prompt.parts.front();
    prompt.text = text && built.dropped_tokens == dropped_before
                      ? *text
                      : options_.tokenizer->decode(kept, text::Specials::keep);
  }
  return built;
}

std::vector<OpenedImage> PromptBuilder::open_images(const LineRequest& request) {
  if (options_.images)
    return options_.images->open(request.media, request.fields.mm_processor_kwargs);
  const std::string& field = request.media.front().field;
  throw LineError(code::no_images, fmt::format("{}: the model answers text alone", field), field);
}

void PromptBuilder::check_whole(const LineHead& head, const RequestFields& fields,
                                size_t length) const {
  const auto tokens = static_cast<int64_t>(length);
  if (fields.truncate_prompt_tokens && *fields.truncate_prompt_tokens >= 0 &&
      *fields.truncate_prompt_tokens < tokens) {
    throw LineError(
        code::bad_field,
        fmt::format("truncate_prompt_tokens: the prompt has {} tokens with those of its "
                    "images, and is not cut",
                    tokens),
        "truncate_prompt_tokens");
  }
  if (tokens < options_.max_model_len) return;
  throw LineError(code::context_too_long,
                  fmt::format("the prompt has {} tokens with those of its images and the context "
                              "{}, one of them for the answer; smaller images "
                              "(mm_processor_kwargs) or --max-model-len cure it",
                              tokens, options_.max_model_len),
                  prompt_field(head));
}

std::vector<ComingImage> PromptBuilder::load_images(std::vector<OpenedImage> opened,
                                                    const ExpandedPrompt& prompt) const {
  std::vector<ComingImage> coming;
  for (size_t i = 0; i < opened.size(); ++i) {
    ComingImage& image = coming.emplace_back();
    image.key = opened[i].key;
    image.runs = prompt.runs[i];
    if (options_.pixels == PromptOptions::Pixels::loaded) {
      image.pixels = options_.images->load(std::move(opened[i]));
    } else {
      std::promise<std::shared_ptr<const image::Pixels>> counted;
      counted.set_value(std::make_shared<const image::Pixels>(image::Pixels{opened[i].layout, {}}));
      image.pixels = counted.get_future().share();
    }
  }
  return coming;
}

bool BuiltRequest::is_ready() const {
  return std::ranges::all_of(coming, [](const ComingImage& image) {
    return image.pixels.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
}

void PromptBuilder::finish(BuiltRequest& built) const {
  if (built.coming.empty()) return;
  std::vector<engine::Image> images;
  for (ComingImage& image : built.coming) {
    images.push_back({image.key, image.pixels.get(), std::move(image.runs)});
  }
  built.coming.clear();
  Prompt& prompt = built.prompts.front();
  prompt.images = std::make_shared<const engine::Images>(engine::place_images(
      *options_.images->rules().vision, std::move(images), std::ssize(prompt.parts.front())));
}

BuiltRequest PromptBuilder::build(const LineHead& head, const LineRequest& request) {
  BuiltRequest built = start(head, request);
  finish(built);
  return built;
}

// How long the prompt may be. A stated max_tokens is room that a cut prompt leaves; where none is
// stated a cut prompt leaves a quarter of the context. Never more than half is reserved.
int64_t PromptBuilder::room_for_prompt(const LineHead& head, const RequestFields& fields,
                                       size_t length) const {
  const int64_t context = options_.max_model_len;
  const auto tokens = static_cast<int64_t>(length);
  if (options_.long_prompt == LongPrompt::error) {
    if (tokens < context) return context;
    throw LineError(code::context_too_long,
                    fmt::format("the prompt has {} tokens and the context {}, one of them for the "
                                "answer; --long-prompt cuts or splits, --max-model-len widens",
                                tokens, context),
                    prompt_field(head));
  }
  std::optional<int64_t> stated = fields.max_tokens ? fields.max_tokens : options_.max_tokens_cap;
  if (!stated && is_openai_completion(head)) stated = kCompletionTokens;
  if (!stated && tokens < context) return context;
  const int64_t reserved =
      std::clamp<int64_t>(stated.value_or(context / 4), 1, std::max<int64_t>(1, context / 2));
  return std::max<int64_t>(1, context - reserved);
}

std::vector<TokenIds> PromptBuilder::split_ids(const TokenIds& ids, int64_t room) const {
  // At least half of every chunk is new: a larger overlap would read the prompt many times over.
  const int64_t stride = room - std::min(options_.split_overlap, room / 2);
  std::vector<TokenIds> parts;
  for (int64_t first = 0;; first += stride) {
    const int64_t last = std::min(first + room, std::ssize(ids));
    parts.emplace_back(ids.begin() + first, ids.begin() + last);
    if (last == std::ssize(ids)) return parts;
  }
}

// A conversation is split in the last user message: every part is the whole conversation with a
// chunk of that message, so that the template stays whole.
std::vector<TokenIds> PromptBuilder::split_chat(const LineRequest& request, size_t length,
                                                int64_t room) {
  const auto is_user_text = [](const OrderedJson& message) {
    return message["role"] == "user" && message.contains("content") &&
           message["content"].is_string();
  };
  const auto last = std::find_if(request.messages.rbegin(), request.messages.rend(), is_user_text);
  const auto refuse = [&] {
    throw LineError(code::context_too_long,
                    fmt::format("the conversation has {} tokens, and its last user message cannot "
                                "be split to fit in {}",
                                length, room),
                    "messages");
  };
  if (last == request.messages.rend()) refuse();
  OrderedJson messages = request.messages;
  const auto index = static_cast<size_t>(request.messages.rend() - last) - 1;
  const TokenIds content = tokenizer("messages")
                               .encode(messages[index]["content"].get<std::string>(),
                                       text::AddSpecials::no, {&text::kAllPlain, 1});
  int64_t chunk = room - (static_cast<int64_t>(length) - std::ssize(content));
  // A chunk's ends may take a few tokens more when they are encoded anew: try smaller ones.
  for (int attempt = 0; attempt < 8 && chunk > 0; ++attempt) {
    std::vector<TokenIds> parts;
    int64_t excess = 0;
    for (const TokenIds& ids : split_ids(content, chunk)) {
      messages[index]["content"] = options_.tokenizer->decode(ids, text::Specials::keep);
      parts.push_back(encode_chat(messages, request.fields, {}).ids);
      excess = std::max(excess, std::ssize(parts.back()) - room);
    }
    if (excess <= 0) return parts;
    chunk -= excess;
  }
  refuse();
  return {};
}

engine::SamplingParams PromptBuilder::sampling_params(const LineHead& head,
                                                      const RequestFields& fields,
                                                      size_t prompt_tokens,
                                                      text::Thinking thinking) const {
  engine::SamplingParams sampling = fields.sampling;
  const int64_t rest = options_.max_model_len - static_cast<int64_t>(prompt_tokens);
  int64_t most = fields.max_tokens.value_or(is_openai_completion(head) ? kCompletionTokens : rest);
  if (options_.max_tokens_cap) most = std::min(most, *options_.max_tokens_cap);
  if (sampling.min_tokens > most && most > 0) {
    throw LineError(code::bad_field,
                    fmt::format("min_tokens: expected at most max_tokens ({}), found {}", most,
                                sampling.min_tokens),
                    "min_tokens");
  }
  // Echo of the prompt alone (max_tokens 0): the engine gives one token, which is left out.
  sampling.max_tokens = std::clamp<int64_t>(most, 1, std::max<int64_t>(1, rest));
  sampling.min_tokens = std::min(sampling.min_tokens, sampling.max_tokens);
  if (fields.echo && sampling.logprobs && !sampling.prompt_logprobs &&
      head.endpoint == Endpoint::completions) {
    sampling.prompt_logprobs = sampling.logprobs;
  }
  sampling.bad_words = bad_words(fields.bad_words);
  if (most > 0) sampling.grammar = grammar_of(fields);
  sampling.detokenize = options_.tokenizer != nullptr;
  markers_.apply(head, fields, thinking, sampling);
  return sampling;
}

std::shared_ptr<const grammar::CompiledGrammar> PromptBuilder::grammar_of(
    const RequestFields& fields) const {
  if (!fields.constraint) return nullptr;
  (void)tokenizer(fields.constraint->field);
  if (!options_.grammars) return nullptr;
  return compile_constraint(*options_.grammars, *fields.constraint);
}

// Each word at a text's beginning and within it, as vLLM does: with a space before it too, where
// that makes another first token and no more tokens.
std::vector<TokenIds> PromptBuilder::bad_words(const std::vector<std::string>& words) const {
  std::vector<TokenIds> sequences;
  for (const std::string& word : words) {
    const size_t first = word.find_first_not_of(' ');
    const std::string bare = first == std::string::npos ? std::string() : word.substr(first);
    const TokenIds ids = tokenizer("bad_words").encode(bare, text::AddSpecials::no);
    const TokenIds spaced = options_.tokenizer->encode(" " + bare, text::AddSpecials::no);
    if (!ids.empty()) sequences.push_back(ids);
    if (!spaced.empty() && !ids.empty() && spaced.front() != ids.front() &&
        spaced.size() == ids.size()) {
      sequences.push_back(spaced);
    }
  }
  return sequences;
}

}  // namespace plimsoll::batch
