#include "shard/rank_file.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace plimsoll::shard {
namespace {

constexpr size_t kPrefixDigits = 16;
constexpr size_t kPassed = size_t{256} << 10;

std::string prefix_of(const Sha256& hash) {
  return hash.hex().substr(0, kPrefixDigits);
}

}  // namespace

void RankFile::add(const std::string& bytes) {
  std::memcpy(room(bytes.size()).data(), bytes.data(), bytes.size());
  commit(bytes.size());
}

std::span<std::byte> RankFile::room(size_t least) {
  if (filled_ + least > buffer_.size()) flush();
  if (least > buffer_.size()) buffer_.resize(least);
  return std::span(buffer_).subspan(filled_);
}

void RankFile::commit(size_t count) {
  filled_ += count;
}

void RankFile::pass(std::span<const std::byte> bytes) {
  if (bytes.size() < kPassed) return Sink::pass(bytes);
  flush();
  // Digest and write take turns while a block is in the processor's cache.
  while (!bytes.empty()) {
    const auto now = bytes.first(std::min(bytes.size(), kPassed));
    hash_.add(now.data(), now.size());
    file_.write(now.data(), now.size());
    record_.bytes += static_cast<int64_t>(now.size());
    bytes = bytes.subspan(now.size());
  }
}

void RankFile::end_tensor() {
  hash_.add(buffer_.data() + hashed_, filled_ - hashed_);
  hashed_ = filled_;
  record_.prefixes.push_back(prefix_of(hash_));
}

void RankFile::flush() {
  hash_.add(buffer_.data() + hashed_, filled_ - hashed_);
  file_.write(buffer_.data(), filled_);
  record_.bytes += static_cast<int64_t>(filled_);
  filled_ = hashed_ = 0;
}

void RankFile::finish() {
  flush();
  record_.sha256 = hash_.hex();
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
  Sha256 hash;
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
  record.sha256 = hash.hex();
  return record;
}

}  // namespace plimsoll::shard
