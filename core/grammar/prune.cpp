// Takes out of a grammar what no text can complete.
#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "grammar/rules.h"

namespace plimsoll::grammar {
namespace {

using Names = std::set<std::string, std::less<>>;

// The body of a rule, as Rules and Emitter write it, read with the names of rules that have an end.
class Body {
 public:
  /// Whether a text completes it, and those of its parts that such texts have.
  struct Part {
    bool ends;
    std::string text;
  };

  Body(std::string_view text, const Names& ending) : text_(text), ending_(ending) {}

  Part choice() {
    Part sum{false, ""};
    while (true) {
      const Part one = sequence();
      if (one.ends) {
        if (sum.ends) sum.text += " | ";
        sum.text += one.text;
        sum.ends = true;
      }
      if (at_ == text_.size() || text_[at_] != '|') return sum;
      ++at_;
    }
  }

  /// The names of rules in it.
  Names names() {
    (void)choice();
    return std::move(met_);
  }

 private:
  Part sequence() {
    Part sum{true, ""};
    while (true) {
      skip(" ");
      if (at_ == text_.size() || text_[at_] == '|' || text_[at_] == ')') break;
      const Part one = item();
      sum.ends = sum.ends && one.ends;
      if (!one.text.empty()) sum.text += (sum.text.empty() ? "" : " ") + one.text;
    }
    if (sum.text.empty()) sum.text = "\"\"";
    return sum;
  }

  // A literal, a class, a rule or parentheses, with the count behind it.
  Part item() {
    const size_t begin = at_;
    Part part{true, ""};
    if (text_[at_] == '(') {
      ++at_;
      part = choice();
      ++at_;
      part.text = "(" + part.text + ")";
    } else if (text_[at_] == '"' || text_[at_] == '[') {
      const char close = text_[at_] == '"' ? '"' : ']';
      for (++at_; text_[at_] != close; ++at_) at_ += text_[at_] == '\\' ? 1 : 0;
      part.text = text_.substr(begin, ++at_ - begin);
    } else {
      at_ = std::min(text_.find_first_of(" |()*+?{", at_), text_.size());
      part.text = text_.substr(begin, at_ - begin);
      part.ends = ending_.contains(part.text);
      met_.insert(part.text);
    }
    const size_t count = at_;
    if (at_ < text_.size() && text_[at_] == '{') at_ = text_.find('}', at_);
    if (at_ < text_.size() && std::string_view("}*+?").find(text_[at_]) != std::string_view::npos)
      ++at_;
    const std::string_view times = text_.substr(count, at_ - count);
    const bool needed =
        times.empty() || times == "+" || (times.starts_with("{") && !times.starts_with("{0,"));
    if (!part.ends && !needed) return {true, ""};
    part.text += times;
    return part;
  }

  void skip(std::string_view characters) {
    at_ = std::min(text_.find_first_not_of(characters, at_), text_.size());
  }

  std::string_view text_;
  const Names& ending_;
  Names met_;
  size_t at_ = 0;
};

}  // namespace

std::string without_dead_ends(const std::string& grammar) {
  std::vector<std::pair<std::string, std::string_view>> rules;
  for (size_t begin = 0; begin < grammar.size();) {
    const size_t end = grammar.find('\n', begin);
    const size_t name = grammar.find(" ::= ", begin);
    rules.emplace_back(grammar.substr(begin, name - begin),
                       std::string_view(grammar).substr(name + 5, end - name - 5));
    begin = end + 1;
  }
  Names ending;
  std::map<std::string, std::vector<size_t>, std::less<>> users;
  // In the order in which rules stand, those that others lead to first for the most part. A rule
  // waits once, however many of its parts have found an end meanwhile.
  std::deque<size_t> todo;
  std::vector<bool> waits(rules.size(), true);
  for (size_t i = 0; i < rules.size(); ++i) {
    WorkLimit::spend(static_cast<int64_t>(rules[i].second.size()) / 16);
    for (const auto& name : Body(rules[i].second, ending).names()) users[name].push_back(i);
    todo.push_back(i);
  }
  while (!todo.empty()) {
    const size_t at = todo.front();
    const auto& [name, body] = rules[at];
    todo.pop_front();
    waits[at] = false;
    if (ending.contains(name)) continue;
    WorkLimit::spend(static_cast<int64_t>(body.size()) / 16);
    if (!Body(body, ending).choice().ends) continue;
    ending.insert(name);
    const auto found = users.find(name);
    if (found == users.end()) continue;
    for (const size_t user : found->second) {
      if (waits[user]) continue;
      waits[user] = true;
      todo.push_back(user);
    }
  }
  if (rules.empty() || !ending.contains(rules[0].first)) return "";
  if (std::ranges::all_of(users, [&](const auto& use) { return ending.contains(use.first); })) {
    return grammar;
  }
  std::string out;
  for (const auto& [name, body] : rules) {
    if (ending.contains(name)) out += name + " ::= " + Body(body, ending).choice().text + "\n";
  }
  return out;
}

}  // namespace plimsoll::grammar
