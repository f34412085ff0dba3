// Source: common/fit.cpp of llama.cpp 0c1e57098.
#include "engines/llamacpp/fit.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/amount.h"

namespace plimsoll::engines::llamacpp {
namespace {

constexpr int64_t kContextStep = 256;

/// Layers of a card, those in front whole; of the others the experts lie elsewhere.
struct CardLayers {
  int64_t all = 0, split = 0;
  Fraction first = Fraction::dense;  // what is kept of the first of the split layers
  [[nodiscard]] int64_t whole() const { return all - split; }
};

struct Layout {
  std::vector<CardLayers> cards;
  std::vector<int> overflow;  // where the rest of a card's first split layer goes
  size_t dense_from = 0;      // the first card that still has split layers to make whole
  std::vector<int64_t> used;  // bytes
};

class Fitter {
 public:
  Fitter(const Shape& shape, const Launch& launch, const Beside& beside)
      : shape_(shape), launch_(launch), beside_(beside), count_(launch.cards.size()) {
    fit_.placement = asked_placement(shape, launch);
    for (size_t i = 0; i < count_; ++i)
      targets_.push_back(launch.cards[i].free_bytes - launch.margins[i]);
  }

  Fit run() {
    if (count_ == 0) return std::move(fit_);
    if (fits_as_asked() || shrinks_context() || gives_up()) return std::move(fit_);
    Layout layout = fill_from_the_back();
    if (shape_.experts > 0 && dense_parts_fit()) fill_from_the_front(layout);
    fit_.placement = placement_of(layout);
    return std::move(fit_);
  }

 private:
  [[nodiscard]] std::vector<int64_t> used_by(const Placement& placement) const {
    const std::vector<Usage> cards = measure(shape_, launch_, placement).cards;
    const std::vector<Usage> beside = beside_(placement);
    std::vector<int64_t> used;
    for (size_t i = 0; i < count_; ++i) used.push_back(cards[i].total() + beside[i].total());
    return used;
  }

  /// Bytes of weights on the cards.
  [[nodiscard]] int64_t weights_of(const Placement& placement) const {
    Amount bytes;
    for (const Usage& usage : measure(shape_, launch_, placement).cards) bytes += usage.model;
    for (const Usage& usage : beside_(placement)) bytes += usage.model;
    return bytes.value();
  }

  static int64_t sum(const std::vector<int64_t>& values) {
    return std::accumulate(values.begin(), values.end(), Amount{}).value();
  }

  [[nodiscard]] bool meets_targets(const std::vector<int64_t>& used) const {
    for (size_t i = 0; i < count_; ++i)
      if (used[i] > targets_[i]) return false;
    return true;
  }

  void say(const std::string& text) { fit_.says.push_back("common_params_fit_impl: " + text); }

  bool fits_as_asked() {
    used_full_ = used_by(fit_.placement);
    int64_t free = 0;
    for (const Card& card : launch_.cards) free += card.free_bytes;
    say(fmt::format("projected to use {} MiB of device memory vs. {} MiB of free device memory",
                    sum(used_full_) / kMiB, free / kMiB));
    if (!meets_targets(used_full_)) return false;
    if (count_ == 1) {
      say(fmt::format("will leave {} >= {} MiB of free device memory, no changes needed",
                      (launch_.cards[0].free_bytes - used_full_[0]) / kMiB,
                      launch_.margins[0] / kMiB));
    } else {
      say("targets for free memory can be met on all devices, no changes needed");
    }
    return true;
  }

