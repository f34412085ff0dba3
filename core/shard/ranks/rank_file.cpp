#include "shard/ranks/rank_file.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"

namespace plimsoll::shard {
namespace {

constexpr size_t kPrefixDigits = 16;
std::string prefix_of(const files::Digest& hash) {
  return hash.hex().substr(0, kPrefixDigits);
}

}  // namespace

void RankFile::Buffer::grow(size_t least, size_t kept) {
  const size_t wanted = round_up(least, kDirectBlock);
  if (wanted <= size) return;
  std::unique_ptr<std::byte, Free> larger(
      static_cast<std::byte*>(std::aligned_alloc(kDirectBlock, wanted)));
  if (!larger) throw std::bad_alloc();
  if (kept > 0) std::memcpy(larger.get(), bytes.get(), kept);
  bytes = std::move(larger);
  size = wanted;
}

RankFile::RankFile(OutputFolder& folder, const std::string& name, int64_t bytes,
                   size_t buffer_bytes)
    : file_(folder, name, bytes), buffer_bytes_(buffer_bytes), writer_(file_) {
  buffers_[current_].grow(buffer_bytes_, 0);
}

void RankFile::add(const std::string& bytes) {
  std::memcpy(room(bytes.size()).data(), bytes.data(), bytes.size());
  commit(bytes.size());
}

std::span<std::byte> RankFile::room(size_t least) {
  if (filled_ + least > buffers_[current_].size) flush(least);
  const Buffer& buffer = buffers_[current_];
  return {buffer.bytes.get() + filled_, buffer.size - filled_};
}

void RankFile::commit(size_t count) {
  digest_.add(buffers_[current_].bytes.get() + filled_, count);
  filled_ += count;
  record_.bytes += static_cast<int64_t>(count);
}

void RankFile::end_tensor() {
  record_.prefixes.push_back(prefix_of(digest_));
}

// Whole blocks go to the writer; what is left over begins the other buffer.
void RankFile::flush(size_t least) {
  const size_t whole = filled_ / kDirectBlock * kDirectBlock;
  const size_t rest = filled_ - whole;
  const std::byte* const full = buffers_[current_].bytes.get();
  if (whole == 0) return buffers_[current_].grow(filled_ + least, filled_);
  writer_.wait();
  current_ = 1 - current_;
  buffers_[current_].grow(std::max(buffer_bytes_, rest + least), 0);
  std::memcpy(buffers_[current_].bytes.get(), full + whole, rest);
  filled_ = rest;
  writer_.start({full, whole});
}

void RankFile::finish() {
  flush(0);
  writer_.wait();
  file_.write(buffers_[current_].bytes.get(), filled_);
  record_.digest = digest_.hex();
  file_.finish();
}

std::vector<int64_t> tensor_ends(const PartPlan& part) {
  std::vector<int64_t> ends = {static_cast<int64_t>(part.header.size())};
  for (const ShardTensor* tensor : part.tensors) ends.push_back(ends.back() + tensor->bytes());
  return ends;
}

FileRecord digest_file(const std::filesystem::path& path, const std::vector<int64_t>& ends) {
  FileRecord record;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(size_t{1} << 20);
  files::Digest hash;
  const auto refuse = [&](const char* why) {
    fail(ExitCode::checkpoint_unusable, "{}: {}", path.string(), why);
  };
  if (!file) refuse("cannot be read");
  for (const int64_t end : ends) {
    while (record.bytes < end) {
      const auto count = std::min(static_cast<int64_t>(buffer.size()), end - record.bytes);
      if (!file.read(buffer.data(), count)) refuse("is shorter than its record says");
      hash.add(buffer.data(), static_cast<size_t>(count));
      record.bytes += count;
    }
    record.prefixes.push_back(prefix_of(hash));
  }
  if (file.peek() != std::ifstream::traits_type::eof()) refuse("is longer than its record says");
  record.digest = hash.hex();
  return record;
}

}  // namespace plimsoll::shard
