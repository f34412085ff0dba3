// Conversations as a template sees them: its choice, what it is handed, where a message goes on.
#include <catch2/catch.hpp>

#include "batch/chat_prompt.h"
#include "batch/line_error.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using Catch::Contains;

namespace {

OrderedJson messages_of(const std::string& json) {
  return parse_json<OrderedJson>(json);
}

const std::string kUser = R"([{"role":"user","content":"a"}])";

std::string rendered(const std::string& source, const std::string& messages,
                     RequestFields fields = {}, ChatOptions options = {}) {
  options.chat_template = source;
  return ChatRenderer(options).render(messages_of(messages), fields);
}

RequestFields going_on() {
  RequestFields fields;
  fields.continue_final_message = true;
  fields.add_generation_prompt = false;
  return fields;
}

const std::string kAll = "{% for m in messages %}<{{ m.content }}>{% endfor %}";

}  // namespace

TEST_CASE("a template sees documents and tools as a line gives them, and no empty list of tools") {
  const std::string source = "{{ documents | tojson }} {{ tools | tojson }}";
  RequestFields fields;
  CHECK(rendered(source, kUser, fields) == "null null");
  fields.documents = messages_of(R"([{"title":"t"}])");
  fields.tools = messages_of("[]");
  CHECK(rendered(source, kUser, fields) == R"([{"title": "t"}] null)");
  fields.tools = messages_of(R"([{"type":"function"}])");
  CHECK(rendered(source, kUser, fields) == R"([{"title": "t"}] [{"type": "function"}])");
}

TEST_CASE("of a model's templates the one for tools is taken where a line offers some") {
  ChatOptions options;
  options.templates = {{"default", "plain"}, {"tool_use", "tools"}, {"rag", "documents"}};
  const auto chosen = [&](const RequestFields& fields) {
    return ChatRenderer(options).render(messages_of(kUser), fields);
  };
  RequestFields fields;
  CHECK(chosen(fields) == "plain");
  fields.tools = messages_of("[]");
  CHECK(chosen(fields) == "plain");
  fields.tools = messages_of("[{}]");
  CHECK(chosen(fields) == "tools");
  options.chat_template = "given";  // goes before the model's, a line's own before both
  CHECK(chosen(fields) == "given");
  fields.chat_template = "rag";
  CHECK(chosen(fields) == "documents");
  fields.chat_template = "{{ messages[0].content }}";
  CHECK(chosen(fields) == "a");
  CHECK_THROWS_WITH(ChatRenderer(ChatOptions{}).render(messages_of(kUser), {}),
                    Contains("--chat-template FILE"));
}

TEST_CASE("many templates in turn are each rendered as the line says") {
  ChatRenderer renderer(ChatOptions{});
  for (int turn = 0; turn < 3; ++turn) {
    for (int number = 0; number < 20; ++number) {
      RequestFields fields;
      fields.chat_template = std::to_string(number) + "{{ messages[0].content }}";
      CHECK(renderer.render(messages_of(kUser), fields) == std::to_string(number) + "a");
    }
  }
}

TEST_CASE("the time that templates ask for is the run's") {
  ChatOptions options;
  std::tm day{};
  day.tm_mday = 9;
  day.tm_mon = 1;
  day.tm_year = 101;
  options.now = day;
  CHECK(rendered("{{ strftime_now('%Y-%m-%d') }}", kUser, {}, options) == "2001-02-09");
}

TEST_CASE("a final message of parts goes on behind the last of them that has text") {
  const std::string parts =
      R"([{"role":"assistant","content":[{"type":"text","text":"one"},{"type":"text","text":"two"},)"
      R"({"type":"image"}]}])";
  CHECK(rendered("{% for m in messages %}{% for part in m.content %}[{{ part.text }}]{% endfor %}"
                 "{% endfor %}",
                 parts, going_on()) == "[one][two");
  CHECK(rendered(kAll, R"([{"role":"assistant","content":"one"}])", going_on()) == "<one");
  const auto refused = [](const std::string& source, const std::string& content) -> std::string {
    try {
      (void)rendered(source, R"([{"role":"assistant","content":)" + content + "}]", going_on());
      return "";
    } catch (const LineError& error) {
      CHECK(error.code() == code::template_error);
      return error.what();
    }
  };
  CHECK_THAT(refused("{% for part in messages[0].content %}{{ part.type }}{% endfor %}",
                     R"([{"type":"image"}])"),
             Contains("the final message has no text to continue"));
  const std::string lost = "the final message does not appear in the rendered chat";
  CHECK_THAT(refused("nothing of it", R"("one")"), Contains(lost));
  // The mark of the end is there, the message itself was changed.
  CHECK_THAT(refused("{{ messages[0].content | replace('one', 'two') }}", R"("one")"),
             Contains(lost));
}

