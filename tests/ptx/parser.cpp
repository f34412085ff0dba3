#include "ptx/parser.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>

#include "ptx/forms.h"
#include "ptx/names.h"
#include "ptx/text.h"

namespace plimsoll::ptx {
namespace {

class Parser {
 public:
  Parser(Module& module, const Module::Entry& entry)
      : names_(module, code_), text_(entry.text), place_(entry.place) {
    code_.name = entry.name;
    code_.shared_bytes = module.shared_bytes();
    code_.variables = module.variables();
  }

  Code parse() {
    parameters();
    directives();
    body();
    for (const auto& [instruction, label] : jumps_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) throw std::runtime_error("no label " + label);
      code_.instructions[instruction].target = found->second;
    }
    Instruction& end = code_.instructions.emplace_back();
    end.flow = Flow::exit;
    return std::move(code_);
  }

 private:
  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  /// Up to a character, which is left out.
  std::string take_until(char character) {
    const size_t end = std::min(text_.find(character, at_), text_.size());
    std::string taken(text_.substr(at_, end - at_));
    at_ = std::min(end + 1, text_.size());
    return taken;
  }

  void parameters() {
    skip_space();
    if (text_[at_] != '(') return;
    ++at_;
    names_.add_parameters(take_until(')'));
  }

  /// What stands between the parameters and the body.
  void directives() {
    constexpr std::string_view kMostThreads = ".maxntid";
    const std::string all = take_until('{');
    const size_t found = all.find(kMostThreads);
    if (found == std::string::npos) return;
    const std::string line = all.substr(found, all.find('\n', found) - found);
    unsigned threads = 1;
    for (const std::string& size : split_list(line.substr(kMostThreads.size())))
      threads *= static_cast<unsigned>(std::stoul(size));
    code_.most_threads = threads;
  }

  void body() {
    for (int depth = 1; depth > 0;) {
      skip_space();
      if (at_ == text_.size()) return;
      const char next = text_[at_];
      if (next == '{') {
        names_.open_scope();
        ++depth;
      } else if (next == '}') {
        names_.close_scope();
        --depth;
      }
      if (next == '{' || next == '}' || next == ';') {
        ++at_;
      } else if (!label()) {
        const size_t place = place_ + at_;
        statement(trimmed(take_until(';')), place);
      }
    }
  }

  bool label() {
    size_t end = at_;
    while (end < text_.size() && is_of_name(text_[end])) ++end;
    const size_t colon = text_.find_first_not_of(" \t", end);
    if (end == at_ || colon == std::string_view::npos || text_[colon] != ':') return false;
    if (text_.substr(colon, 2) == "::") return false;
    labels_[std::string(text_.substr(at_, end - at_))] =
        static_cast<int32_t>(code_.instructions.size());
    at_ = colon + 1;
    return true;
  }

  void statement(const std::string& text, size_t place) {
    if (text[0] == '.') {
      if (!names_.declare(text) && !text.starts_with(".loc") && !text.starts_with(".pragma"))
        throw std::runtime_error("directive " + text);
      return;
    }
    const Statement statement = parse_statement(text);
    Instruction instruction;
    code_.texts.push_back(text);
    instruction.text = &code_.texts.back();
    instruction.place = place;
    if (!statement.guard.empty()) instruction.guard = names_.resolve(statement.guard);
    if (statement.parts[0] == "bra")
      jumps_.emplace_back(code_.instructions.size(), statement.operands[0]);
    parse_form(names_, statement, instruction);
    code_.instructions.push_back(instruction);
  }

  Code code_;
  Names names_;
  std::string_view text_;
  size_t at_ = 0;
  const size_t place_;
  std::map<std::string, int32_t> labels_;
  std::vector<std::pair<size_t, std::string>> jumps_;
};

}  // namespace

Code parse(Module& module, const Module::Entry& entry) {
  try {
    return Parser(module, entry).parse();
  } catch (const std::exception& error) {
    throw std::runtime_error("PTX of " + entry.name + ": " + error.what());
  }
}

}  // namespace plimsoll::ptx
