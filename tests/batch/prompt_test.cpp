// Prompts to token ids, with the sample model's tokenizer and template.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "batch/line_error.h"
#include "batch/prompt_builder.h"
#include "text/tokenizer_fixture.h"

using namespace plimsoll;
using namespace plimsoll::batch;

namespace {

const std::string kFolder = PLIMSOLL_SOURCE_DIR "/samples/sample-model";

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer loaded = text::Tokenizer::load(kFolder);
  return loaded;
}

struct Built {
  BuiltRequest request;
  std::string code, param;
  [[nodiscard]] const TokenIds& ids(size_t prompt = 0, size_t part = 0) const {
    return request.prompts.at(prompt).parts.at(part);
  }
  [[nodiscard]] std::string text() const { return tokenizer().decode(ids(), text::Specials::keep); }
};

Built build(const std::string& json, PromptOptions options = {.max_model_len = 100}) {
  if (options.tokenizer == nullptr) options.tokenizer = &tokenizer();
  ChatOptions chat;
  chat.templates = text::folder_templates(kFolder);
  chat.special_tokens = text::special_token_texts(kFolder);
  PromptBuilder builder(options, chat);
  Line line;
  line.number = 1;
  line.text = json;
  Built built;
  try {
    LineHead head;
    OrderedJson body = read_envelope(line, Envelope::plain, head);
    const FieldLimits limits{.vocab_size = tokenizer().vocab_size()};
    const LineRequest request =
        read_request(head, std::move(body), {}, limits, [](std::string_view, std::string_view) {});
    built.request = builder.build(head, request);
  } catch (const LineError& error) {
    built.code = error.code();
    built.param = error.param();
  }
  return built;
}

std::string repeated(const std::string& field, int words, const std::string& more = "") {
  std::string text;
  for (int i = 0; i < words; ++i) text += " king";
  const std::string value =
      field == "prompt" ? "\"" + text + "\"" : "[{\"role\":\"user\",\"content\":\"" + text + "\"}]";
  return "{\"" + field + "\":" + value + more + "}";
}

PromptOptions with(LongPrompt policy, int64_t overlap = 0) {
  return {.max_model_len = 100, .long_prompt = policy, .split_overlap = overlap};
}

}  // namespace

TEST_CASE("a conversation is what the model's template makes of it") {
  const std::string chat = R"({"messages":[{"role":"user","content":"Who comes?"}])";
  CHECK(build(chat + "}").text() == "<|user|>Who comes?<|end|>\n<|assistant|>");
  CHECK(build(chat + R"(,"add_generation_prompt":false})").text() == "<|user|>Who comes?<|end|>\n");
  CHECK(
      build(R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"My l"}],)"
            R"("continue_final_message":true})")
          .text() == "<|user|>a<|end|>\n<|assistant|>My l");
  // A blank at the end of the message stays, unless the template takes it.
  const auto continued = [](const std::string& content) {
    return build(
               R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"My "}],)"
               R"("continue_final_message":true,"chat_template":)"
               R"("{% for m in messages %}{{ )" +
               content + R"( }};{% endfor %}"})")
        .text();
  };
  CHECK(continued("m.content") == "a;My ");
  CHECK(continued("m.content|trim") == "a;My");
  CHECK(build(R"({"messages":[{"role":"user","content":["a",{"type":"text","text":"b"}]}],)"
              R"("add_generation_prompt":false})")
            .text() == "<|user|>a\nb<|end|>\n");
}

TEST_CASE("a text that costs the tokenizer too much costs its line") {
  const text::Tokenizer costly = text::load_json(
      R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a|aa)+$"},"behavior":"Isolated"},
          "model":{"type":"BPE","vocab":{"a":0,"!":1},"merges":[]}})");
  const PromptOptions options = {.tokenizer = &costly, .max_model_len = 100};
  const std::string text = std::string(60, 'a') + "!";
  for (const auto& [field, json] :
       {std::pair<std::string, std::string>{"prompt", "{\"prompt\":\"" + text + "\"}"},
        {"messages", R"({"messages":[{"role":"user","content":")" + text + "\"}]}"}}) {
    const Built built = build(json, options);
    CHECK(built.code == "tokenizer_error");
    CHECK(built.param == field);
  }
  CHECK(build(R"({"prompt":"aa"})", options).ids() == TokenIds{0, 0});
}

