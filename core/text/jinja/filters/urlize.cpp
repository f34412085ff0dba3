#include "text/jinja/filters/urlize.h"

#include <algorithm>
#include <set>

#include "text/jinja/filters/regex.h"
#include "text/jinja/values/operators.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

constexpr const char* kHttp =
    R"re(^((https?://|www\.)(([\w%-]+\.)+)?([a-z]{2,63}|xn--[\w%]{2,59})|([\w%-]{2,63}\.)+)re"
    R"re((com|net|int|edu|gov|org|info|mil)|(https?://)((([\d]{1,3})(\.[\d]{1,3}){3})|)re"
    R"re((\[([\da-f]{0,4}:){2}([\da-f]{0,4}:?){1,6}\])))(?::[\d]{1,5})?(?:[/?#]\S*)?$)re";
constexpr const char* kMail = R"re(^\S+@\w[\w.-]*\.\w+$)re";

struct Links {
  std::string attributes;  // rel and target
  std::optional<Int> limit;
  std::vector<std::string> schemes;
};

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size()))
    ++count;
  return count;
}

std::string shortened(const std::string& url, std::optional<Int> limit) {
  if (!limit || static_cast<Int>(count_code_points(url)) <= *limit) return url;
  size_t at = 0;
  for (Int i = 0; i < *limit; ++i) next_character(url, at);
  return url.substr(0, at) + "...";
}

std::string link(const std::string& text, const Links& links) {
  static const Regex http(kHttp, true);
  static const Regex mail(kMail);
  const auto anchor = [&](const std::string& target, const std::string& shown, bool attributes) {
    return "<a href=\"" + target + "\"" + (attributes ? links.attributes : "") + ">" + shown +
           "</a>";
  };
  if (http.find(text)) {
    const bool has_scheme = text.starts_with("https://") || text.starts_with("http://");
    return anchor(has_scheme ? text : "https://" + text, shortened(text, links.limit), true);
  }
  if (text.starts_with("mailto:") && mail.find(text.substr(7)))
    return anchor(text, text.substr(7), false);
  if (text.find('@') != std::string::npos && !text.starts_with("www.") && !text.starts_with("@") &&
      text.find(':') == std::string::npos && mail.find(text)) {
    return anchor("mailto:" + text, text, false);
  }
  std::string out = text;
  for (const auto& scheme : links.schemes) {
    if (out != scheme && out.starts_with(scheme)) out = anchor(out, out, true);
  }
  return out;
}

// Brackets in front and punctuation behind stay outside of the link, unless they balance.
std::string word_link(const std::string& word, const Links& links) {
  static const Regex leading("^([(<]|&lt;)+");
  static const Regex trailing(R"(([)>.,\n]|&gt;)+\z)");
  std::string head;
  std::string middle = word;
  std::string tail;
  if (const auto found = leading.find(middle)) {
    head = middle.substr(0, found->second);
    middle.erase(0, found->second);
  }
  if (const auto found = trailing.find(middle)) {
    tail = middle.substr(found->first);
    middle.erase(found->first);
  }
  for (const auto& [open, close] :
       {std::pair<std::string, std::string>{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}}) {
    const size_t opened = count_of(middle, open);
    if (opened <= count_of(middle, close)) continue;
    for (size_t left = std::min(opened, count_of(tail, close)); left > 0; --left) {
      const size_t end = tail.find(close) + close.size();
      middle += tail.substr(0, end);
      tail.erase(0, end);
    }
  }
  return head + link(middle, links) + tail;
}

Links options(Runtime& runtime, const Bound& args) {
  static const Regex scheme_form(R"(^([\w.+-]{2,}:(/){0,2})$)");
  Links links;
  if (args.given(0)) links.limit = args.integer(runtime, 0, 0);
  std::set<std::string> rel = {"noopener"};
  if (args.truthy(runtime, 1, false)) rel.insert("nofollow");
  if (args.given(3)) {
    std::string word;
    for (const char c : args.text(3) + " ") {
      if (c != ' ') {
        word += c;
      } else if (!word.empty()) {
        rel.insert(std::exchange(word, {}));
      }
    }
  }
  std::string joined;
  for (const auto& word : rel) joined += (joined.empty() ? "" : " ") + word;
  links.attributes = " rel=\"" + escape_html(joined) + "\"";
  if (args.given(2)) links.attributes += " target=\"" + escape_html(args.text(2)) + "\"";
  if (args.given(4)) {
    for (const Value& scheme : to_list(runtime, args[4])) {
      if (!scheme.is_string() || !scheme_form.find(scheme.text())) {
        raise(repr(runtime, scheme), " is not a valid URI scheme prefix.");
      }
      links.schemes.push_back(scheme.text());
    }
  }
  return links;
}

}  // namespace

Value urlize(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("urlize", args,
                    {"trim_url_limit", "nofollow", "target", "rel", "extra_schemes"});
  const Links links = options(runtime, bound);
  const std::string text =
      subject.is_markup() ? subject.text() : escape_html(str(runtime, subject));
  runtime.charge_copy(text.size());
  runtime.charge(text.size());  // regular expressions on every word
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const bool space = is_space(next_character(text, at));
    while (at < text.size()) {
      size_t after = at;
      if (is_space(next_character(text, after)) != space) break;
      at = after;
    }
    const std::string word = text.substr(begin, at - begin);
    out += space ? word : word_link(word, links);
    runtime.check_size(static_cast<Int>(out.size()));
  }
  return Value::string(std::move(out));
}

}  // namespace plimsoll::text::jinja
