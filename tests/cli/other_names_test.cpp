// Flags by the names that other programs have for them, words that are rewritten before they are
// read, and words that are quoted for a shell.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/program.h"

using namespace plimsoll;
using cli::rewrite_arguments;
using test::Outcome;
using test::Scratch;
using test::shell;

using Words = std::vector<std::string>;

TEST_CASE("another program's name of a flag is answered with ours") {
  struct Row {
    const char *command, *name, *ours;
  };
  const Scratch scratch;
  for (const Row& row :
       {Row{"run m", "--tp", "-tp"}, Row{"plan m", "--pp", "-pp"}, Row{"run m", "--dp", "-dp"},
        Row{"shard m", "--tp", "-tp"}, Row{"run m", "-ep", "--enable-expert-parallel"},
        Row{"run m", "--output", "-o"}, Row{"run m", "--input", "-i"},
        Row{"run m", "--max-new-tokens", "--max-tokens"},
        Row{"run m", "--max-completion-tokens", "--max-tokens"},
        Row{"run m", "--n-predict", "--max-tokens"}, Row{"run m", "--batch-size", "--max-num-seqs"},
        Row{"run m", "--max-batch-size", "--max-num-seqs"},
        Row{"run m", "--context-length", "--max-model-len"},
        Row{"run m", "--ctx-size", "--max-model-len"},
        Row{"run m", "--mem-fraction-static", "--gpu-memory-utilization"},
        Row{"plan m", "--gpu-name", "--gpu"}, Row{"plan m", "--card", "--gpu"}}) {
    INFO(row.command << " " << row.name);
    const Outcome outcome =
        shell(scratch, std::string("plimsoll ") + row.command + " " + row.name + " 1");
    CHECK(outcome.status == 2);
    CHECK(outcome.err ==
          std::string("plimsoll: unknown flag ") + row.name + "; did you mean " + row.ours + "?\n");
  }
}

TEST_CASE("-q before a method is --quantization; before a model of run it is quiet") {
  for (const char* method : {"awq", "bitsandbytes", "compressed-tensors", "fp8", "gguf", "gptq",
                             "gptq_marlin", "modelopt", "mxfp4", "quark", "torchao"}) {
    INFO(method);
    CHECK(rewrite_arguments({"run", "-q", method, "m"}) ==
          Words{"run", "--quantization", method, "m"});
    CHECK(rewrite_arguments({"plan", "m", "-q", method}) ==
          Words{"plan", "m", "--quantization", method});
  }
  CHECK(rewrite_arguments({"run", "-q", "m"}) == Words{"run", "-q", "m"});
  CHECK(rewrite_arguments({"run", "m", "-q"}) == Words{"run", "m", "-q"});
  CHECK(rewrite_arguments({"run", "m", "-q=fp8"}) == Words{"run", "m", "--quantization=fp8"});
  CHECK(rewrite_arguments({"plan", "m", "-q", "--gpu"}) == Words{"plan", "m", "-q", "--gpu"});
  CHECK(rewrite_arguments({"plan", "m", "-q", "made-up"}) ==
        Words{"plan", "m", "--quantization", "made-up"});
}

TEST_CASE("true and false behind --enable-chunked-prefill are its two names, as to vLLM 0.8") {
  const std::string on = "--enable-chunked-prefill", off = "--no-enable-chunked-prefill";
  for (const char* yes : {"True", "true", "TRUE"}) {
    CHECK(rewrite_arguments({"plan", "m", on, yes, "-x"}) == Words{"plan", "m", on, "-x"});
    CHECK(rewrite_arguments({"plan", on + "=" + yes, "m"}) == Words{"plan", on, "m"});
  }
  CHECK(rewrite_arguments({"plan", "m", on, "False", "-x"}) == Words{"plan", "m", off, "-x"});
  CHECK(rewrite_arguments({"plan", on + "=false", "m"}) == Words{"plan", off, "m"});
  CHECK(rewrite_arguments({"plan", on, "m"}) == Words{"plan", on, "m"});
  CHECK(rewrite_arguments({"plan", "m", on}) == Words{"plan", "m", on});
  CHECK(rewrite_arguments({"plan", "m", "--enable_chunked_prefill", "False"}) ==
        Words{"plan", "m", off});
}

TEST_CASE("dotted flags of one object are one flag behind the others, each part in its place") {
  CHECK(rewrite_arguments({"plan", "--a.b", "1", "m", "--a.c.d=x", "--e", "2"}) ==
        Words{"plan", "m", "--e", "2", "--a", R"({"b":1,"c":{"d":"x"}})"});
  CHECK(rewrite_arguments({"plan", "m", "-cc.mode", "3", "-O.level=\"2\""}) ==
        Words{"plan", "m", "--compilation-config", R"({"mode":3,"level":"2"})"});
  CHECK(rewrite_arguments({"plan", "--a_b.c_d", "null", "--", "--e.f", "1"}) ==
        Words{"plan", "--a-b", R"({"c_d":null})", "--", "--e.f", "1"});
  CHECK(rewrite_arguments({"plan", "--from", "--x.y 1", "-i=a.b"}) ==
        Words{"plan", "--from", "--x.y 1", "-i", "a.b"});
}

TEST_CASE("a word is quoted for a shell where it needs to be, and is the same behind it") {
  const Scratch scratch;
  for (const std::string word :
       {"plain", "",  "two words", "it's", "$HOME", "a\"b", "back\\slash", "`id`", "*",    "?",
        ";",     "&", "|",         "<",    ">",     "(a)",  "{a,b}",       "a\tb", "a\nb", "'"}) {
    INFO(word);
    CHECK(shell(scratch, "printf %s " + cli::shell_quoted(word)).out == word);
  }
  CHECK(cli::shell_quoted("") == "''");
  CHECK(cli::shell_quoted("a-b_c.d/e=f") == "a-b_c.d/e=f");
}
