// Checkpoints from recipes: weights that a formula gives, so that no weights are kept.
#pragma once

#include <filesystem>

namespace plimsoll::testing {

/// Writes the checkpoint that `recipe_folder`'s recipe.json describes to `out` (made when missing):
/// model.safetensors, and the folder's config.json and generation_config.json. Element i of a
/// tensor is splitmix64 of (FNV-1a of its name xor the recipe's seed) at step i + 1, mapped to
/// mean +- amplitude, and rounded to the tensor's dtype.
void write_checkpoint(const std::filesystem::path& recipe_folder, const std::filesystem::path& out);
/// Writes the tensors alone, from a recipe's file to a safetensors file.
void write_tensors(const std::filesystem::path& recipe, const std::filesystem::path& out);

}  // namespace plimsoll::testing
