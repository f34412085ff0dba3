#include "grammar/formats.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "grammar/patterns/regex.h"

namespace plimsoll::grammar {
namespace {

std::string times(const std::string& what, const std::string& count) {
  return "(?:" + what + "){" + count + "}";
}

// RFC 3339, with leap years and months as they are.
std::string date() {
  const std::string leap =
      "(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
  return "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"
         "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
         leap + "-02-29)";
}
std::string time() {
  const std::string hour = "(?:[01][0-9]|2[0-3])";
  return "(?:" + hour + ":[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[+-]" + hour +
         ":[0-5][0-9])|23:59:60(?:\\.[0-9]+)?(?:[Zz]|[+-]00:00))";
}
// RFC 3339, appendix A.
std::string duration() {
  const std::string n = "[0-9]+";
  const std::string time =
      "T(?:" + n + "H(?:" + n + "M(?:" + n + "S)?)?|" + n + "M(?:" + n + "S)?|" + n + "S)";
  const std::string date =
      "(?:" + n + "Y(?:" + n + "M(?:" + n + "D)?)?|" + n + "M(?:" + n + "D)?|" + n + "D)";
  return "P(?:" + date + "(?:" + time + ")?|" + time + "|" + n + "W)";
}

std::string ipv4() {
  const std::string octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return times(octet + "\\.", "3") + octet;
}
// RFC 4291, 2.2.
std::string ipv6() {
  const std::string h = "[0-9A-Fa-f]{1,4}";
  const std::string last = "(?:" + h + ":" + h + "|" + ipv4() + ")";
  std::string all = times(h + ":", "6") + last;
  all += "|::" + times(h + ":", "5") + last;
  all += "|(?:" + h + ")?::" + times(h + ":", "4") + last;
  for (int before = 1; before <= 4; ++before) {
    const std::string head = "(?:" + times(h + ":", "0," + std::to_string(before)) + h + ")?::";
    const int middle = 4 - before;
    all += "|" + head + (middle ? times(h + ":", std::to_string(middle)) : "") + last;
  }
  all += "|(?:" + times(h + ":", "0,5") + h + ")?::" + h;
  all += "|(?:" + times(h + ":", "0,6") + h + ")?::";
  return "(?:" + all + ")";
}
// RFC 1123: labels of at most 63 characters.
std::string hostname() {
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return "(?:" + label + "(?:\\." + label + ")*)";
}
std::string email() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string quoted = R"("(?:[ !#-\[\]-~]|\\[ -~])*")";
  return "(?:" + atom + "(?:\\." + atom + ")*|" + quoted + ")@(?:" + hostname() +
         "|\\[(?:" + ipv4() + "|IPv6:" + ipv6() + ")\\])";
}
// RFC 3986, and RFC 3987 where `other` is not empty: code points beyond ASCII.
std::string uri(bool relative, const std::string& other) {
  const std::string mark = "A-Za-z0-9._~" + other + "-";
  const std::string percent = "%[0-9A-Fa-f]{2}";
  const std::string pchar = "(?:[!$&'()*+,;=:@" + mark + "]|" + percent + ")";
  const std::string segment_nc = "(?:[!$&'()*+,;=@" + mark + "]|" + percent + ")+";
  const std::string user = "(?:[!$&'()*+,;=:" + mark + "]|" + percent + ")*@";
  const std::string name = "(?:[!$&'()*+,;=" + mark + "]|" + percent + ")*";
  const std::string host =
      "(?:\\[(?:" + ipv6() + "|v[0-9A-Fa-f]+\\.[!$&'()*+,;=:A-Za-z0-9._~-]+)\\]|" + name + ")";
  const std::string authority = "//(?:" + user + ")?" + host + "(?::[0-9]*)?(?:/" + pchar + "*)*";
  const std::string absolute = "/(?:" + pchar + "+(?:/" + pchar + "*)*)?";
  const std::string rootless = pchar + "+(?:/" + pchar + "*)*";
  const std::string tail = "(?:\\?(?:" + pchar + "|[/?])*)?(?:#(?:" + pchar + "|[/?])*)?";
  std::string whole =
      "[A-Za-z][A-Za-z0-9+.-]*:(?:" + authority + "|" + absolute + "|" + rootless + ")?" + tail;
  if (!relative) return whole;
  const std::string no_scheme = segment_nc + "(?:/" + pchar + "*)*";
  return "(?:" + whole + "|(?:" + authority + "|" + absolute + "|" + no_scheme + ")?" + tail + ")";
}
// RFC 6570.
std::string uri_template() {
  const std::string name =
      "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*";
  const std::string variable = name + "(?::[1-9][0-9]{0,3}|\\*)?";
  return "(?:[^\\x00-\\x20\"'%<>\\\\^`{|}]|%[0-9A-Fa-f]{2}|\\{[+#./;?&=,!@|]?" + variable + "(?:," +
         variable + ")*\\})*";
}

const std::map<std::string, std::string, std::less<>>& patterns() {
  static const std::string kBeyond =
      "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF\\u{10000}-\\u{EFFFD}";
  static const std::string kPointer = "(?:/(?:[^~/]|~[01])*)*";
  static const std::map<std::string, std::string, std::less<>> table = {
      {"date", date()},
      {"time", time()},
      {"date-time", date() + "[Tt]" + time()},
      {"duration", duration()},
      {"email", email()},
      {"hostname", hostname()},
      {"ipv4", ipv4()},
      {"ip-address", ipv4()},
      {"ipv6", ipv6()},
      {"uri", uri(false, "")},
      {"uri-reference", uri(true, "")},
      {"uriref", uri(true, "")},
      {"iri", uri(false, kBeyond)},
      {"iri-reference", uri(true, kBeyond)},
      {"uri-template", uri_template()},
      {"uuid", "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
      {"json-pointer", kPointer},
      {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" + kPointer + ")"},
  };
  return table;
}

}  // namespace

DfaPtr format_dfa(std::string_view name) {
  const auto pattern = patterns().find(name);
  if (pattern == patterns().end()) return nullptr;
  static std::mutex mutex;
  static std::map<std::string, DfaPtr, std::less<>> known;
  const std::lock_guard lock(mutex);
  const FreeWork free;
  auto& found = known[pattern->first];
  if (!found) found = std::make_shared<const Dfa>(dfa_of_regex(pattern->second, Match::whole));
  return found;
}

bool is_irregular_format(std::string_view name) {
  constexpr std::string_view kNames[] = {"regex", "idn-email", "idn-hostname"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

}  // namespace plimsoll::grammar
