// The golden results' folder, and reading their packed files.
#pragma once

#include <lzma.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>

namespace plimsoll::testing {

/// $PLIMSOLL_GOLDEN, else shared/golden beside the source tree; nothing when there is no such
/// folder.
inline std::optional<std::filesystem::path> golden_folder() {
  const char* named = std::getenv("PLIMSOLL_GOLDEN");
  const std::filesystem::path folder =
      named ? std::filesystem::path(named)
            : std::filesystem::path(PLIMSOLL_SOURCE_DIR) / ".." / "shared" / "golden";
  if (std::filesystem::is_directory(folder)) return folder;
  if (named) throw std::runtime_error("PLIMSOLL_GOLDEN is no folder: " + folder.string());
  return std::nullopt;
}

/// The golden results that hold `part` ("chat/renderings.jsonl.xz"): the full ones, else the few of
/// a plain clone; nothing where neither has it.
inline std::optional<std::filesystem::path> golden_with(const std::string& part) {
  const std::filesystem::path own =
      std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden";
  const auto all = golden_folder();
  if (all && std::filesystem::exists(*all / part)) return all;
  if (!all && std::filesystem::exists(own / part)) return own;
  return std::nullopt;
}

/// The data that golden results refer to, where `part` of it lies beside them, else in a plain
/// clone.
inline std::optional<std::filesystem::path> data_with(const std::string& part) {
  const auto all = golden_folder();
  const std::filesystem::path own = std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/data/vllm";
  const std::filesystem::path folder = all ? *all / ".." / "data" : own;
  if (std::filesystem::exists(folder / part)) return folder;
  return std::nullopt;
}

/// The folder of the images that golden results refer to. A plain clone has them with those of
/// the decoders' tests.
inline std::filesystem::path images_folder() {
  const auto all = golden_folder();
  if (all && std::filesystem::is_directory(*all / "images")) return *all / "images";
  // Absolute: it becomes a part of file:// addresses.
  return std::filesystem::absolute(PLIMSOLL_SOURCE_DIR) / "tests/data/images";
}

inline std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline std::string unpack_xz(const std::string& packed) {
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, UINT64_MAX, LZMA_CONCATENATED) != LZMA_OK) {
    throw std::runtime_error("lzma cannot start");
  }
  stream.next_in = reinterpret_cast<const uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  std::string text;
  std::array<char, 1 << 16> chunk;
  lzma_ret status = LZMA_OK;
  while (status == LZMA_OK) {
    stream.next_out = reinterpret_cast<uint8_t*>(chunk.data());
    stream.avail_out = chunk.size();
    status = lzma_code(&stream, LZMA_FINISH);
    text.append(chunk.data(), chunk.size() - stream.avail_out);
  }
  lzma_end(&stream);
  if (status != LZMA_STREAM_END) throw std::runtime_error("broken .xz file");
  return text;
}

/// The file's text; a packed file, or one that exists only as `path`.xz, is unpacked.
inline std::string read_maybe_xz(const std::filesystem::path& path) {
  if (path.extension() == ".xz") return unpack_xz(read_file(path));
  if (std::filesystem::exists(path)) return read_file(path);
  return unpack_xz(read_file(path.string() + ".xz"));
}

}  // namespace plimsoll::testing
