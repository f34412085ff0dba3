#include "image/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "image/codecs/codecs.h"
#include "image/codecs/orientation.h"

namespace plimsoll::image {
namespace {

struct Codec {
  std::string_view name;
  Format format;
  bool (*knows)(Bytes);
  Header (*read_header)(Bytes);
  Image (*decode)(Bytes, const Header&);
};

bool begins_with(Bytes file, std::string_view magic) {
  return file.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), file.begin(),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

constexpr std::array kCodecs = {
    Codec{"JPEG", Format::jpeg, [](Bytes file) { return begins_with(file, "\xFF\xD8\xFF"); },
          codecs::read_jpeg_header, codecs::decode_jpeg},
    Codec{"PNG", Format::png, [](Bytes file) { return begins_with(file, "\x89PNG\r\n\x1a\n"); },
          codecs::read_png_header, codecs::decode_png},
    Codec{"WebP", Format::webp,
          [](Bytes file) {
            return begins_with(file, "RIFF") && file.size() >= 12 &&
                   begins_with(file.subspan(8), "WEBP");
          },
          codecs::read_webp_header, codecs::decode_webp},
    Codec{"GIF", Format::gif,
          [](Bytes file) { return begins_with(file, "GIF87a") || begins_with(file, "GIF89a"); },
          codecs::read_gif_header, codecs::decode_gif},
};

const Codec& find_codec(Bytes file) {
  const auto* codec = std::ranges::find_if(kCodecs, [&](const Codec& c) { return c.knows(file); });
  if (codec != kCodecs.end()) return *codec;
  if (file.empty()) throw ImageError(code::unreadable, "the image is empty");
  throw ImageError(code::unreadable, "is none of JPEG, PNG, WebP and GIF");
}

std::string mebibytes(size_t bytes) {
  return fmt::format("{:.0f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

Header read_header(Bytes file, const Limits& limits) {
  if (file.size() > limits.file_bytes) {
    throw ImageError(code::too_large,
                     fmt::format("the file has {}, and {} are the most", mebibytes(file.size()),
                                 mebibytes(limits.file_bytes)));
  }
  const Codec& codec = find_codec(file);
  Header header = codec.read_header(file);
  header.format = codec.format;
  if (header.stored.width <= 0 || header.stored.height <= 0) {
    throw ImageError(code::unreadable, fmt::format("{}: has no pixels", codec.name));
  }
  if (std::max(header.stored.width, header.stored.height) > limits.side) {
    throw ImageError(code::too_large,
                     fmt::format("{} x {} pixels: {} a side are the most", header.stored.width,
                                 header.stored.height, limits.side));
  }
  if (header.memory_bytes > limits.memory_bytes) {
    throw ImageError(code::too_large,
                     fmt::format("{} x {} pixels of {} take {} to decode, and {} are the most; "
                                 "give a smaller image",
                                 header.stored.width, header.stored.height, codec.name,
                                 mebibytes(header.memory_bytes), mebibytes(limits.memory_bytes)));
  }
  return header;
}

Image decode(Bytes file, const Limits& limits) {
  const Header header = read_header(file, limits);
  return codecs::turn(find_codec(file).decode(file, header), header.orientation);
}

}  // namespace plimsoll::image
