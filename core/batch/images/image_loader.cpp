#include "batch/images/image_loader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/size_text.h"
#include "base/thread_seconds.h"
#include "batch/line_error.h"
#include "engine/vision/image_processor.h"
#include "image/decode.h"

namespace plimsoll::batch {
namespace {

constexpr size_t kProcessors = 64;                    // of different settings, kept
constexpr size_t kLineBytes = size_t{64} << 20;       // of a line's files together
constexpr size_t kUnderWayBytes = size_t{256} << 20;  // of processed images beside the kept
constexpr size_t kDecodedBytes = size_t{192} << 20;   // of a video's frames, and at one time
constexpr std::string_view kContainer =
    "a video container is not read; give its frames as files, "
    "or as data:video/jpeg;base64,A,B,...";

/// The field, and the error of its image.
LineError blame(const std::string& field, const image::ImageError& error) {
  return {error.code(), fmt::format("{}: {}", field, error.what()), field};
}

bool is_container(image::Bytes file) {
  const auto at = [&](size_t offset, std::string_view magic) {
    return file.size() >= offset + magic.size() &&
           std::equal(magic.begin(), magic.end(), file.begin() + static_cast<int64_t>(offset),
                      [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
  };
  return at(4, "ftyp") || at(0, "\x1a\x45\xdf\xa3") || (at(0, "RIFF") && at(8, "AVI "));
}

// The most that a decoder takes for a pixel: JPEG's coefficients beside the image.
constexpr size_t kDecoderBytesPerPixel = 16;

image::Limits limits_of(int64_t most_pixels) {
  image::Limits limits;
  const auto pixels = static_cast<size_t>(most_pixels);
  limits.memory_bytes =
      std::max(limits.memory_bytes,
               std::min(pixels, SIZE_MAX / kDecoderBytesPerPixel) * kDecoderBytesPerPixel);
  return limits;
}

image::Header header_of(image::Bytes file, MediaKind kind, int64_t most_pixels) {
  if (kind == MediaKind::video && is_container(file)) {
    throw image::ImageError(image::code::unreadable, std::string(kContainer));
  }
  image::Header header = image::read_header(file, limits_of(most_pixels));
  if (header.stored.width > most_pixels / header.stored.height) {
    throw image::ImageError(
        image::code::too_large,
        fmt::format("{} x {} pixels: --max-image-pixels is {}; give a smaller image or a larger "
                    "bound",
                    header.stored.width, header.stored.height, most_pixels));
  }
  return header;
}

engine::Hash128 hash(const engine::Hash128& key, std::span<const uint8_t> bytes) {
  return engine::siphash128(key, std::as_bytes(bytes));
}

engine::Hash128 hash(const engine::Hash128& key, std::string_view text) {
  return engine::siphash128(key, std::as_bytes(std::span(text)));
}

/// Bytes that count as long as this lives.
class Counted {
 public:
  Counted(std::shared_ptr<std::atomic<size_t>> total, size_t bytes)
      : total_(std::move(total)), bytes_(bytes) {
    *total_ += bytes_;
  }
  ~Counted() { *total_ -= bytes_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::shared_ptr<std::atomic<size_t>> total_;
  size_t bytes_;
};

/// Settings may ask for any size.
void check_prepared(const image::Layout& layout) {
  const auto bytes = static_cast<size_t>(layout.levels());
  if (bytes <= kDecodedBytes) return;
  throw image::ImageError(image::code::too_large,
                          fmt::format("prepared as the settings say it has {}, and {} are the most",
                                      size_text(bytes), size_text(kDecodedBytes)));
}

size_t file_bytes(const OpenedImage& image) {
  size_t bytes = 0;
  for (const auto& file : image.files) bytes += file.size();
  return bytes;
}

image::Pixels decode(const OpenedImage& image, int64_t most_pixels) {
  try {
    std::vector<image::Image> frames;
    for (const auto& file : image.files) {
      frames.push_back(image::decode(file, limits_of(most_pixels)));
    }
    return image.kind == MediaKind::video ? image.processor->process_video(frames)
                                          : image.processor->process(frames.front());
  } catch (const image::ImageError& error) {
    throw blame(image.field, error);
  }
}

}  // namespace

ImageLoader::ImageLoader(ImageRules rules)
    : rules_(std::move(rules)),
      reader_(rules_.allowed_folder),
      workers_(rules_.threads, kDecodedBytes) {
  if (!rules_.vision) return;
  try {
    for (const MediaKind kind : {MediaKind::image, MediaKind::video}) {
      (void)processor(OrderedJson::object(), kind);
    }
  } catch (const LineError& error) {
    fail(ExitCode::usage, "{}", error.what());
  }
}

ImageLoader::ProcessorPtr ImageLoader::processor(const OrderedJson& overrides, MediaKind kind) {
  const char* scope = kind == MediaKind::video ? model::kVideoScope : model::kImageScope;
  try {
    OrderedJson merged = engine::scoped_settings(rules_.overrides, scope);
    merged.update(engine::scoped_settings(overrides, scope));
    const std::string text = merged.dump();
    if (const auto known = processors_.find(text); known != processors_.end()) return known->second;
    ProcessorPtr made =
        engine::make_image_processor(*rules_.vision, rules_.settings, Json::parse(text));
    if (processors_.size() >= kProcessors) processors_.clear();
    return processors_[text] = made;
  } catch (const image::SettingsError& error) {
    const std::string name = "mm_processor_kwargs";
    const std::string message = error.what();
    throw LineError(code::bad_field,
                    message.starts_with(name) ? message : fmt::format("{}: {}", name, message),
                    name);
  }
}

void ImageLoader::check_counts(const std::vector<Media>& media) const {
  const std::string& field = media.front().field;
  if (!rules_.vision) {
    throw LineError(code::no_images, fmt::format("{}: {}", field, rules_.refusal), field);
  }
  for (const auto& [kind, most, name] :
       {std::tuple(MediaKind::image, rules_.most_images, "image"),
        std::tuple(MediaKind::video, rules_.most_videos, "video")}) {
    const auto count = std::ranges::count(media, kind, &Media::kind);
    if (count <= most) continue;
    throw LineError(code::too_many_images,
                    fmt::format("{}: the prompt has {} {}s, and the launch takes {} "
                                "(--limit-mm-per-prompt {}=N)",
                                field, count, name, most, name),
                    field);
  }
}

std::vector<OpenedImage> ImageLoader::open(const std::vector<Media>& media,
                                           const OrderedJson& overrides) {
  std::vector<OpenedImage> all;
  if (media.empty()) return all;
  check_counts(media);
  const std::string settings = overrides.dump();
  size_t room = kLineBytes;
  std::map<MediaKind, ProcessorPtr> made;
  for (const Media& one : media) {
    ProcessorPtr& own = made[one.kind];
    if (own == nullptr) own = processor(overrides, one.kind);
    all.push_back(open_one(one, own, settings, room));
  }
  return all;
}

OpenedImage ImageLoader::open_one(const Media& media, const ProcessorPtr& processor,
                                  const std::string& settings, size_t& room) {
  OpenedImage opened{.kind = media.kind,
                     .layout = {},
                     .key = hash({}, settings),
                     .files = {},
                     .processor = processor,
                     .field = media.field};
  const bool video = media.kind == MediaKind::video;
  image::Size size;
  size_t decoded = 0;
  for (const std::string& source : media.sources) {
    const auto& file = opened.files.emplace_back(reader_.read(source, media.field, room));
    room -= std::min(room, file.size());
    opened.key = hash(opened.key, file);
    try {
      const image::Header header = header_of(file, media.kind, rules_.most_pixels);
      size = header.size();
      decoded += header.memory_bytes;
      if (video && decoded > kDecodedBytes) {
        throw image::ImageError(
            image::code::too_large,
            fmt::format("{} frames of {} x {} pixels are more than {} bytes", media.sources.size(),
                        size.width, size.height, kDecodedBytes));
      }
    } catch (const image::ImageError& error) {
      throw blame(media.field, error);
    }
  }
  try {
    opened.layout =
        video ? processor->video_layout(size, std::ssize(opened.files)) : processor->layout(size);
    check_prepared(opened.layout);
  } catch (const image::ImageError& error) {
    throw blame(media.field, error);
  }
  opened.key = hash(opened.key, std::string_view(video ? "video" : "image"));
  opened.decoder_bytes = decoded + static_cast<size_t>(opened.layout.levels());
  return opened;
}

bool ImageLoader::is_full() const {
  return live_bytes_->load() >= kept_bytes_ + kUnderWayBytes;
}

PreparedImages ImageLoader::prepared() const {
  return {prepared_.load(), prepare_seconds_.load()};
}

PixelsFuture ImageLoader::load(OpenedImage image) {
  if (const auto known = by_key_.find(image.key); known != by_key_.end()) {
    kept_.splice(kept_.begin(), kept_, known->second);
    return kept_.front().pixels;
  }
  const auto bytes = static_cast<size_t>(image.layout.levels());
  const size_t decoder_bytes = image.decoder_bytes;
  auto files = std::make_unique<Counted>(live_bytes_, file_bytes(image));
  const engine::Hash128 key = image.key;
  // The task frees what it holds when it has run, because its future outlives it.
  auto task = std::make_shared<std::packaged_task<std::shared_ptr<const image::Pixels>()>>(
      [this, opened = std::make_unique<OpenedImage>(std::move(image)), files = std::move(files),
       pixels = std::make_shared<Counted>(live_bytes_, bytes)]() mutable {
        const auto image_here = std::move(opened);
        const auto files_here = std::move(files);
        const auto pixels_here = std::move(pixels);
        const double begin = thread_seconds();
        std::shared_ptr<const image::Pixels> done(
            new image::Pixels(decode(*image_here, rules_.most_pixels)),
            [pixels_here](const image::Pixels* made) { delete made; });
        ++prepared_;
        prepare_seconds_ += thread_seconds() - begin;
        return done;
      });
  PixelsFuture coming = task->get_future().share();
  workers_.add([task] { (*task)(); }, decoder_bytes);
  keep(key, coming, bytes);
  return coming;
}

void ImageLoader::keep(const engine::Hash128& key, const PixelsFuture& pixels, size_t bytes) {
  if (bytes > rules_.cache_bytes) return;
  kept_bytes_ += bytes;
  kept_.push_front({key, pixels, bytes});
  by_key_[key] = kept_.begin();
  while (kept_bytes_ > rules_.cache_bytes) {
    kept_bytes_ -= kept_.back().bytes;
    by_key_.erase(kept_.back().key);
    kept_.pop_back();
  }
}

}  // namespace plimsoll::batch
