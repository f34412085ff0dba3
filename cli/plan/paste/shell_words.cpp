#include "cli/plan/paste/shell_words.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace plimsoll::cli {
namespace {

constexpr size_t kMostExpanded = size_t{1} << 20;

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

class ShellReader {
 public:
  ShellReader(const std::string& text, Variables& variables) : text_(text), variables_(variables) {}

  std::vector<Words> read() {
    while (at_ < text_.size()) step();
    end_command();
    return std::move(commands_);
  }

  std::string expanded() {
    while (at_ < text_.size()) {
      if (here() == '$') {
        expand();
      } else {
        word_ += text_[at_++];
      }
    }
    return std::move(word_);
  }

 private:
  [[nodiscard]] char here(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void step() {
    const char c = here();
    if (const size_t end = continued(at_); end != 0) {
      at_ = end;
      end_word();
    } else if (c == '\'') {
      single_quoted();
    } else if (c == '"') {
      double_quoted();
    } else if (c == '\\' && at_ + 1 < text_.size()) {
      add(text_[at_ + 1]);
      at_ += 2;
    } else if (c == '$') {
      expand();
    } else if (is_blank(c)) {
      end_word();
      ++at_;
    } else if (c == '#' && !inside_) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '>' || c == '<' || (c == '&' && here(1) == '>')) {
      redirect();
    } else if (c == ';' || c == '&' || c == '|' || c == '\n' || c == '(' || c == ')') {
      end_command();
      ++at_;
    } else {
      add(c);
      ++at_;
    }
  }

  /// The place where the text goes on when a line is continued at `at`; 0: it is not. Lines are
  /// continued by a shell's "\", and by its like in pastes: spaces behind it, cmd's "^",
  /// PowerShell's "`", a line that begins with a flag.
  [[nodiscard]] size_t continued(size_t at) const {
    size_t next = at;
    const bool marked = text_[at] == '\\' || text_[at] == '^' || text_[at] == '`';
    if (marked) ++next;
    while (next < text_.size() && is_blank(text_[next])) ++next;
    if (next >= text_.size() || text_[next] != '\n') return 0;
    if (marked) return next + 1;
    while (next < text_.size() && (is_blank(text_[next]) || text_[next] == '\n')) ++next;
    return next + 1 < text_.size() && text_[next] == '-' && text_[next + 1] != ' ' ? next : 0;
  }

  void single_quoted() {
    const size_t end = text_.find('\'', at_ + 1);
    if (end == std::string::npos) fail(ExitCode::usage, "--from: a quote is not closed");
    word_.append(text_, at_ + 1, end - at_ - 1);
    inside_ = true;
    at_ = end + 1;
  }

  void double_quoted() {
    inside_ = true;
    ++at_;
    while (here() != '"') {
      if (at_ >= text_.size()) fail(ExitCode::usage, "--from: a quote is not closed");
      if (here() == '$') {
        expand();
        continue;
      }
      const bool escaped =
          here() == '\\' && std::string_view("$`\"\\\n").find(here(1)) != std::string_view::npos;
      if (escaped) ++at_;
      if (!escaped || here() != '\n') word_ += here();
      ++at_;
    }
    ++at_;
  }

  /// "$NAME", "${NAME}", "${NAME:-default}"; whatever else begins with "$" stays.
  void expand() {
    const bool braced = here(1) == '{';
    const size_t first = at_ + (braced ? 2 : 1);
    size_t end = first;
    while (end < text_.size() && is_name(text_[end])) ++end;
    size_t close = end;
    if (braced) close = text_.find('}', end);
    if (end == first || close == std::string::npos) {
      add('$');
      ++at_;
      return;
    }
    const size_t after = braced ? close + 1 : end;
    const auto known = variables_.find(text_.substr(first, end - first));
    std::string value = text_.substr(at_, after - at_);
    if (known != variables_.end()) {
      value = known->second;
    } else if (braced && end < close && text_[close - 1] != '-') {
      const size_t dash = text_.find('-', end);
      if (dash < close) value = text_.substr(dash + 1, close - dash - 1);
    }
    word_ += value;
    expanded_ += value.size();
    if (expanded_ > kMostExpanded)
      fail(ExitCode::usage, "--from: variables stand for more than 1 MiB of text");
    inside_ = true;
    at_ = after;
  }

  void redirect() {
    const bool is_descriptor =
        !word_.empty() && std::ranges::all_of(word_, [](char c) { return c >= '0' && c <= '9'; });
    if (is_descriptor) drop_word();
    end_word();
    while (here() == '>' || here() == '<' || here() == '&' || here() == '|') ++at_;
    drops_next_ = true;
  }

  void add(char c) {
    word_ += c;
    inside_ = true;
  }

  void drop_word() {
    word_.clear();
    inside_ = false;
  }

  void end_word() {
    if (inside_ && !drops_next_) words_.push_back(word_);
    if (inside_) drops_next_ = false;
    drop_word();
  }

  void end_command() {
    end_word();
    drops_next_ = false;
    if (!words_.empty() && (words_.front() == "$" || words_.front() == "%"))
      words_.erase(words_.begin());  // the prompt of a terminal
    const bool exports = !words_.empty() && words_.front() == "export";
    if (exports || std::ranges::all_of(words_, is_assignment)) {
      for (const std::string& word : words_)
        if (is_assignment(word)) assign(variables_, word);
    } else {
      commands_.push_back(words_);
    }
    words_.clear();
  }

  const std::string& text_;
  Variables& variables_;
  size_t at_ = 0;
  std::string word_;
  size_t expanded_ = 0;      // bytes of variables' values
  bool inside_ = false;      // a word has begun, be it empty
  bool drops_next_ = false;  // the next word is a redirection's
  Words words_;
  std::vector<Words> commands_;
};

}  // namespace

bool is_assignment(const std::string& word) {
  const size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0 &&
         std::isdigit(static_cast<unsigned char>(word[0])) == 0 &&
         std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), is_name);
}

void assign(Variables& variables, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  const std::string name = assignment.substr(0, equals);
  const std::string value = assignment.substr(equals + 1);
  if (name == "Environment" && is_assignment(value)) return assign(variables, value);  // of systemd
  variables[name] = value;
}

std::string expand_variables(const std::string& text, Variables& variables) {
  return ShellReader(text, variables).expanded();
}

std::vector<Words> shell_commands(const std::string& text, Variables& variables) {
  return ShellReader(text, variables).read();
}

}  // namespace plimsoll::cli
