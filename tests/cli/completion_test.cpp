// Completion scripts against --help, and --version.
#include <catch2/catch.hpp>

#include "cli/completion/completion.h"
#include "cli/help_flags.h"
#include "cli/program.h"
#include "skipped.h"

using namespace plimsoll;
using test::flags_in;
using test::flags_of_help;
using test::Scratch;
using test::shell;

using Names = std::set<std::string>;

namespace {

const std::string kShort[] = {"-tp", "-pp", "-dp", "-dcp"};

// --help shows no -tp, -pp, -dp, -dcp.
Names without_short(Names names) {
  for (const std::string& name : kShort) names.erase(name);
  return names;
}

// Completions that bash offers at the end of `words`, the last of which is being typed.
Names offered(const Scratch& scratch, const std::string& words) {
  const auto outcome =
      shell(scratch, "plimsoll --completion bash >complete.bash; . ./complete.bash; COMP_WORDS=(" +
                         words +
                         "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _plimsoll 2>/dev/null; "
                         "printf '%s\\n' \"${COMPREPLY[@]}\"");
  std::istringstream lines(outcome.out);
  Names names;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) names.insert(line);
  }
  return names;
}

Names found(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  Names names;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at)
    names.insert((*at)[1]);
  return names;
}

// The part of a script from `first` up to `last`.
std::string between(const std::string& text, const std::string& first, const std::string& last) {
  const size_t from = text.find(first);
  REQUIRE(from != std::string::npos);
  return text.substr(from, text.find(last, from) - from);
}

}  // namespace

TEST_CASE("completions offer the flags of --help") {
  const Scratch scratch;
  const std::string zsh = shell(scratch, "plimsoll --completion zsh").out;
  const std::string fish = shell(scratch, "plimsoll --completion fish").out;
  for (const std::string command : {"run", "plan", "shard", "doctor"}) {
    INFO(command);
    const Names helped = flags_of_help(shell(scratch, "plimsoll " + command + " --help").out);
    CHECK(helped.size() >= 5);
    CHECK(without_short(offered(scratch, "plimsoll " + command + " -")) == helped);
    const std::string part = between(zsh, "    " + command + ")\n", ";;");
    CHECK(without_short(found(part, R"('\*(--?[a-zA-Z-]+?)[=+]?\[)")) == helped);
    std::string lines;
    std::istringstream all(fish);
    for (std::string line; std::getline(all, line);) {
      if (line.find("'__fish_seen_subcommand_from " + command + "'") != std::string::npos) {
        lines += line.substr(0, line.find(" -d ")) + "\n";
      }
    }
    Names names;
    for (const std::string& name : found(lines, " -l ([a-z-]+)")) names.insert("--" + name);
    for (const std::string& name : found(lines, " -s ([a-zA-Z])")) names.insert("-" + name);
    CHECK(names == helped);
  }
}

TEST_CASE("bash completes commands and values") {
  const Scratch scratch;
  CHECK(offered(scratch, "plimsoll p") == Names{"plan"});
  CHECK(offered(scratch, "plimsoll --v") == Names{"--version"});
  CHECK(offered(scratch, "plimsoll plan x --format ''") ==
        Names{"args", "html", "json", "log", "serve", "text"});
  CHECK(offered(scratch, "plimsoll plan x --format = h") == Names{"html"});
  CHECK(offered(scratch, "plimsoll run x --dtype b") == Names{"bfloat16"});
  CHECK(offered(scratch, "plimsoll run x --threads ''").empty());
  CHECK(offered(scratch, "plimsoll plan x --gpu H200-N") == Names{"H200-NVL-141GB"});
  CHECK(offered(scratch, "plimsoll run x -t") == Names{"-tp"});
  scratch.write("prompts.jsonl", "");
  CHECK(offered(scratch, "plimsoll run x -i prom") == Names{"prompts.jsonl"});
  CHECK(offered(scratch, "plimsoll run prom") == Names{"prompts.jsonl"});
}

TEST_CASE("shells that are here take their scripts") {
  const Scratch scratch;
  for (const std::string name : {"bash", "zsh", "fish"}) {
    INFO(name);
    if (shell(scratch, "command -v " + name).status != 0) {
      testing::skip("no " + name);
      continue;
    }
    const auto outcome =
        shell(scratch, "plimsoll --completion " + name + " >script; " + name + " -n script");
    INFO(outcome.err);
    CHECK(outcome.status == 0);
  }
  CHECK(shell(scratch, "plimsoll --completion tcsh").status == 2);
}

TEST_CASE("shells read quotes, backslashes and brackets of a flag's help as text") {
  cli::CompletedFlag flag;
  flag.names = {"--flag"};
  flag.help = R"(don't [a: \b])";
  const std::vector<cli::CompletedCommand> commands = {{"", "", {}}, {"run", "runs", {flag}}};
  CHECK_THAT(cli::fish_completion(commands), Catch::Contains(R"( -d 'don\'t [a: \\b]')"));
  CHECK_THAT(cli::zsh_completion(commands), Catch::Contains(R"([don'\''t \[a\: \\b\]])"));
}

TEST_CASE("the version comes first, then what the program is made of") {
  const Scratch scratch;
  const std::string text = shell(scratch, "plimsoll --version").out;
  CHECK_THAT(text, Catch::StartsWith("plimsoll " PLIMSOLL_VERSION "\n"));
  for (const char* part :
       {"\ncommit ", "\ncompiler ", "\ninstruction sets ", "portable", "\nCUDA ", "fmt ",
        "nlohmann/json ", "CLI11 ", "PCRE2 ", "utf8proc ", "SentencePiece ", "OpenSSL ", "xxHash ",
        "libjpeg ", "libpng ", "libwebp ", "giflib "}) {
    CHECK_THAT(text, Catch::Contains(part));
  }
  // A library whose version CMake did not learn would leave its name alone.
  CHECK(!std::regex_search(text, std::regex(" ,|  ,| \n")));
}
