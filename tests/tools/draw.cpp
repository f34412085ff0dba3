// Writes random tensors beside a config.json, under the names and shapes that `run` looks for, as
// model.safetensors: draw FOLDER [BF16|F16|F32]
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>

#include "model/config.h"
#include "reference/drawn_recipe.h"
#include "reference/recipe.h"

namespace {

void draw(const std::filesystem::path& folder, const char* type) {
  using namespace plimsoll;
  const auto dtype = dtype_from_safetensors(type);
  if (!dtype) throw std::runtime_error(std::string("unknown dtype ") + type);
  const model::ModelSpec spec = model::make_model_spec(model::read_config(folder));
  std::ofstream(folder / "recipe.json") << testing::drawn_recipe(spec, *dtype).dump(1);
  testing::write_tensors(folder / "recipe.json", folder / "model.safetensors");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2 && count != 3) {
    std::fputs("usage: draw FOLDER [BF16|F16|F32]\n", stderr);
    return 2;
  }
  try {
    draw(arguments[1], count == 3 ? arguments[2] : "F32");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