  /// Lowers a context that was not given. True where all is done.
  bool shrinks_context() {
    if (sum(targets_) >= sum(used_full_) || launch_.context) return false;
    const int64_t step = kContextStep * launch_.streams();
    const int64_t full = fit_.placement.context;
    const int64_t least = launch_.least_context * launch_.streams();
    if (full <= least) return false;
    int64_t target = sum(targets_);
    if (count_ > 1) {
      const int64_t weights = weights_of(fit_.placement);
      const int64_t divisor = fit_.placement.gpu_layers < 0
                                  ? shape_.count()
                                  : std::min(fit_.placement.gpu_layers, shape_.count());
      target -= (static_cast<int64_t>(count_) + 1) * (weights / std::max<int64_t>(1, divisor)) /
                (shape_.experts > 0 ? 6 : 2);
    }
    fit_.placement.context = least;
    const int64_t used_least = sum(used_by(fit_.placement));
    if (target > used_least) {
      const int64_t span = std::max<int64_t>(1, sum(used_full_) - used_least);
      const Amount more = Amount{full - least} * (target - used_least) / span;
      const int64_t context = std::min(least + more.value(), full);
      fit_.placement.context = std::max(context - context % step, least);
    }
    say(fmt::format("context size reduced from {} to {} -> need {} MiB less memory in total", full,
                    fit_.placement.context,
                    (sum(used_full_) - sum(used_by(fit_.placement))) / kMiB));
    if (target <= used_least || count_ > 1) return false;
    say("entire model can be fit by reducing context");
    return true;
  }

  bool gives_up() {
    std::string why;
    if (launch_.gpu_layers >= 0) {
      why = fmt::format("n_gpu_layers already set by user to {}, abort", launch_.gpu_layers);
    } else if (count_ > 1 && !launch_.shares.empty()) {
      why = "model_params::tensor_split already set by user, abort";
    } else if (count_ > 1 && launch_.split == Split::row) {
      why = "changing weight allocation for LLAMA_SPLIT_MODE_ROW not implemented, abort";
    } else if (launch_.split == Split::tensor) {
      why = "changing weight allocation for LLAMA_SPLIT_MODE_TENSOR not implemented, abort";
    } else if (!launch_.overrides.empty()) {
      why = "model_params::tensor_buft_overrides already set by user, abort";
    }
    if (why.empty()) return false;
    fit_.success = false;
    fit_.says.push_back("common_fit_params: failed to fit params to free device memory: " + why);
    return true;
  }

  [[nodiscard]] Placement placement_of(const Layout& layout) const {
    Placement placement = fit_.placement;
    placement.gpu_layers = 0;
    placement.shares.clear();
    placement.partial.clear();
    for (const CardLayers& card : layout.cards) {
      placement.gpu_layers += card.all;
      placement.shares.push_back(static_cast<float>(card.all));
    }
    if (count_ == 1) placement.shares.clear();
    int64_t layer = shape_.count() + 1 - placement.gpu_layers;
    for (size_t i = 0; i < count_; ++i) {
      const CardLayers& card = layout.cards[i];
      layer += card.whole();
      for (int64_t l = 0; l < card.split; ++l, ++layer) {
        if (l == 0) {
          placement.partial.push_back({layer, card.first, layout.overflow[i]});
        } else {
          placement.partial.push_back({layer, Fraction::dense, kHost});
        }
      }
    }
    return placement;
  }

  void weigh(Layout& layout) const { layout.used = used_by(placement_of(layout)); }

  [[nodiscard]] bool dense_parts_fit() const {
    Placement placement = fit_.placement;
    placement.experts_on_host = true;
    return sum(targets_) > sum(used_by(placement));
  }

  /// Layers between two layouts of which the lower fits: false position, at least one.
  [[nodiscard]] int64_t step(size_t card, int64_t difference, const Layout& low,
                             const Layout& high) const {
    const int64_t span = std::max<int64_t>(1, high.used[card] - low.used[card]);
    const Amount guess = Amount{difference} * (targets_[card] - low.used[card]) / span;
    // llama.cpp counts in unsigned 32 bits: a negative guess is a very large one.
    const int64_t layers = guess < 0 ? difference - 1 : guess.value();
    return std::clamp<int64_t>(layers, 1, difference - 1);
  }

