// schema [--times] [--reasons]: a JSON object a line in, {"name", "schema", "tests": [{"valid",
// "data"}]}; out NAME<TAB>right, valid_refused, wrong_accepted or schema_refused:KEYWORD. A schema
// is right where every valid instance, as compact JSON, can be written and no invalid one. With
// --reasons the instance or refusal follows; with --times, on stderr, how long compiling took.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/thread_seconds.h"
#include "grammar/grammar.h"
#include "reference/recognizer.h"

namespace {

using namespace plimsoll;

struct Verdict {
  std::string word;
  std::string reason;
};

Verdict judge(const OrderedJson& line, double& milliseconds) {
  const double begin = thread_seconds();
  const auto stop = [&] { milliseconds = (thread_seconds() - begin) * 1e3; };
  std::optional<grammar::JsonSchema> schema;
  std::string ebnf;
  try {
    ebnf = schema.emplace(line.at("schema").dump()).ebnf({});
    stop();
  } catch (const Error& error) {
    stop();
    // "JSON schema: KEYWORD at POINTER: WHY"
    std::string keyword = error.what();
    keyword = keyword.substr(std::min(keyword.size(), std::string("JSON schema: ").size()));
    return {"schema_refused:" + keyword.substr(0, keyword.find(' ')), error.what()};
  }
  const testing::Recognizer recognizer(ebnf);
  Verdict verdict{"right", ""};
  for (const auto& test : line.at("tests")) {
    const bool valid = test.at("valid").get<bool>();
    const std::string text = test.at("data").dump();
    if (schema->refuse(text).empty() != valid) {
      verdict = {"validator_wrong", text + " " + schema->refuse(text)};
      break;
    }
    if (recognizer.accepts(text) == valid) continue;
    verdict.reason = text;
    if (!valid) return {"wrong_accepted", text};
    verdict.word = "valid_refused";
  }
  return verdict;
}

double at_share(std::vector<double> times, double share) {
  if (times.empty()) return 0;
  const auto at = static_cast<size_t>(share * static_cast<double>(times.size() - 1));
  std::ranges::nth_element(times, times.begin() + static_cast<long>(at));
  return times[at];
}

}  // namespace

int main(int count, char** arguments) {
  bool times_wanted = false, reasons = false;
  for (int i = 1; i < count; ++i) {
    const std::string flag = arguments[i];
    times_wanted |= flag == "--times";
    reasons |= flag == "--reasons";
    if (flag != "--times" && flag != "--reasons") {
      std::cerr << "usage: schema [--times] [--reasons] < a schema with its tests a line\n";
      return 2;
    }
  }
  std::vector<double> times;
  std::string text;
  while (std::getline(std::cin, text)) {
    if (text.empty()) continue;
    std::string name = "?";
    Verdict verdict;
    try {
      const auto line = OrderedJson::parse(text);
      name = line.at("name").get<std::string>();
      verdict = judge(line, times.emplace_back());
    } catch (const std::exception& error) {
      verdict = {"crash", error.what()};
    }
    std::cout << name << '\t' << verdict.word << (reasons ? '\t' + verdict.reason : "")
              << std::endl;
  }
  if (times_wanted) {
    fmt::print(stderr,
               "compiled in {:.2f} ms of a core (median), {:.1f} ms (99th percentile), {:.1f} ms "
               "(longest)\n",
               at_share(times, 0.5), at_share(times, 0.99), at_share(times, 1));
  }
  return 0;
}
