// Identities of files, by digests that cost little.
#pragma once

#include <filesystem>
#include <string>

#include "base/json.h"
#include "files/input_file.h"

namespace plimsoll::files {

/// XXH3 of 128 bits of a regular input as it is stored, from where reading begins; rewinds the
/// input. Throws Error(input_unusable).
std::string digest_of(InputFile& input);
/// Digest of a small file; of a large one its size, its beginning and 64 blocks spread over it, so
/// that a checkpoint is identified without being read. Throws Error(checkpoint_unusable).
std::string sampled_digest(const std::filesystem::path& file);
/// Digests {name: digest} of the files of a folder that make up a model: weights, configurations,
/// vocabularies, templates. Links are followed.
OrderedJson model_digests(const std::filesystem::path& folder);

}  // namespace plimsoll::files
