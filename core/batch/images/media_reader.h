// Reading of images' bytes by their addresses, without going where the run may not go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::batch {

class MediaReader {
 public:
  /// Files are read below `allowed` alone, with all symbolic links followed; empty: none are.
  /// Throws Error(usage) where it is no folder.
  explicit MediaReader(const std::string& allowed);

  /// The bytes of a data: URL, a file: URL or a path, at most `most` of them. Throws
  /// LineError(image_not_allowed, image_unreadable, image_too_large) that blames `field`.
  [[nodiscard]] std::vector<uint8_t> read(const std::string& source, const std::string& field,
                                          size_t most) const;

 private:
  [[nodiscard]] std::vector<uint8_t> read_file(const std::string& path, const std::string& field,
                                               size_t most) const;

  std::string allowed_;  // canonical, with a slash at its end; empty: no files
};

}  // namespace plimsoll::batch
