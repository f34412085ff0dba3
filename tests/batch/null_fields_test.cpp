// Fields that are null count as left out: data sets of one schema write all of its fields in each
// line.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "batch/read_request.h"
#include "batch/request_line.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using testing::batch_line;
using testing::read;
using testing::Read;
using testing::with_field;

namespace {

Read read_part(const std::string& part) {
  return read(R"({"messages":[{"role":"user","content":[)" + part +
              R"(,{"type":"text","text":"?","image_url":null,"image":null,"video":null}]}]})");
}

const std::string kChat = R"({"messages":[{"role":"user","content":"x"}],)";

}  // namespace

TEST_CASE("an image's part has its address in the one field that is not null") {
  for (const char* part : {
           R"({"type":"image","image_url":null,"image":"cat.png"})",
           R"({"type":"image","image_url":null,"image":null,"url":"cat.png"})",
           R"({"type":"image","image_url":null,"image":{"url":"cat.png"},"url":null})",
           R"({"type":"image","image_url":{"url":null},"image":"cat.png"})",
           R"({"type":"image","image_url":{"url":null,"detail":null},"url":"cat.png"})",
           R"({"type":"image_url","image_url":{"url":"cat.png","detail":null},"image":null})",
           R"({"type":"image_url","image_url":"cat.png","image":null,"url":null,"text":null})",
           R"({"type":"input_image","image_url":"cat.png","file_id":null,"detail":null})",
       }) {
    INFO(part);
    const Read line = read_part(part);
    CHECK(line.message == "");
    CHECK(line.unknown.empty());
    REQUIRE(line.request.media.size() == 1);
    CHECK(line.request.media[0].kind == MediaKind::image);
    CHECK(line.request.media[0].sources == std::vector<std::string>{"cat.png"});
  }
}

TEST_CASE("a video's part has its address in the one field that is not null") {
  for (const char* part : {
           R"({"type":"video","video_url":null,"video":["1.png","2.png"]})",
           R"({"type":"video","video_url":{"url":null},"video":["1.png","2.png"],"url":null})",
           R"({"type":"video","video_url":null,"video":null,"url":["1.png","2.png"]})",
           R"({"type":"video_url","video_url":{"url":["1.png","2.png"]},"video":null})",
       }) {
    INFO(part);
    const Read line = read_part(part);
    CHECK(line.message == "");
    REQUIRE(line.request.media.size() == 1);
    CHECK(line.request.media[0].kind == MediaKind::video);
    CHECK(line.request.media[0].sources == std::vector<std::string>{"1.png", "2.png"});
  }
}

TEST_CASE("a part whose addresses are all null has none") {
  for (const char* part : {
           R"({"type":"image","image_url":null})",
           R"({"type":"image","image_url":{"url":null},"image":null,"url":null})",
           R"({"type":"video","video_url":{"url":null},"video":null})",
       }) {
    INFO(part);
    const Read line = read_part(part);
    CHECK(line.code == "bad_field");
    CHECK(line.param == "messages[0].content[0]");
  }
}

TEST_CASE("a kind of data that is null beside a prompt is none") {
  const auto media = [](const std::string& data) {
    const Read line = read(with_field("multi_modal_data", data));
    INFO(data << ": " << line.message);
    CHECK(line.code == "");
    return line.request.media;
  };
  CHECK(media("null").empty());
  CHECK(media(R"({"image":null,"video":null})").empty());
  const auto image = media(R"({"image":"cat.png","video":null})");
  REQUIRE(image.size() == 1);
  CHECK(image[0].kind == MediaKind::image);
  const auto video = media(R"({"image":null,"video":["1.png"]})");
  REQUIRE(video.size() == 1);
  CHECK(video[0].kind == MediaKind::video);
}

TEST_CASE("each field of a request may be null") {
  for (const Field& field : request_field_table()) {
    INFO(field.name);
    const std::string null = fmt::format("\"{}\":null}}", field.name);
    if (field.where & Field::completions) {
      const char* const prompt =
          field.name == "prompt" ? R"({"prompt_token_ids":[5],)" : R"({"prompt":"x",)";
      const Read line = read(prompt + null);
      CHECK(line.message == "");
      CHECK(line.unknown.empty());
      CHECK(line.request.prompts.size() == 1);
      CHECK(line.request.fields.sampling.temperature == 1);
    }
    if ((field.where & Field::chat) && field.name != "messages") {
      const Read line = read(kChat + null);
      CHECK(line.message == "");
      CHECK(line.unknown.empty());
      CHECK(line.request.messages.size() == 1);
      CHECK(line.request.fields.chat_template_kwargs.empty());
    }
  }
}

TEST_CASE("a field that is null takes nothing from the one beside it") {
  const auto fields = [](const std::string& line) {
    const Read found = read(line);
    INFO(line << ": " << found.message);
    CHECK(found.code == "");
    return found.request.fields;
  };
  const auto completion = [&](const std::string& more) {
    return fields(R"({"prompt":"x",)" + more + "}");
  };
  const auto chat = [&](const std::string& more) { return fields(kChat + more + "}"); };
  CHECK(completion(R"("max_completion_tokens":null,"max_tokens":5)").max_tokens == 5);
  CHECK(completion(R"("max_completion_tokens":5,"max_tokens":null)").max_tokens == 5);
  CHECK(chat(R"("logprobs":true,"top_logprobs":null)").sampling.logprobs == 0);
  CHECK(chat(R"("reasoning_effort":"high","chat_template_kwargs":null)")
            .chat_template_kwargs["enable_thinking"] == true);
  CHECK(
      chat(R"("continue_final_message":true,"add_generation_prompt":null)").add_generation_prompt ==
      false);
  CHECK(chat(R"("tool_choice":null,"tools":[{"type":null,"function":{"name":"f",)"
             R"("description":null,"parameters":null,"strict":null}}])")
            .tools->size() == 1);
  // What says the form of an answer.
  const auto text = [&](const std::string& more) {
    const auto constraint = completion(more).constraint;
    REQUIRE(constraint);
    return constraint->text;
  };
  CHECK(text(R"("guided_json":null,"guided_regex":"a","structured_outputs":null)") == "a");
  CHECK(text(R"("guided_json":{},"guided_whitespace_pattern":null,"response_format":null)") ==
        "{}");
  CHECK(text(R"("structured_outputs":{"json":null,"regex":"a","choice":null,"grammar":null,)"
             R"("json_object":null,"whitespace_pattern":null,"disable_any_whitespace":null})") ==
        "a");
  CHECK(text(R"("response_format":{"type":"json_schema","schema":null,)"
             R"("json_schema":{"name":null,"schema":{},"strict":null}})") == "{}");
  CHECK(text(R"("response_format":{"type":"json_object","schema":{},"json_schema":null})") == "{}");
  CHECK_FALSE(completion(R"("response_format":{"type":"text","schema":null,"json_schema":null})")
                  .constraint);
  // What says the kind of a line.
  for (const char* line : {R"({"messages":null,"prompt":"x"})",
                           R"({"custom_id":"a","body":{"messages":null,"prompt":"x"}})",
                           R"({"custom_id":"a","method":null,"body":{"prompt":"x"}})"}) {
    const Read found = read(line);
    INFO(line << ": " << found.message);
    CHECK(found.code == "");
    CHECK(found.head.endpoint == Endpoint::completions);
  }
  // Of the envelope.
  CHECK(read(R"({"id":null,"prompt":"x"})").head.id == "3");
  CHECK(read(R"({"custom_id":"a","url":null,"body":{"prompt":"x"}})").code == "");
}
