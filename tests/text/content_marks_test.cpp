// Special-token text in user content: plain where it is asked to be.
#include "text/content_marks.h"

#include <catch2/catch.hpp>

#include "text/chat_template.h"
#include "text/text_error.h"
#include "tokenizer_fixture.h"

namespace plimsoll::text {
namespace {

// Ids of characters are their places in "<ab>xy"; "<a>" is 7, "<ab>" 8, both special; "<x>" is 9.
const Tokenizer& tokenizer() {
  static const Tokenizer loaded = load_json(R"({"added_tokens":[
      {"id":7,"content":"<a>","special":true,"normalized":false},
      {"id":8,"content":"<ab>","special":true,"normalized":false},
      {"id":9,"content":"<x>","special":false,"normalized":false}],
      "model":{"type":"BPE","vocab":{"<":0,"a":1,"b":2,">":3,"x":4,"y":5,"?":6,"<a>":7,"<ab>":8,"<x>":9},
               "merges":[]}})");
  return loaded;
}

Ids encode(const std::string& text, const std::vector<PlainSpan>& plain) {
  return tokenizer().encode(text, AddSpecials::no, plain);
}

OrderedJson conversation(const std::string& json) {
  return OrderedJson::parse(json);
}

// The ids of the contents, each in "<a>...<a>" of a template's own.
Ids rendered(const std::string& json, const std::string& between = "{{ m.content }}") {
  OrderedJson messages = conversation(json);
  const ContentMarks marks(messages);
  marks.mark(tokenizer(), messages);
  ChatInput input;
  input.messages = messages;
  const ChatTemplate source =
      ChatTemplate::parse("{% for m in messages %}<a>" + between + "<a>{% endfor %}");
  const MarkedText text = marks.take_out(source.render(input));
  return encode(text.text, text.plain);
}

TEST_CASE("a special token is none where it overlaps plain text") {
  CHECK(encode("<a>x<a>", {}) == Ids{7, 4, 7});
  CHECK(encode("<a>x<a>", {{0, 3}}) == Ids{0, 1, 3, 4, 7});
  CHECK(encode("<a>x<a>", {{3, 4}}) == Ids{7, 4, 7});
  CHECK(encode("<a>x<a>", {{2, 5}}) == Ids{0, 1, 3, 4, 0, 1, 3});
  CHECK(encode("<a>x<a>", {{4, 7}}) == Ids{7, 4, 0, 1, 3});
  CHECK(encode("<a><x>", {kAllPlain}) == Ids{0, 1, 3, 9});
}

TEST_CASE("special text in a text is found, and at its end what could become some") {
  const auto found = [](const std::string& text) {
    std::vector<std::pair<size_t, size_t>> spans;
    for (const PlainSpan& span : tokenizer().special_text(text))
      spans.emplace_back(span.begin, span.end);
    return spans;
  };
  using Spans = std::vector<std::pair<size_t, size_t>>;
  CHECK(found("xy").empty());
  CHECK(found("<x>").empty());
  CHECK(found("y<a><ab>y") == Spans{{1, 4}, {4, 8}});
  CHECK(found("y<a") == Spans{{1, 3}});
  CHECK(found("<") == Spans{{0, 1}});
  CHECK(found("<y").empty());
}

TEST_CASE("what users and tools write is text, what templates write is not") {
  CHECK(rendered(R"([{"role":"user","content":"x<ab>y"}])") == Ids{7, 4, 0, 1, 2, 3, 5, 7});
  CHECK(rendered(R"([{"role":"tool","content":"<a>"}])") == Ids{7, 0, 1, 3, 7});
  CHECK(rendered(R"([{"role":"assistant","content":"<a>"}])") == Ids{7, 7, 7});
  CHECK(rendered(R"([{"role":"user","content":[{"type":"text","text":"<a>"},"<a>"]}])",
                 "{{ m.content[0].text + m.content[1] }}") == Ids{7, 0, 1, 3, 0, 1, 3, 7});
  CHECK(rendered(R"([{"role":"user","content":null},{"role":"user"}])", "") == Ids{7, 7, 7, 7});
}

TEST_CASE("parts that spell a special token together stay text") {
  CHECK(rendered(R"([{"role":"user","content":["y<","ab>"]}])",
                 "{{ m.content[0] }}{{ m.content[1] }}") == Ids{7, 5, 0, 1, 2, 3, 7});
}

TEST_CASE("marks are characters that the conversation does not use") {
  const auto json = [](const std::string& text) {
    return R"([{"role":"user","content":")" + text + "\"}]";
  };
  CHECK(rendered(json("\uFDD0<a>\uFDD1")) == Ids{7, 0, 1, 3, 7});
  std::string all;
  for (int last = 0x90; last <= 0xAF; ++last)
    all += std::string("\xEF\xB7") + static_cast<char>(last);
  CHECK_THROWS_AS(ContentMarks(conversation(json(all))), TextError);
}

TEST_CASE("a template that cuts marked text leaves the rest of the prompt as it is") {
  const std::string message = R"([{"role":"user","content":"<ab>xy"}])";
  CHECK(rendered(message, "{{ m.content[:3] }}") == Ids{7, 0, 1, 7});
  CHECK(rendered(message, "{{ m.content[3:] }}") == Ids{7, 2, 3, 4, 5, 7});
  CHECK(rendered(message, "{{ m.content|upper }}") == Ids{7, 0, 3, 7});
}

TEST_CASE("how much special text there was is told") {
  OrderedJson messages =
      conversation(R"([{"role":"user","content":"<a>x<ab>"},{"role":"system","content":"<a>"}])");
  const ContentMarks marks(messages);
  CHECK(marks.mark(tokenizer(), messages) == 2);
  CHECK(messages[1]["content"] == "<a>");
}

}  // namespace
}  // namespace plimsoll::text
