#include "base/key_order.h"

#include <algorithm>
#include <array>

namespace plimsoll {
namespace {

constexpr std::array<std::string_view, 3> kRules = {"dynamic", "extra_config",
                                                    "layer_quant_config"};

std::string order_name(const std::string& key) {
  return key + ": in this order";
}

/// Follows a text through the value that was made of it. (An OrderedJson looks keys up one by one,
/// and mixtures name each of their experts.)
class OrderKeeper {
 public:
  explicit OrderKeeper(Json& root) : root_(root) {}

  bool null() { return element(); }
  bool boolean(bool) { return element(); }
  bool number_integer(int64_t) { return element(); }
  bool number_unsigned(uint64_t) { return element(); }
  bool number_float(double, const std::string&) { return element(); }
  bool string(std::string&) { return element(); }
  bool binary(Json::binary_t&) { return element(); }
  bool start_object(size_t) { return open(); }
  bool start_array(size_t) { return open(); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    open_.back().keys.push_back(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

 private:
  struct Level {
    Json* value;
    size_t elements = 0;
    std::vector<std::string> keys{};
  };

  bool element() {
    if (!open_.empty()) ++open_.back().elements;
    return true;
  }
  bool open() {
    Json* value = &root_;
    if (!open_.empty()) {
      Level& around = open_.back();
      value = around.value->is_object() ? &(*around.value)[around.keys.back()]
                                        : &(*around.value)[around.elements];
    }
    element();
    open_.push_back({value});
    return true;
  }
  bool close() {
    const Level level = std::move(open_.back());
    open_.pop_back();
    if (open_.empty() || !level.value->is_object() || !open_.back().value->is_object()) return true;
    const std::string& name = open_.back().keys.back();
    if (std::ranges::find(kRules, name) != kRules.end())
      (*open_.back().value)[order_name(name)] = level.keys;
    return true;
  }

  Json& root_;
  std::vector<Level> open_;
};

}  // namespace

void keep_key_order(std::string_view text, Json& config) {
  const auto is_named = [&](std::string_view rules) { return text.find(rules) != text.npos; };
  if (std::ranges::none_of(kRules, is_named)) return;
  OrderKeeper keeper(config);
  (void)Json::sax_parse(text.data(), text.data() + text.size(), &keeper);
}

std::vector<std::string> keys_in_order(const Json& parent, const std::string& key) {
  std::vector<std::string> keys;
  const auto rules = parent.find(key);
  if (rules == parent.end() || !rules->is_object()) return keys;
  const auto kept = parent.find(order_name(key));
  if (kept != parent.end() && kept->is_array() && kept->size() == rules->size()) {
    for (const Json& name : *kept)
      if (name.is_string() && rules->contains(name)) keys.push_back(name.get<std::string>());
    if (keys.size() == rules->size()) return keys;
    keys.clear();
  }
  for (const auto& [name, value] : rules->items()) keys.push_back(name);
  return keys;
}

}  // namespace plimsoll
