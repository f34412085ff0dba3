#include "engine/sampling/random.h"

#include <cstddef>
#include <span>
#include <string>

#include "engine/cache/hash.h"

namespace plimsoll::engine {

namespace {

uint32_t low_word(uint64_t value) {
  return static_cast<uint32_t>(value);
}
uint32_t high_word(uint64_t value) {
  return static_cast<uint32_t>(value >> 32);
}

void append_word(std::string& text, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) {
    text.push_back(static_cast<char>((value >> shift) & 0xff));
  }
}

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {high_word(product1) ^ counter[1] ^ key[0], low_word(product1),
               high_word(product0) ^ counter[3] ^ key[1], low_word(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

TokenRandom::TokenRandom(uint64_t run_seed, std::string_view line_key,
                         std::optional<int64_t> line_seed, int64_t choice)
    : choice_(static_cast<uint64_t>(choice)) {
  std::string text(1, line_seed ? '\1' : '\0');
  append_word(text, line_seed ? static_cast<uint64_t>(*line_seed) : run_seed);
  if (!line_seed) text += line_key;
  const Hash128 hash = siphash128({}, std::as_bytes(std::span(text)));
  key_ = {low_word(hash.low), high_word(hash.low)};
}

double TokenRandom::uniform(int64_t position) const {
  const auto at = static_cast<uint64_t>(position);
  const auto words =
      philox({low_word(at), high_word(at), low_word(choice_), high_word(choice_)}, key_);
  const uint64_t bits = (uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace plimsoll::engine
