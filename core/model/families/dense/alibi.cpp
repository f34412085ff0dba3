#include "model/families/dense/alibi.h"

#include <bit>
#include <cmath>

namespace plimsoll::model {

std::vector<float> alibi_slopes(const ConfigReader& config, int64_t heads) {
  if (config.describes()) return {};
  const auto m = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<float> slopes;
  for (int64_t i = 0; i < heads; ++i) {
    const auto exponent =
        static_cast<double>(i < m ? 8 * (i + 1) : 4 * (2 * (i - m) + 1)) / static_cast<double>(m);
    slopes.push_back(static_cast<float>(std::exp2(-exponent)));
  }
  return slopes;
}

}  // namespace plimsoll::model