TEST_CASE("templates see the effort of reasoning as vLLM hands it over") {
  const auto prompt = [](const std::string& more) {
    return build(R"({"messages":[{"role":"user","content":"Hi"}],"chat_template":)"
                 R"("effort={{ reasoning_effort | default('none given') }} )"
                 R"(think={{ enable_thinking | default('unset') }}")" +
                 more + "}")
        .text();
  };
  CHECK(prompt(R"(,"reasoning_effort":"high")") == "effort=high think=True");
  CHECK(prompt(R"(,"reasoning_effort":"none")") == "effort=none think=False");
  CHECK(prompt("") == "effort=none given think=unset");
  CHECK(prompt(R"(,"reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false})") ==
        "effort=low think=False");
}

TEST_CASE("templates: a line's own, by source or by name, and their failures") {
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}],"chat_template":)";
  CHECK(build(chat + R"("{{ messages[0].content }}{{ bos_token }}"})").text() == "x<|endoftext|>");
  CHECK(build(chat + R"("default"})").text() == "<|user|>x<|end|>\n<|assistant|>");
  CHECK(build(chat + R"("{{ x"})").code == "template_error");
  CHECK(build(chat + R"("{{ raise_exception('no') }}"})").code == "template_error");
  CHECK(build(chat + R"("{% for i in range(1000000000) %}{% endfor %}"})").code ==
        "template_error");
  // Templates that loop over content see parts, others text.
  CHECK(build(R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],)"
              R"("chat_template":"{% for p in messages[0].content %}{{ p.type }}{% endfor %}"})")
            .code == "");
  CHECK(
      build(
          R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],)"
          R"("chat_template":"{% for m in messages %}{% for p in m['content'] %}{{ p.type }}{% endfor %}{% endfor %}"})")
          .text() == "text");
  CHECK(build(R"({"messages":[{"role":"user","content":[{"type":"input_audio"}]}]})").param ==
        "messages");
}

TEST_CASE("tool calls reach templates with their arguments as objects") {
  CHECK(
      build(R"({"messages":[{"role":"assistant","tool_calls":[{"type":"function","function":)"
            R"({"name":"f","arguments":"{\"b\":1,\"a\":2}"}}]}],"chat_template":)"
            R"("{{ messages[0].tool_calls[0].function.arguments.a }}{{ messages[0].content }}|"})")
          .text() == "2|");
}

TEST_CASE(
    "templates see no calls where a message has none, and reasoning under each of its names") {
  const auto shown = [](const std::string& message, const std::string& of) {
    return build(R"({"messages":[{"role":"assistant","content":"c",)" + message +
                 R"(}],"chat_template":"{{ messages[0].)" + of + "|tojson }}\"}")
        .text();
  };
  CHECK(shown(R"("tool_calls":[])", "tool_calls is defined") == "false");
  CHECK(shown(R"("tool_calls":null)", "tool_calls is defined") == "false");
  for (const auto* arguments : {R"("arguments":"")", R"("arguments":null)", R"("x":1)"}) {
    const std::string call =
        std::string(R"("tool_calls":[{"function":{"name":"f",)") + arguments + "}}]";
    CHECK(shown(call, "tool_calls[0].function.arguments") == "{}");
  }
  for (const auto* given : {"reasoning", "reasoning_content", "thinking"}) {
    for (const auto* asked : {"reasoning", "reasoning_content", "thinking"}) {
      CHECK(shown("\"" + std::string(given) + "\":\"why\"", asked) == "\"why\"");
    }
  }
  CHECK(shown(R"("reasoning":null)", "reasoning_content is defined") == "false");
}

TEST_CASE("prompts that are ids are taken as they are") {
  CHECK(build(R"({"prompt_token_ids":[3,1,2]})").ids() == TokenIds{3, 1, 2});
  const Built two = build(R"({"prompt":[[4],[5,6]]})");
  CHECK(two.code == "");
  CHECK(two.ids(0) == TokenIds{4});
  CHECK(two.ids(1) == TokenIds{5, 6});
}

TEST_CASE("a prompt must leave room for one token") {
  CHECK(build(repeated("prompt", 99)).code == "");
  CHECK(build(repeated("prompt", 99)).request.sampling.at(0).max_tokens == 1);
  CHECK(build(repeated("prompt", 100)).code == "context_too_long");
  CHECK(build(repeated("messages", 100)).param == "messages");
  CHECK(build("{\"prompt\":\"\"}").code == "bad_field");
}

