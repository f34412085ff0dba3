// Writes the checkpoint that a folder's recipe.json describes (golden results): checkpoint RECIPE
// OUT.
#include <cstdio>
#include <exception>

#include "reference/recipe.h"

int main(int count, char** arguments) {
  if (count != 3) {
    std::fputs("usage: checkpoint RECIPE_FOLDER OUT_FOLDER\n", stderr);
    return 2;
  }
  try {
    plimsoll::testing::write_checkpoint(arguments[1], arguments[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
