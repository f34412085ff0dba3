// Images of requests, from their addresses to what a vision tower gets.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "batch/images/media.h"
#include "batch/images/media_reader.h"
#include "batch/images/workers.h"
#include "engine/vision/images.h"
#include "image/processor.h"
#include "model/vision_spec.h"

namespace plimsoll::batch {

/// Pixels above which Pillow, and so vLLM, takes a file for a decompression bomb.
inline constexpr int64_t kPillowPixels = 178'956'970;

/// Which images a run answers, and how it processes them.
struct ImageRules {
  std::shared_ptr<const model::VisionSpec> vision;  // null: none are answered
  std::string refusal;                              // why not, where `vision` is null
  Json settings = Json::object();                   // of the model's image processor
  OrderedJson overrides = OrderedJson::object();    // --mm-processor-kwargs
  int64_t most_images = 0;                          // per prompt
  int64_t most_videos = 0;
  int64_t most_pixels = kPillowPixels;  // per image, as its file has them
  std::string allowed_folder;           // --allowed-local-media-path; empty: no files
  size_t cache_bytes = 0;               // for processed images that are kept
  int threads = 0;                      // decoding threads; 0: the caller's thread decodes
};

using PixelsFuture = std::shared_future<std::shared_ptr<const image::Pixels>>;

/// Images processed so far; hits of a cache are not counted.
struct PreparedImages {
  uint64_t count = 0;
  double processor_seconds = 0;  // for decoding, resizing and what else processors do
};

/// An image or video whose header is read.
struct OpenedImage {
  MediaKind kind = MediaKind::image;
  image::Layout layout;
  engine::Hash128 key;                      // hash of the files and the settings
  std::vector<std::vector<uint8_t>> files;  // one, or a video's frames
  size_t decoder_bytes = 0;                 // memory that decoding all of them takes
  std::shared_ptr<const image::Processor> processor;
  std::string field;  // of the request, named in errors
};

class ImageLoader {
 public:
  /// Throws Error(usage) for settings of the launch that are invalid.
  explicit ImageLoader(ImageRules rules);

  /// Reads the files and their headers, no pixels. `overrides` are the line's mm_processor_kwargs.
  /// Throws LineError.
  std::vector<OpenedImage> open(const std::vector<Media>& media, const OrderedJson& overrides);
  /// Decodes and processes an image, perhaps in another thread; one that is still in the cache is
  /// not processed again. The future throws LineError.
  PixelsFuture load(OpenedImage image);

  [[nodiscard]] const ImageRules& rules() const { return rules_; }
  /// True while images under way and in the cache take all the memory they may: no more lines are
  /// read.
  [[nodiscard]] bool is_full() const;
  [[nodiscard]] PreparedImages prepared() const;

 private:
  using ProcessorPtr = std::shared_ptr<const image::Processor>;

  void check_counts(const std::vector<Media>& media) const;
  ProcessorPtr processor(const OrderedJson& overrides, MediaKind kind);
  OpenedImage open_one(const Media& media, const ProcessorPtr& processor,
                       const std::string& settings, size_t& room);
  void keep(const engine::Hash128& key, const PixelsFuture& pixels, size_t bytes);

  struct Less {
    bool operator()(const engine::Hash128& a, const engine::Hash128& b) const {
      return a.high != b.high ? a.high < b.high : a.low < b.low;
    }
  };
  struct Kept {
    engine::Hash128 key;
    PixelsFuture pixels;
    size_t bytes = 0;
  };

  ImageRules rules_;
  MediaReader reader_;
  std::map<std::string, ProcessorPtr> processors_;  // by their overrides
  std::list<Kept> kept_;                            // most recently used first
  std::map<engine::Hash128, std::list<Kept>::iterator, Less> by_key_;
  size_t kept_bytes_ = 0;
  /// Bytes of pixels that are kept or on their way, and of files that wait for a thread.
  std::shared_ptr<std::atomic<size_t>> live_bytes_ = std::make_shared<std::atomic<size_t>>(0);
  std::atomic<uint64_t> prepared_ = 0;
  std::atomic<double> prepare_seconds_ = 0;
  Workers workers_;  // ends first
};

}  // namespace plimsoll::batch
