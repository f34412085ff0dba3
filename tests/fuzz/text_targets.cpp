#include <array>

#include "base/error.h"
#include "batch/scratch.h"
#include "fuzz/targets.h"
#include "text/chat_template.h"
#include "text/text_error.h"
#include "text/tokenizer.h"

namespace plimsoll::fuzz {
namespace {

text::ChatInput conversation() {
  text::ChatInput input;
  input.messages = OrderedJson::parse(R"([
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Hi\n<|im_end|> \u00e9"}]},
    {"role": "assistant", "content": "Hello", "n": 3, "list": [1, 2.5, null, true, {"a": -1}]}])");
  input.tools = OrderedJson::parse(R"([{"type": "function", "function": {"name": "f"}}])");
  input.add_generation_prompt = true;
  input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  input.now.emplace();
  return input;
}

}  // namespace

void chat_template(std::string_view bytes) {
  static const text::ChatInput input = conversation();
  try {
    (void)text::ChatTemplate::parse(std::string(bytes))
        .render(input, {.max_steps = 2000, .max_output = size_t{64} << 10});
  } catch (const text::TemplateError&) {
  }
}

void tokenizer(std::string_view bytes) {
  static const test::Scratch scratch;
  static constexpr std::array<std::string_view, 4> kTexts = {
      "", "Hello, world! <s> 123", "  caf\u00e9 \u4f60\u597d\t\n\n don't", "aaaaaaaaaaaaaaaaaaaa"};
  try {
    const auto read = text::Tokenizer::load(scratch.write("tokenizer.json", std::string(bytes)));
    for (const std::string_view text : kTexts) {
      try {
        const auto ids = read.encode(text, text::AddSpecials::yes);
        (void)read.decode(ids, text::Specials::keep);
        text::Detokenizer pieces(read, {}, text::Specials::skip);
        std::string joined;
        for (const text::TokenId id : ids) joined += pieces.push(id);
      } catch (const text::TextError&) {
      }
    }
  } catch (const Error&) {
  }
}

}  // namespace plimsoll::fuzz