TEST_CASE("templates of text get an image's placeholder once, where the text does not have it") {
  ChatOptions options;
  options.image_placeholder = "<i>";
  options.video_placeholder = "<v>";
  const auto shown = [&](const std::string& parts) {
    return rendered(kAll, R"([{"role":"user","content":[)" + parts + "]}]", {}, options);
  };
  const std::string image = R"({"type":"image_url","image_url":""})";
  const std::string video = R"({"type":"video_url","video_url":""})";
  const auto text = [](const std::string& words) {
    return R"({"type":"text","text":")" + words + "\"}";
  };
  CHECK(shown(text("x") + "," + image) == "<<i>\nx>");
  CHECK(shown(image + "," + video + "," + text("x") + "," + text("y")) == "<<i>\n<v>\nx\ny>");
  CHECK(shown(image + "," + text("x <i> y")) == "<x <i> y>");
  CHECK(shown(image + "," + image + "," + text("x <i> y")) == "<<i>\nx <i> y>");
  CHECK(shown(image) == "<<i>>");
  CHECK(shown(image + "," + image) == "<<i>\n<i>>");
  CHECK(rendered("{% for m in messages %}{% for part in m.content %}{{ part.type }};{% endfor %}"
                 "{% endfor %}",
                 R"([{"role":"user","content":[)" + image + "," + text("x") + "," + video + "]}]",
                 {}, options) == "image;text;video;");
}

TEST_CASE("parts that are text have their words under the name of their type") {
  const auto shown = [](const std::string& part) {
    try {
      return rendered(kAll, R"([{"role":"user","content":[)" + part + "]}]");
    } catch (const LineError& error) {
      CHECK(error.code() == code::bad_field);
      CHECK(error.param() == "messages");
      return std::string(error.what());
    }
  };
  for (const char* type : {"text", "input_text", "output_text"}) {
    CHECK(shown(R"({"type":")" + std::string(type) + R"(","text":"x","refusal":"y"})") == "<x>");
  }
  CHECK(shown(R"({"type":"refusal","refusal":"y","text":"x"})") == "<y>");
  CHECK(shown(R"({"text":"x"})") == "<x>");
  CHECK(shown("\"x\"") == "<x>");
  CHECK(shown(R"("x","y",{"type":"text","text":"z"})") == "<x\ny\nz>");
  for (const char* part :
       {R"({"type":"input_audio","text":"x"})", R"({"type":"text"})",
        R"({"type":"refusal","text":"x"})", R"({"type":"text","text":7})", "7"}) {
    INFO(part);
    CHECK_THAT(shown(part), Catch::StartsWith("messages[0].content: expected parts of type"));
  }
  CHECK(rendered(kAll, R"([{"role":"assistant","content":null}])") == "<>");
}

TEST_CASE("a template that loops over a message's content gets its parts, however it is written") {
  const std::string parts =
      R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])";
  const auto loop = [](const std::string& over) {
    return "{%- for message in messages -%}{%- set content = message.content -%}" + over +
           "{%- endfor -%}";
  };
  for (const char* over : {"{% for part in message.content %}[{{ part.text }}]{% endfor %}",
                           "{%- for part in message['content'] %}[{{ part.text }}]{% endfor %}",
                           "{% for  part  in  message[\"content\"] %}[{{ part.text }}]{% endfor %}",
                           "{% for part in content %}[{{ part.text }}]{% endfor %}",
                           "{% for part in messages[0].content %}[{{ part.text }}]{% endfor %}",
                           "{% for the_part_of_this_message_that_is_shown in message.content %}"
                           "[{{ the_part_of_this_message_that_is_shown.text }}]{% endfor %}"}) {
    INFO(over);
    CHECK(rendered(loop(over), parts) == "[a][b]");
  }
  for (const char* over : {"{{ message.content }}", "{% if content %}{{ content }}{% endif %}",
                           "{% for letter in [message.content] %}{{ letter }}{% endfor %}"}) {
    INFO(over);
    CHECK(rendered(loop(over), parts) == "a\nb");
  }
}
