// Formats of strings, with texts that the RFCs take and texts that they do not.
#include "grammar/formats.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace plimsoll;

namespace {

struct FormatRow {
  const char* format;
  std::vector<std::string> taken;
  std::vector<std::string> refused;
};

const std::string kLabel63(63, 'a');

const std::vector<FormatRow> kFormatRows = {
    {"date",
     {"2024-02-29", "2000-02-29", "2023-12-31", "2023-04-30", "0000-01-01"},
     {"2023-02-29", "1900-02-29", "2023-04-31", "2023-13-01", "2023-00-10", "2023-1-01",
      "2023-01-32", "2023-01-00"}},
    {"time",
     {"00:00:00Z", "23:59:59.25+23:59", "23:59:60Z", "23:59:60+00:00", "12:00:00z"},
     {"24:00:00Z", "12:60:00Z", "12:00:60Z", "12:00:00", "12:00Z", "12:00:00+24:00", "12:00:00.Z"}},
    {"date-time", {"2024-02-29t01:02:03z"}, {"2024-02-29 01:02:03Z", "2024-02-30T01:02:03Z"}},
    {"duration",
     {"P1Y2M3DT4H5M6S", "P3W", "PT1M", "P1Y", "P2M", "P3D", "PT5S", "PT1H30M", "P1YT1S"},
     {"P", "PT", "P1S", "P1Y3D", "P1W2D", "1D", "PT1H2S", "P1DT"}},
    {"ipv4",
     {"0.0.0.0", "255.255.255.255", "10.1.99.200", "249.250.1.1"},
     {"256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5", "1.2.3."}},
    {"ip-address", {"127.0.0.1"}, {"127.0.0"}},
    {"ipv6",
     {"::", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4::7:8",
      "1:2:3:4:5::8", "1:2:3::6:7:8", "1:2::5:6:7:8", "1::4:5:6:7:8", "::ffff:1.2.3.4",
      "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6::8"},
     {"1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", ":::", "1::2::3", "g::", "::12345", "1:2:3:4:5:6:7::8",
      "::256.1.1.1", ""}},
    {"hostname",
     {"a", "a.example", "a-b.c", "1.2", kLabel63},
     {"-a", "a-", "a..b", ".a", "a_b", "", kLabel63 + "a"}},
    {"email",
     {"a@b.c", "a.b+c@d", "\"a b\"@c", "\"\\\"\"@c", "a@[1.2.3.4]", "a@[IPv6:::1]"},
     {"a", "@b", "a@", "a b@c", ".a@b", "a..b@c", "a@[1.2.3]", "a@b@c", "\"a@b"}},
    {"uri",
     {"https://u:p@h.example:80/a/b?c=d&e#f", "mailto:a@b", "a:", "file:///x", "http://[::1]/",
      "http://[v1.a]/", "urn:a:%20b", "a:/b", "a://h:/"},
     {"//h", "/a", "a", "1a:b", "a:b c", "a:%2", "http://[::1", "a:#b#c", "a:\xc3\xa4"}},
    {"uri-reference",
     {"", "//h/a", "/a/b", "a/b", "?q", "#f", "./a:b", "a:b", "a%20b"},
     {"a b", ":a", "#a#b", "\\a"}},
    {"uriref", {"/a"}, {"a b"}},
    {"iri", {"http://\xc3\xa4.example/\xe2\x82\xac"}, {"/\xc3\xa4", "a:b c"}},
    {"iri-reference", {"\xc3\xa4/b", ""}, {"\xc3\xa4 b"}},
    {"uri-template",
     {"", "/a/{b}", "{+a,b}", "{a:3}", "{a*}{?b.c,d*}", "a%20", "{%41}"},
     {"{", "}", "{}", "{a:0}", "{a:10000}", "{a b}", "a b", "%4", "{a.}"}},
    {"uuid",
     {"01234567-89ab-cdef-ABCD-000000000000"},
     {"01234567-89ab-cdef-ABCD-00000000000", "0123456789abcdefABCD000000000000",
      "g1234567-89ab-cdef-abcd-000000000000"}},
    {"json-pointer", {"", "/", "/a~0b/~1/0", "//"}, {"a", "/~", "/~2", "#"}},
    {"relative-json-pointer", {"0", "0#", "12/a", "1/~1"}, {"01", "/a", "-1", "1a", "", "0#/a"}},
};

}  // namespace

TEST_CASE("formats take the texts of their RFCs alone") {
  for (const FormatRow& row : kFormatRows) {
    const grammar::DfaPtr dfa = grammar::format_dfa(row.format);
    REQUIRE(dfa != nullptr);
    for (const std::string& text : row.taken) {
      INFO(row.format << " " << text);
      CHECK(dfa->accepts(text));
    }
    for (const std::string& text : row.refused) {
      INFO(row.format << " " << text);
      CHECK_FALSE(dfa->accepts(text));
    }
  }
}

TEST_CASE("formats without a regular language are named, and others are none") {
  for (const char* name : {"regex", "idn-email", "idn-hostname"}) {
    CHECK(grammar::is_irregular_format(name));
    CHECK(grammar::format_dfa(name) == nullptr);
  }
  for (const char* name : {"color", "date", ""}) CHECK_FALSE(grammar::is_irregular_format(name));
  CHECK(grammar::format_dfa("color") == nullptr);
}
