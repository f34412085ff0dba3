#include "reference/change_logits.h"

#include <bit>
#include <limits>
#include <map>
#include <set>

namespace plimsoll::reference {

using backend::ChangeSection;
using backend::TokenChange;

void change_logits(std::span<float> row, const backend::Drawing& drawing, size_t entry,
                   int32_t own) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto section = [&](ChangeSection which) {
    const size_t at = backend::kChangeSections * entry + static_cast<size_t>(which);
    const auto begin = static_cast<size_t>(drawing.sections[at]);
    return drawing.changes.subspan(begin, static_cast<size_t>(drawing.sections[at + 1]) - begin);
  };
  const auto logit = [&](int32_t token) -> float& { return row[static_cast<size_t>(token)]; };
  std::set<int32_t> masked;
  std::set<int32_t> allowed;
  for (const TokenChange& change : section(ChangeSection::allowed)) allowed.insert(change.token);
  for (int32_t token = 0; !allowed.empty() && token < static_cast<int32_t>(row.size()); ++token) {
    if (!allowed.contains(token)) masked.insert(token);
  }
  if (!drawing.masks.empty() && drawing.mask_of[entry] >= 0) {
    const auto words =
        drawing.masks.subspan(static_cast<size_t>(drawing.mask_of[entry] * drawing.mask_words));
    for (size_t token = 0; token < row.size(); ++token) {
      const auto word = static_cast<uint32_t>(words[token / 32]);
      if ((word >> token % 32 & 1) == 0) masked.insert(static_cast<int32_t>(token));
    }
  }
  for (const TokenChange& change : section(ChangeSection::masked)) {
    if (change.value < 0 || change.value == own) masked.insert(change.token);
  }
  // NaN and infinity show through a mask.
  for (const int32_t token : masked)
    logit(token) = logit(token) < kInfinity ? -kInfinity : logit(token);
  for (const TokenChange& change : section(ChangeSection::biased)) {
    logit(change.token) += std::bit_cast<float>(change.value);
  }
  std::map<int32_t, int32_t> seen;
  for (const TokenChange& change : section(ChangeSection::seen)) seen[change.token] = change.value;
  if (drawing.adds_own[entry] != 0 && own >= 0) ++seen[own];
  const float repetition = drawing.repetition[entry];
  for (const auto& [token, count] : seen) {
    float& x = logit(token);
    x = x > 0 ? x / repetition : x * repetition;
    if (count == 0) continue;
    x -= drawing.frequency[entry] * static_cast<float>(count);
    x -= drawing.presence[entry];
  }
}

}  // namespace plimsoll::reference
