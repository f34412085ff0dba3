#include "kernels/rows/change_logits.h"

#include <bit>
#include <set>

#include "kernels/fixture.h"
#include "kernels/rows/sample.h"
#include "reference/change_logits.h"

namespace plimsoll::testing {
namespace {

using backend::TokenChange;

/// Changes of some rows, as a batch has them.
struct Changes {
  std::vector<float> repetition, frequency, presence;
  std::vector<uint8_t> adds_own;
  std::vector<int32_t> sections{0};
  std::vector<TokenChange> changes;
  std::vector<int32_t> mask_of, masks;  // none, or one for each row
  int64_t mask_words = 0;

  void end_section() { sections.push_back(static_cast<int32_t>(changes.size())); }
  void end_row(float repeated, float frequent, float present, bool own) {
    repetition.push_back(repeated);
    frequency.push_back(frequent);
    presence.push_back(present);
    adds_own.push_back(own ? 1 : 0);
  }
  [[nodiscard]] backend::Drawing drawing() const {
    return {.repetition = repetition,
            .frequency = frequency,
            .presence = presence,
            .adds_own = adds_own,
            .sections = sections,
            .changes = changes,
            .mask_of = mask_of,
            .masks = masks,
            .mask_words = mask_words};
  }
};

/// Changes of all kinds, of every token in turn that the numbers pick.
Changes random_changes(int64_t rows, int64_t vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t limit) { return static_cast<int32_t>(random() % limit); };
  const auto some = [&](int64_t most) {
    std::set<int32_t> tokens;
    for (int64_t i = below(most + 1); i > 0; --i) tokens.insert(below(vocabulary));
    return tokens;
  };
  Changes all;
  for (int64_t r = 0; r < rows; ++r) {
    const bool changes = r % 5 != 4;
    if (changes && r % 3 == 0) {
      for (const int32_t token : some(vocabulary)) all.changes.push_back({token, 0});
    }
    all.end_section();
    for (int64_t i = changes ? below(9) : 0; i > 0; --i)
      all.changes.push_back({below(vocabulary), below(3) - 1});
    all.end_section();
    if (changes)
      for (const int32_t token : some(20))
        all.changes.push_back({token, std::bit_cast<int32_t>(static_cast<float>(below(9)) - 4.3f)});
    all.end_section();
    if (changes)
      for (const int32_t token : some(700)) all.changes.push_back({token, below(4)});
    all.end_section();
    all.end_row(changes ? 1.3f : 1.f, changes ? 0.37f : 0.f, r % 2 == 0 ? 0.21f : 0.f, r % 4 < 2);
  }
  // Masks of some rows, in another order; the last row has nothing but a mask.
  all.mask_words = (vocabulary + 31) / 32;
  for (int64_t r = 0; r < rows; ++r)
    all.mask_of.push_back(r % 3 == 1 || r + 1 == rows ? static_cast<int32_t>(rows - 1 - r) : -1);
  for (int64_t word = 0; word < rows * all.mask_words; ++word)
    all.masks.push_back(static_cast<int32_t>(random()));
  return all;
}

Matrix changed(const Matrix& logits, const Changes& changes, const std::vector<int32_t>& rows,
               const std::vector<int32_t>& token_ids, Layout layout) {
  const DeviceRows device(logits, DType::f32, layout);
  const DeviceArray<float> repetition(changes.repetition), frequency(changes.frequency),
      presence(changes.presence);
  const DeviceArray<uint8_t> adds_own(changes.adds_own);
  const DeviceArray<int32_t> sections(changes.sections), device_rows(rows), ids(token_ids);
  const DeviceArray<TokenChange> list(changes.changes);
  const DeviceArray<int32_t> mask_of(changes.mask_of), masks(changes.masks);
  kernels::change_logits({.logits = device.view(),
                          .repetition = repetition.data(),
                          .frequency = frequency.data(),
                          .presence = presence.data(),
                          .adds_own = adds_own.data(),
                          .sections = sections.data(),
                          .changes = list.data(),
                          .rows = device_rows.data(),
                          .token_ids = ids.data(),
                          .mask_of = mask_of.data(),
                          .masks = changes.masks.empty() ? nullptr : masks.data(),
                          .mask_words = changes.mask_words},
                         kStream);
  return device.matrix();
}

}  // namespace

TEST_CASE("logits are changed to the bit as the reference changes them") {
  for (const int64_t vocabulary : {5, 300, 2077})
    for (const Layout layout : {kAligned, kOdd})
      in_each_order([&] {
        constexpr int64_t kRows = 10;
        Matrix logits = random_matrix(kRows, vocabulary, DType::f32, 3);
        logits.at(3, 1) = -std::numeric_limits<double>::infinity();
        const Changes changes = random_changes(kRows, vocabulary, 4);
        // Row i is of token i % 5; the last one is padding.
        std::vector<int32_t> rows, token_ids;
        for (int32_t r = 0; r < kRows; ++r) {
          rows.push_back(r + 1 == kRows ? -1 : kRows - 1 - r);
          token_ids.push_back(r % 5);
        }
        Matrix expected = logits;
        for (int64_t r = 0; r < kRows; ++r) {
          std::vector<float> row;
          for (int64_t i = 0; i < vocabulary; ++i)
            row.push_back(static_cast<float>(logits.at(r, i)));
          const int32_t at = rows[static_cast<size_t>(r)];
          reference::change_logits(row, changes.drawing(), static_cast<size_t>(r),
                                   at < 0 ? -1 : token_ids[static_cast<size_t>(at)]);
          for (int64_t i = 0; i < vocabulary; ++i)
            expected.at(r, i) = static_cast<double>(row[static_cast<size_t>(i)]);
        }
        CHECK(changed(logits, changes, rows, token_ids, layout).values == expected.values);
      });
}

TEST_CASE("what is not finite shows through a mask") {
  Matrix logits(3, 40);
  logits.at(0, 7) = std::nan("");
  logits.at(1, 7) = std::numeric_limits<double>::infinity();
  Changes changes;
  for (int row = 0; row < 3; ++row) {
    if (row < 2) changes.changes.push_back({3, 0});  // 3 alone is allowed
    changes.end_section();
    changes.changes.push_back({7, -1});
    changes.end_section();
    changes.end_section();
    changes.end_section();
    changes.end_row(1, 0, 0, false);
  }
  const Matrix found = changed(logits, changes, {0, 1, 2}, {0, 0, 0}, kAligned);
  CHECK(std::isnan(found.at(0, 7)));
  CHECK(found.at(1, 7) == std::numeric_limits<double>::infinity());
  CHECK(found.at(2, 7) == -std::numeric_limits<double>::infinity());
  CHECK(found.at(0, 4) == -std::numeric_limits<double>::infinity());
  CHECK(found.at(0, 3) == 0);
  CHECK(found.at(2, 4) == 0);
}

}  // namespace plimsoll::testing
