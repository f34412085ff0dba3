// Which of a folder's files its chat templates are taken from, and how large one may be.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "text/chat_template.h"

using namespace plimsoll::text;

namespace {

/// The templates of a folder with these files.
std::map<std::string, std::string> templates_of(const std::map<std::string, std::string>& files) {
  std::string name =
      (std::filesystem::temp_directory_path() / "plimsoll-templates-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  const std::filesystem::path folder = name;
  for (const auto& [file, text] : files) {
    std::filesystem::create_directories((folder / file).parent_path());
    std::ofstream(folder / file) << text;
  }
  auto templates = folder_templates(folder);
  std::filesystem::remove_all(folder);
  return templates;
}

}  // namespace

TEST_CASE("templates of a folder are those of its newest kind of file alone") {
  using Templates = std::map<std::string, std::string>;
  const std::pair<std::string, std::string> newest{"chat_template.jinja", "newest"};
  const std::pair<std::string, std::string> more{"additional_chat_templates/tool_use.jinja",
                                                 "more"};
  const std::pair<std::string, std::string> other{"additional_chat_templates/notes.txt", "other"};
  const std::pair<std::string, std::string> own{
      "chat_template.json", R"({"chat_template": [{"name": "rag", "template": "own"}]})"};
  const std::pair<std::string, std::string> oldest{"tokenizer_config.json",
                                                   R"({"chat_template": "oldest"})"};
  CHECK(templates_of({newest, more, other, own, oldest}) ==
        Templates{{"default", "newest"}, {"tool_use", "more"}});
  CHECK(templates_of({newest, own, oldest}) == Templates{{"default", "newest"}});
  CHECK(templates_of({more, oldest}) == Templates{{"tool_use", "more"}});
  CHECK(templates_of({own, oldest}) == Templates{{"rag", "own"}});
  CHECK(templates_of({oldest}) == Templates{{"default", "oldest"}});
  CHECK(templates_of({other}).empty());
}

TEST_CASE("a template has at most a MiB") {
  constexpr size_t kMost = size_t{1} << 20;
  CHECK_NOTHROW(ChatTemplate::parse(std::string(kMost, 'a')));
  CHECK_THROWS_WITH(ChatTemplate::parse(std::string(kMost + 1, 'a')),
                    Catch::Contains("more than 1048576 bytes"));
}
