#include "grammar/numbers.h"

#include <algorithm>
#include <map>

#include "grammar/patterns/regex.h"

namespace plimsoll::grammar {
namespace {

constexpr uint64_t kMaxResidues = 4000;

Dfa match(std::string_view regex) {
  return dfa_of_regex(regex, Match::whole);
}

// Where both signs' texts of one kind lie.
struct Kinds {
  Dfa plain = match("-?(0|[1-9][0-9]*)(\\.[0-9]+)?");
  Dfa negative_plain = match("-(0|[1-9][0-9]*)(\\.[0-9]+)?");
  Dfa positive_plain = match("(0|[1-9][0-9]*)(\\.[0-9]+)?");
  // Below 0.0001, and from 10^16 on with 16 digits behind the point, which makes them integers;
  // both as far as doubles go, because readers take what lies beyond for zero or infinity.
  Dfa tiny = match("[1-9](\\.[0-9]+)?[eE]-0*([5-9]|[1-9][0-9]|[12][0-9]{2}|30[0-7])");
  Dfa huge = match("[1-9](\\.[0-9]{1,16})?[eE]\\+?(1[6-9]|[2-9][0-9]|[12][0-9]{2}|30[0-7])");
  Dfa minus = match("-");
  Dfa negative_tiny = concatenation_of(minus, tiny);
  Dfa negative_huge = concatenation_of(minus, huge);
  Dfa all;
  Kinds() {
    all = plain;
    for (const Dfa* dfa : {&tiny, &huge, &negative_tiny, &negative_huge}) {
      all = combine(all, *dfa, BothWays::union_);
    }
  }
};

const Kinds& kinds() {
  const FreeWork free;
  static const Kinds found;
  return found;
}

// A sign of a comparison, made into the texts of unsigned plain decimals that compare so with one.
class Comparison {
 public:
  Comparison(const Decimal& bound, bool below, bool at, bool above)
      : bound_(bound), wanted_{below, at, above} {
    start();
  }
  Dfa take() { return minimal(std::move(dfa_)); }

 private:
  enum Sign : int { less, equal, greater };
  enum Phase : int { whole, beyond, zero, point, fraction };
  struct Key {
    Phase phase;
    Sign sign;
    size_t digits;
    auto operator<=>(const Key&) const = default;
  };

  static Sign compare(char a, char b) { return a < b ? less : a > b ? greater : equal; }

  uint32_t state(Key key) {
    const auto [at, fresh] = names_.try_emplace(key, dfa_.states.size());
    if (fresh) {
      dfa_.states.push_back({ends(key), {}});
      todo_.push_back(key);
    }
    return at->second;
  }
  bool ends(Key key) {
    if (key.phase == point) return false;
    const Sign sign = sign_of(key);
    const bool cut = sign == equal && (key.phase == fraction ? key.digits : 0) < fraction_size();
    return wanted_[cut ? less : sign];
  }
  [[nodiscard]] size_t fraction_size() const { return bound_.fraction.size(); }
  // The sign of the comparison, once the whole part has ended.
  [[nodiscard]] Sign sign_of(Key key) const {
    if (key.phase == beyond) return greater;
    if ((key.phase == whole || key.phase == zero) && key.digits < bound_.whole.size()) return less;
    return key.sign;
  }

  void start() {
    dfa_.states.emplace_back();
    for (char d = '0'; d <= '9'; ++d) {
      const Key to{d == '0' ? zero : whole, compare(d, bound_.whole[0]), 1};
      const uint32_t name = state(to);
      add(0, d, name);
    }
    while (!todo_.empty()) {
      const Key key = todo_.back();
      todo_.pop_back();
      expand(key, names_.at(key));
    }
  }
  void add(uint32_t from, char d, uint32_t to) {
    const uint32_t c = static_cast<unsigned char>(d);
    dfa_.states[from].edges.push_back({c, c, to});
  }
  void expand(Key key, uint32_t from) {
    if (key.phase == whole || key.phase == beyond || key.phase == zero) {
      const uint32_t to = state({point, sign_of(key), 0});
      add(from, '.', to);
    }
    if (key.phase == zero) return;
    for (char d = '0'; d <= '9'; ++d) {
      const uint32_t to = state(after(key, d));
      add(from, d, to);
    }
  }
  Key after(Key key, char d) const {
    if (key.phase == beyond) return key;
    if (key.phase == whole) {
      if (key.digits == bound_.whole.size()) return {beyond, greater, 0};
      return {whole, key.sign == equal ? compare(d, bound_.whole[key.digits]) : key.sign,
              key.digits + 1};
    }
    if (key.sign != equal) return {fraction, key.sign, 0};
    if (key.digits < fraction_size()) {
      const Sign sign = compare(d, bound_.fraction[key.digits]);
      return {fraction, sign, sign == equal ? key.digits + 1 : 0};
    }
    return {fraction, compare(d, '0'), d == '0' ? key.digits : 0};
  }

