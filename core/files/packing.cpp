#include "files/packing.h"

#define ZLIB_CONST
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "base/error.h"
#include "base/lower_case.h"

namespace plimsoll::files {
namespace {

constexpr std::string_view kGzip("\x1f\x8b\x08", 3);
constexpr std::string_view kZstd("\x28\xb5\x2f\xfd", 4);
constexpr std::string_view kDamaged = "its compressed data is damaged";
constexpr size_t kBlock = size_t{256} << 10;

class GzipUnpacker final : public Unpacker {
 public:
  GzipUnpacker() {
    // 16: gzip's frame around deflate's largest window.
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~GzipUnpacker() override { inflateEnd(&stream_); }
  GzipUnpacker(const GzipUnpacker&) = delete;
  GzipUnpacker& operator=(const GzipUnpacker&) = delete;

  size_t unpack(std::string_view& packed, char* to, size_t room) override {
    if (whole_) {
      // gzip itself passes over zeros behind the last member, which tapes leave.
      packed.remove_prefix(std::min(packed.find_first_not_of('\0'), packed.size()));
      if (packed.empty()) return 0;
      inflateReset(&stream_);
    }
    whole_ = false;
    stream_.next_in = reinterpret_cast<const Bytef*>(packed.data());
    stream_.avail_in = static_cast<uInt>(std::min(packed.size(), kBlock));
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min(room, kBlock));
    const size_t given = stream_.avail_in;
    const size_t free = stream_.avail_out;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    packed.remove_prefix(given - stream_.avail_in);
    whole_ = result == Z_STREAM_END;
    if (result != Z_OK && !whole_ && result != Z_BUF_ERROR) {
      throw std::runtime_error(std::string(kDamaged));
    }
    return free - stream_.avail_out;
  }
  [[nodiscard]] bool is_whole() const override { return whole_; }

 private:
  z_stream stream_{};
  bool whole_ = true;
};

class ZstdUnpacker final : public Unpacker {
 public:
  ZstdUnpacker() : stream_(ZSTD_createDStream()) {
    if (!stream_) throw std::bad_alloc();
  }

  size_t unpack(std::string_view& packed, char* to, size_t room) override {
    ZSTD_inBuffer in{packed.data(), packed.size(), 0};
    ZSTD_outBuffer out{to, room, 0};
    const size_t result = ZSTD_decompressStream(stream_.get(), &out, &in);
    packed.remove_prefix(in.pos);
    if (ZSTD_isError(result) != 0) throw std::runtime_error(std::string(kDamaged));
    // A call that takes and gives nothing changes nothing: its result is no zero where bytes are
    // held back.
    if (in.pos > 0 || out.pos > 0) whole_ = result == 0;
    return out.pos;
  }
  [[nodiscard]] bool is_whole() const override { return whole_; }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  bool whole_ = true;
};

class GzipPacker final : public Packer {
 public:
  GzipPacker() {
    constexpr int kMemory = 8;  // zlib's default
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, kMemory,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~GzipPacker() override { deflateEnd(&stream_); }
  GzipPacker(const GzipPacker&) = delete;
  GzipPacker& operator=(const GzipPacker&) = delete;

  std::string pack(std::string_view bytes) override {
    std::string packed;
    while (!bytes.empty()) {
      const std::string_view block = bytes.substr(0, kBlock);
      bytes.remove_prefix(block.size());
      run(block, Z_NO_FLUSH, packed);
    }
    return packed;
  }
  std::string finish() override {
    std::string packed;
    run({}, Z_FINISH, packed);
    return packed;
  }

 private:
  void run(std::string_view block, int flush, std::string& packed) {
    stream_.next_in = reinterpret_cast<const Bytef*>(block.data());
    stream_.avail_in = static_cast<uInt>(block.size());
    do {
      const size_t before = packed.size();
      packed.resize(before + kBlock);
      stream_.next_out = reinterpret_cast<Bytef*>(packed.data() + before);
      stream_.avail_out = static_cast<uInt>(kBlock);
      deflate(&stream_, flush);
      packed.resize(packed.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }

  z_stream stream_{};
};

class ZstdPacker final : public Packer {
 public:
  ZstdPacker() : stream_(ZSTD_createCCtx()) {
    if (!stream_) throw std::bad_alloc();
    ZSTD_CCtx_setParameter(stream_.get(), ZSTD_c_checksumFlag, 1);
  }

  std::string pack(std::string_view bytes) override { return run(bytes, ZSTD_e_continue); }
  std::string finish() override { return run({}, ZSTD_e_end); }

 private:
  std::string run(std::string_view bytes, ZSTD_EndDirective end) {
    std::string packed;
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    size_t left = 0;
    do {
      const size_t before = packed.size();
      packed.resize(before + kBlock);
      ZSTD_outBuffer out{packed.data() + before, kBlock, 0};
      left = ZSTD_compressStream2(stream_.get(), &out, &in, end);
      if (ZSTD_isError(left) != 0) throw std::bad_alloc();  // its parameters are fixed
      packed.resize(before + out.pos);
    } while (in.pos < in.size || (end == ZSTD_e_end && left > 0));
    return packed;
  }

  struct Free {
    void operator()(ZSTD_CCtx* stream) const { ZSTD_freeCCtx(stream); }
  };
  std::unique_ptr<ZSTD_CCtx, Free> stream_;
};

}  // namespace

Packing packing_of(std::string_view head) {
  if (head.starts_with(kGzip)) return Packing::gzip;
  return head.starts_with(kZstd) ? Packing::zstd : Packing::none;
}

Packing packing_for(const std::string& given) {
  const std::string path = lower_case(given);
  for (const char* other : {".xz", ".bz2", ".lz4", ".zip"}) {
    if (!path.ends_with(other)) continue;
    fail(ExitCode::usage,
         "{}: outputs are packed with gzip (.gz) or zstd (.zst); give another name", given);
  }
  if (path.ends_with(".gz")) return Packing::gzip;
  return path.ends_with(".zst") || path.ends_with(".zstd") ? Packing::zstd : Packing::none;
}

std::unique_ptr<Unpacker> Unpacker::make(Packing packing) {
  if (packing == Packing::gzip) return std::make_unique<GzipUnpacker>();
  if (packing == Packing::zstd) return std::make_unique<ZstdUnpacker>();
  return nullptr;
}

std::unique_ptr<Packer> Packer::make(Packing packing) {
  if (packing == Packing::gzip) return std::make_unique<GzipPacker>();
  if (packing == Packing::zstd) return std::make_unique<ZstdPacker>();
  return nullptr;
}

}  // namespace plimsoll::files