  /// All layers as many as fit, from the last card to the first; of mixtures without experts.
  [[nodiscard]] Layout fill_from_the_back() const {
    Layout layout;
    layout.cards.resize(count_);
    layout.overflow.assign(count_, kHost);
    weigh(layout);
    int64_t left = shape_.count() + 1;
    for (size_t back = 0; back < count_; ++back) {
      const size_t card = count_ - 1 - back;
      Layout high = layout;
      give(high, card, left);
      weigh(high);
      if (high.used[card] <= targets_[card]) {
        layout = high;
      } else {
        for (int64_t apart = left; apart > 1;
             apart = high.cards[card].all - layout.cards[card].all) {
          Layout tried = layout;
          give(tried, card, step(card, apart, layout, high));
          weigh(tried);
          (tried.used[card] <= targets_[card] ? layout : high) = tried;
        }
      }
      left -= layout.cards[card].all;
    }
    return layout;
  }

  /// Gives a card more layers. The head, the last card's first, is never split.
  void give(Layout& layout, size_t card, int64_t layers) const {
    CardLayers& to = layout.cards[card];
    const bool head = card == count_ - 1 && to.split == 0 && layers > 0;
    if (shape_.experts > 0) to.split += head ? layers - 1 : layers;
    to.all += layers;
  }

  /// Makes split layers whole, from the first card to the last, and one more in part.
  void fill_from_the_front(Layout& layout) const {
    layout.dense_from = count_;
    while (layout.dense_from > 0 && layout.cards[layout.dense_from - 1].all > 0)
      --layout.dense_from;
    for (size_t card = 0; card < count_ && card <= layout.dense_from; ++card) {
      if (layout.dense_from >= count_) break;
      Layout high = layout;
      for (size_t from = layout.dense_from; from < count_; ++from) {
        CardLayers& source = high.cards[from];
        const int64_t moved = from < count_ - 1 ? source.all : source.all - 1;
        high.cards[card].all += moved;
        source.all -= moved;
        source.split = 0;
      }
      high.dense_from = count_ - 1;
      weigh(high);
      if (high.used[card] <= targets_[card]) {
        layout = high;
      } else {
        for (int64_t apart = high.cards[card].whole() - layout.cards[card].whole(); apart > 1;
             apart = high.cards[card].whole() - layout.cards[card].whole()) {
          Layout tried = layout;
          convert(tried, card, step(card, apart, layout, high));
          weigh(tried);
          (tried.used[card] <= targets_[card] ? layout : high) = tried;
        }
      }
      add_part(layout, card);
    }
  }

  /// Takes layers from the cards with split ones and makes them whole ones of `card`.
  void convert(Layout& layout, size_t card, int64_t layers) const {
    for (; layout.dense_from < count_; ++layout.dense_from) {
      CardLayers& source = layout.cards[layout.dense_from];
      const int64_t moved = std::min(layers, source.split);
      source.all -= moved;
      source.split -= moved;
      layout.cards[card].all += moved;
      layers -= moved;
      if (source.split > 0) break;
    }
  }

  [[nodiscard]] bool is_below(const Layout& layout, size_t card) const {
    return layout.used[card] < targets_[card] &&
           (card + 1 == count_ || layout.used[card + 1] < targets_[card + 1]);
  }

  void add_part(Layout& layout, size_t card) const {
    if (layout.dense_from >= count_) return;
    CardLayers& source = layout.cards[layout.dense_from];
    if (source.split < 1) return;
    Layout tried = layout;
    CardLayers& from = tried.cards[tried.dense_from];
    --from.all;
    --from.split;
    ++tried.cards[card].all;
    ++tried.cards[card].split;
    if (from.split == 0) ++tried.dense_from;
    if (card + 1 < count_) tried.overflow[card] = static_cast<int>(card + 1);
    const auto fits_with = [&](Fraction kept) {
      tried.cards[card].first = kept;
      weigh(tried);
      if (!is_below(tried, card)) return false;
      layout = tried;
      return true;
    };
    if (fits_with(Fraction::up)) {
      fits_with(Fraction::gate);
    } else {
      fits_with(Fraction::attention);
    }
  }

  const Shape& shape_;
  const Launch& launch_;
  const Beside& beside_;
  size_t count_;
  Fit fit_;
  std::vector<int64_t> targets_, used_full_;
};

}  // namespace

Fit fit(const Shape& shape, const Launch& launch, const Beside& beside) {
  return Fitter(shape, launch, beside).run();
}

}  // namespace plimsoll::engines::llamacpp