TEST_CASE("cut prompts leave room for max_tokens, else for a quarter of the context") {
  const auto length = [](const std::string& line, LongPrompt policy) {
    return build(line, with(policy)).ids().size();
  };
  CHECK(length(repeated("prompt", 200), LongPrompt::truncate_left) == 75);
  CHECK(length(repeated("prompt", 90), LongPrompt::truncate_left) == 90);
  CHECK(length(repeated("prompt", 200, ",\"max_tokens\":10"), LongPrompt::truncate_right) == 90);
  CHECK(length(repeated("prompt", 95, ",\"max_tokens\":10"), LongPrompt::truncate_right) == 90);
  CHECK(length(repeated("prompt", 200, ",\"max_tokens\":99"), LongPrompt::truncate_left) == 50);
  CHECK(build(repeated("prompt", 200), with(LongPrompt::truncate_left)).request.dropped_tokens ==
        125);
  CHECK(build(repeated("prompt", 50, ",\"truncate_prompt_tokens\":7")).ids().size() == 7);
  const std::string six = R"({"prompt_token_ids":[10,11,12,13,14,15],"truncate_prompt_tokens":2)";
  CHECK(build(six + "}").ids() == TokenIds{14, 15});
  CHECK(build(six + R"(,"truncation_side":"left"})").ids() == TokenIds{14, 15});
  CHECK(build(six + R"(,"truncation_side":"right"})").ids() == TokenIds{10, 11});
  // A prompt is cut to leave room for one token.
  CHECK(build(repeated("prompt", 200, ",\"truncate_prompt_tokens\":-1")).ids().size() == 99);
}

TEST_CASE("split prompts overlap, and lose nothing") {
  const Built whole = build(repeated("prompt", 200), {.max_model_len = 1000});
  const Built split =
      build(repeated("prompt", 200, ",\"max_tokens\":20"), with(LongPrompt::split, 5));
  const std::vector<TokenIds>& parts = split.request.prompts.at(0).parts;
  REQUIRE(parts.size() == 3);
  CHECK(split.request.sampling.size() == 3);
  TokenIds joined = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    CHECK(std::equal(parts[i].begin(), parts[i].begin() + 5, joined.end() - 5));
    joined.insert(joined.end(), parts[i].begin() + 5, parts[i].end());
  }
  CHECK(joined == whole.ids());
  // A chunk is new in at least half, whatever the overlap: chunks of 80 begin 40 tokens apart.
  const Built much =
      build(repeated("prompt", 200, ",\"max_tokens\":20"), with(LongPrompt::split, 1000));
  CHECK(much.request.prompts.at(0).parts.size() == 4);
}

TEST_CASE("split conversations keep their template whole") {
  const Built split =
      build(repeated("messages", 200, ",\"max_tokens\":20"), with(LongPrompt::split, 0));
  REQUIRE(split.code == "");
  REQUIRE(split.request.prompts.at(0).parts.size() > 2);
  for (const TokenIds& part : split.request.prompts.at(0).parts) {
    const std::string text = tokenizer().decode(part, text::Specials::keep);
    CHECK(text.starts_with("<|user|>"));
    CHECK(text.ends_with("<|end|>\n<|assistant|>"));
    CHECK(part.size() <= 80);
  }
  CHECK(build(R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":")" +
                  std::string(1000, 'x') + R"("}]})",
              with(LongPrompt::split))
            .code == "context_too_long");
}

TEST_CASE("how much is generated") {
  const auto most = [](const std::string& fields, PromptOptions options = {.max_model_len = 100}) {
    const Built built = build("{\"prompt\":\"To be\"" + fields + "}", options);
    return built.code.empty() ? built.request.sampling.at(0).max_tokens : -1;
  };
  PromptOptions capped{.max_model_len = 100, .max_tokens_cap = 8};
  CHECK(most("") == 98);
  CHECK(most(",\"max_tokens\":5") == 5);
  CHECK(most(",\"max_tokens\":5000") == 98);
  CHECK(most("", capped) == 8);
  CHECK(most(",\"max_tokens\":50", capped) == 8);
  CHECK(most(",\"max_tokens\":5", capped) == 5);
  CHECK(most(",\"max_tokens\":5,\"min_tokens\":6") == -1);
  CHECK(most(",\"max_tokens\":0,\"echo\":true") == 1);
}

TEST_CASE("bad words are banned at the start and, where vLLM does, within a text") {
  const Built one_token = build(R"({"prompt":"x","bad_words":["man"]})");
  const auto& words = one_token.request.sampling.at(0).bad_words;
  REQUIRE(words.size() == 2);
  CHECK(tokenizer().decode(words[0], text::Specials::keep) == "man");
  CHECK(tokenizer().decode(words[1], text::Specials::keep) == " man");
  // Two tokens at the start, one within: vLLM takes the first spelling alone.
  const Built shorter = build(R"({"prompt":"x","bad_words":["king"]})");
  CHECK(shorter.request.sampling.at(0).bad_words.size() == 1);
}
