// Writes the GGUF file that a folder's recipe.json describes (golden results): gguf RECIPE_FOLDER
// OUT.gguf. Recipes with a tokenizer are written by tests/conformance.
#include <cstdio>
#include <exception>
#include <fstream>

#include "reference/gguf_bytes.h"

int main(int count, char** arguments) {
  if (count != 3) {
    std::fputs("usage: gguf RECIPE_FOLDER OUT.gguf\n", stderr);
    return 2;
  }
  try {
    const auto recipe =
        plimsoll::read_json_file(std::filesystem::path(arguments[1]) / "recipe.json");
    std::ofstream(arguments[2], std::ios::binary) << plimsoll::testing::gguf_bytes(recipe);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