  const Decimal& bound_;
  bool wanted_[3];
  Dfa dfa_;
  std::map<Key, uint32_t> names_;
  std::vector<Key> todo_;
};

Dfa plain(const Decimal& bound, bool below, bool at, bool above) {
  return Comparison(bound, below, at, above).take();
}

// Whether a decimal's size is at least 0.0001, and at most 10^16.
bool not_tiny(const Decimal& d) {
  return d.whole != "0" || (!d.fraction.empty() && d.fraction.substr(0, 4) > "0000" &&
                            d.fraction.find_first_not_of('0') < 4);
}
bool not_huge(const Decimal& d) {
  return d.whole.size() <= 16 || (d.whole == "1" + std::string(16, '0') && d.fraction.empty());
}

NumberSet sum(const std::vector<const Dfa*>& in, const std::vector<const Dfa*>& out) {
  const auto all = [](const std::vector<const Dfa*>& parts) {
    Dfa sum;
    for (const Dfa* part : parts) sum = combine(sum, *part, BothWays::union_);
    return share(std::move(sum));
  };
  return {all(in), all(out)};
}

}  // namespace

NumberSet all_numbers() {
  static const NumberSet set{share(kinds().all), share({})};
  return set;
}
NumberSet no_numbers() {
  return complement_of(all_numbers());
}

NumberSet integers(bool written_plainly) {
  const FreeWork free;
  static const NumberSet sets[2] = {
      [] {
        const Dfa in = combine(match("-?(0|[1-9][0-9]*)(\\.0+)?"),
                               combine(kinds().huge, kinds().negative_huge, BothWays::union_),
                               BothWays::union_);
        return NumberSet{share(in), share(combine(kinds().all, in, BothWays::difference))};
      }(),
      [] {
        const Dfa in = match("-?(0|[1-9][0-9]*)");
        return NumberSet{share(in), share(combine(kinds().all, in, BothWays::difference))};
      }()};
  return sets[written_plainly ? 1 : 0];
}

NumberSet without_large_fractions() {
  const FreeWork free;
  static const NumberSet set{
      share(combine(kinds().all, match("-?[1-9][0-9]{15,}\\.[0-9]+"), BothWays::difference)),
      share({})};
  return set;
}

NumberSet at_least(const Decimal& bound, bool or_equal) {
  const Kinds& k = kinds();
  // Unsigned texts and, behind a minus, negative ones.
  Dfa unsigned_in, negative_in;
  std::vector<const Dfa*> in, out;
  if (!bound.negative) {
    unsigned_in = plain(bound, false, or_equal, true);
    if (bound.is_zero() && or_equal) negative_in = plain(bound, false, true, false);
    out.insert(out.end(), {&k.negative_huge, &k.negative_tiny});
    if (not_huge(bound)) in.push_back(&k.huge);
    if (bound.is_zero()) in.push_back(&k.tiny);
    if (not_tiny(bound)) out.push_back(&k.tiny);
  } else {
    unsigned_in = k.positive_plain;
    negative_in = plain(bound, true, or_equal, false);
    in.insert(in.end(), {&k.huge, &k.tiny});
    if (not_huge(bound)) out.push_back(&k.negative_huge);
    if (not_tiny(bound)) in.push_back(&k.negative_tiny);
  }
  const Dfa signed_in = concatenation_of(k.minus, negative_in);
  const Dfa plain_in = combine(unsigned_in, signed_in, BothWays::union_);
  const Dfa plain_out = combine(k.plain, plain_in, BothWays::difference);
  in.push_back(&plain_in);
  out.push_back(&plain_out);
  return sum(in, out);
}

NumberSet at_most(const Decimal& bound, bool or_equal) {
  return complement_of(at_least(bound, !or_equal));
}

NumberSet multiples_of(const Decimal& divisor) {
  std::string digits = divisor.whole + divisor.fraction;
  const size_t places = divisor.fraction.size();
  digits.erase(0, digits.find_first_not_of('0'));
  if (digits.size() > 9) throw TooLarge("a divisor has more than 4,000 residues");
  const uint64_t p = std::stoull(digits);
  if (p * (places + 1) > kMaxResidues) throw TooLarge("a divisor has more than 4,000 residues");
  // A state for each count of digits behind the point (0: none, `dot` before the first) and
  // residue.
  Dfa dfa;
  dfa.states.resize(1);
  std::map<std::pair<size_t, uint64_t>, uint32_t> names;
  std::vector<std::pair<size_t, uint64_t>> todo;
  constexpr size_t kWhole = 0, kZero = 1, kDot = 2;  // kDot + n: n digits behind the point
  const auto scaled = [&](size_t behind, uint64_t residue) {
    for (size_t i = behind; i < places; ++i) residue = residue * 10 % p;
    return residue;
  };
  const auto state = [&](size_t phase, uint64_t residue) {
    const auto [at, fresh] = names.try_emplace({phase, residue}, dfa.states.size());
    if (fresh) {
      const size_t behind = phase < kDot ? 0 : phase - kDot;
      dfa.states.push_back({phase != kDot && scaled(std::min(behind, places), residue) == 0, {}});
      todo.push_back({phase, residue});
    }
    return at->second;
  };
  const auto add = [&](uint32_t from, char d, uint32_t to) {
    dfa.states[from].edges.push_back({static_cast<uint32_t>(d), static_cast<uint32_t>(d), to});
  };
  for (char d = '0'; d <= '9'; ++d) {
    const uint32_t to = state(d == '0' ? kZero : kWhole, static_cast<uint64_t>(d - '0') % p);
    add(0, d, to);
  }
  while (!todo.empty()) {
    const auto [phase, residue] = todo.back();
    todo.pop_back();
    const uint32_t from = names.at({phase, residue});
    if (phase < kDot) {
      const uint32_t to = state(kDot, residue);
      add(from, '.', to);
    }
    if (phase == kZero) continue;
    for (char d = '0'; d <= '9'; ++d) {
      const auto digit = static_cast<uint64_t>(d - '0');
      uint32_t to = 0;
      if (phase == kWhole) {
        to = state(kWhole, (residue * 10 + digit) % p);
      } else if (phase - kDot < places) {
        to = state(phase + 1, (residue * 10 + digit) % p);
      } else if (d == '0') {
        to = state(kDot + places + 1, residue);
      } else {
        continue;
      }
      add(from, d, to);
    }
  }
  const Kinds& k = kinds();
  const Dfa unsigned_in = minimal(std::move(dfa));
  const Dfa in = combine(unsigned_in, concatenation_of(k.minus, unsigned_in), BothWays::union_);
  const Dfa out = combine(k.plain, in, BothWays::difference);
  uint64_t rest = p;
  for (const uint64_t factor : {2, 5}) {
    while (rest % factor == 0) rest /= factor;
  }
  std::vector<const Dfa*> ins{&in}, outs{&out};
  if (rest == 1 && p < 65'536) ins.insert(ins.end(), {&k.huge, &k.negative_huge});
  if (places == 0) outs.insert(outs.end(), {&k.tiny, &k.negative_tiny});
  return sum(ins, outs);
}

std::vector<NumberSet> list_numbers(const NumberSet& set, size_t most) {
  if (set.loosened) return {};
  const Dfa shortest = match("0|-?([1-9][0-9]*|0\\.[0-9]*[1-9]|[1-9][0-9]*\\.[0-9]*[1-9])");
  std::vector<NumberSet> found;
  NumberSet sum = no_numbers();
  for (const auto& text : list_texts(combine(*set.in, shortest, BothWays::intersection), most)) {
    const Decimal number = decimal_of(OrderedJson::binary({text.begin(), text.end()}));
    const NumberSet one = intersection_of(at_least(number, true), at_most(number, true));
    found.push_back(intersection_of(set, one));
    sum = union_of(sum, found.back());
  }
  return *sum.in == *set.in ? found : std::vector<NumberSet>();
}

NumberSet complement_of(const NumberSet& a) {
  if (!a.loosened) return {a.out, a.in};
  NumberSet any = all_numbers();
  any.loosened = true;
  return any;
}
NumberSet intersection_of(const NumberSet& a, const NumberSet& b) {
  const auto is_all = [](const NumberSet& set) {
    return !set.loosened && set.out->empty() && *set.in == *all_numbers().in;
  };
  if (is_all(a)) return b;
  if (is_all(b)) return a;
  return {share(combine(*a.in, *b.in, BothWays::intersection)),
          share(combine(*a.out, *b.out, BothWays::union_)), a.loosened || b.loosened};
}
NumberSet union_of(const NumberSet& a, const NumberSet& b) {
  return {share(combine(*a.in, *b.in, BothWays::union_)),
          share(combine(*a.out, *b.out, BothWays::intersection)), a.loosened || b.loosened};
}

}  // namespace plimsoll::grammar
