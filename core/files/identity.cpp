#include "files/identity.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "files/digest.h"

namespace plimsoll::files {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kWhole = uint64_t{64} << 20;
constexpr size_t kHead = size_t{256} << 10;  // most of a safetensors header
constexpr size_t kSampleBytes = 4096;
constexpr uint64_t kSamples = 64;
constexpr std::array kSuffixes = {".safetensors", ".json", ".model", ".txt", ".jinja", ".tiktoken"};

void add_block(std::ifstream& file, uint64_t at, std::vector<char>& block, Digest& digest) {
  file.clear();
  file.seekg(static_cast<std::streamoff>(at));
  file.read(block.data(), static_cast<std::streamsize>(block.size()));
  digest.add(block.data(), static_cast<size_t>(file.gcount()));
}

}  // namespace

std::string digest_of(InputFile& input) {
  Digest digest;
  std::vector<char> block(size_t{1} << 20);
  while (true) {
    const std::optional<size_t> got = input.read_stored(block.data(), block.size(), -1);
    if (!got) continue;
    if (*got == 0) break;
    digest.add(block.data(), *got);
  }
  input.rewind();
  return digest.hex();
}

std::string sampled_digest(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  if (!file || error) {
    fail(ExitCode::checkpoint_unusable, "{}: cannot be read: {}", path.string(),
         std::generic_category().message(errno));
  }
  Digest digest;
  digest.add(&size, sizeof size);
  std::vector<char> block(kHead);
  if (size <= kWhole) {
    for (uint64_t at = 0; at < size; at += kHead) add_block(file, at, block, digest);
    return digest.hex();
  }
  add_block(file, 0, block, digest);
  block.resize(kSampleBytes);
  for (uint64_t i = 0; i < kSamples; ++i) {
    add_block(file, (size - kSampleBytes) / kSamples * (i + 1), block, digest);
  }
  return digest.hex();
}

OrderedJson model_digests(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool wanted =
        std::ranges::any_of(kSuffixes, [&](const char* suffix) { return name.ends_with(suffix); });
    std::error_code ignored;
    if (wanted && fs::is_regular_file(at->path(), ignored)) found.push_back(at->path());
  }
  if (error) fail(ExitCode::checkpoint_unusable, "{}: {}", folder.string(), error.message());
  std::ranges::sort(found);
  OrderedJson digests = OrderedJson::object();
  for (const fs::path& path : found) digests[path.filename().string()] = sampled_digest(path);
  return digests;
}

}  // namespace plimsoll::files
