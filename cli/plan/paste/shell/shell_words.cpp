#include "cli/plan/paste/shell/shell_words.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/trim.h"
#include "cli/plan/paste/shell/shell_parameters.h"

namespace plimsoll::cli {
namespace {

constexpr size_t kMostExpanded = size_t{1} << 20;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

class ShellReader {
 public:
  ShellReader(const std::string& text, Variables& variables)
      : ShellReader(text, variables, own_expanded_) {}
  /// A reader within another, whose count of expanded bytes goes on.
  ShellReader(const std::string& text, Variables& variables, size_t& expanded)
      : text_(text), variables_(variables), expanded_(expanded) {}

  std::vector<Words> read() {
    while (at_ < text_.size()) step();
    end_command();
    return std::move(commands_);
  }

  /// The words of an array, whose text is no command.
  Words array_words() {
    is_array_ = true;
    (void)read();
    return std::move(words_);
  }

  std::string expanded() {
    while (at_ < text_.size()) {
      if (here() == '$') {
        expand(true);
      } else {
        word_ += text_[at_++];
      }
    }
    return std::move(word_);
  }

 private:
  /// A here-document.
  struct Document {
    std::string end;     // the line behind it
    std::string target;  // the file that its command writes; empty: not known yet
    bool strips = false, quoted = false;
  };

  [[nodiscard]] char here(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void skip(const char* set) { at_ = std::min(text_.find_first_not_of(set, at_), text_.size()); }

  void step() {
    const char c = here();
    if (c == '\n' && !documents_.empty()) {
      read_documents();
    } else if (const size_t end = continued(at_); end != 0) {
      at_ = end;
      end_word();
    } else if (const size_t behind = placeholder(); behind != 0) {
      while (at_ < behind) add(text_[at_++]);
    } else if (c == '\'') {
      single_quoted();
    } else if (c == '"') {
      double_quoted();
    } else if (c == '\\' && at_ + 1 < text_.size()) {
      add(text_[at_ + 1]);
      at_ += 2;
    } else if (c == '$') {
      expand(false);
    } else if (is_blank(c)) {
      end_word();
      skip(" \t\r");  // at once: continued() looks at all of them
    } else if (c == '#' && !inside_) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '>' || c == '<' || (c == '&' && here(1) == '>')) {
      redirect();
    } else if (c == '(' && !is_array_ && word_.ends_with('=') && is_assignment(word_)) {
      read_array();
    } else if (c == ';' || c == '&' || c == '|' || c == '\n' || c == '(' || c == ')') {
      end_command();
      ++at_;
      if (c == '\n') skip(" \t\r\n");  // likewise
    } else {
      add(c);
      ++at_;
    }
  }

  /// The place where the text goes on when a line is continued at `at`; 0: it is not. Lines are
  /// continued by a shell's "\", and by its like in pastes: spaces behind it, cmd's "^",
  /// PowerShell's "`", a line that begins with a flag.
  size_t continued(size_t at) {
    size_t next = at;
    const bool marked = text_[at] == '\\' || text_[at] == '^' || text_[at] == '`';
    if (marked) ++next;
    while (next < text_.size() && is_blank(text_[next])) ++next;
    if (marked && next > at + 1 && next < text_.size() && text_[next] == '#')
      next = std::min(text_.find('\n', next), text_.size());  // a comment behind the "\"
    if (next >= text_.size()) return marked ? next : 0;
    if (text_[next] != '\n') return 0;
    if (marked) return behind_prompt(next + 1);
    while (next < text_.size() && (is_blank(text_[next]) || text_[next] == '\n')) ++next;
    return next + 1 < text_.size() && text_[next] == '-' && text_[next + 1] != ' ' ? next : 0;
  }

  /// The place behind the prompt of a continued line: "> --flag". A redirection names no flag and
  /// stands behind a command; once a line had the prompt, all have it.
  size_t behind_prompt(size_t line) {
    size_t next = text_.find_first_not_of(" \t", line);
    if (next == std::string::npos || text_[next] != '>') return line;
    next = text_.find_first_not_of(" \t", next + 1);
    if (next == std::string::npos || text_[next] == '>') return line;
    prompts_ = prompts_ || text_[next] == '-' || std::ranges::all_of(words_, is_assignment);
    return prompts_ ? next : line;
  }

  /// The end of "<your-model>" or "<(command)", which stand for a word; 0: there is none here.
  [[nodiscard]] size_t placeholder() const {
    constexpr size_t kLongest = 200;  // bytes
    if (here() == '<' && here(1) == '(') return behind_bracket(at_ + 1);
    if (here() != '<' || std::isalpha(static_cast<unsigned char>(here(1))) == 0) return 0;
    const std::string_view rest = std::string_view(text_).substr(at_, kLongest);
    const size_t end = rest.find_first_of("> \t\n");
    return end != std::string::npos && rest[end] == '>' ? at_ + end + 1 : 0;
  }

  /// The place behind the bracket that closes the one at `at`.
  [[nodiscard]] size_t behind_bracket(size_t at) const {
    int depth = 0;
    for (; at < text_.size(); ++at) {
      if (text_[at] == '(') ++depth;
      if (text_[at] == ')' && --depth == 0) return at + 1;
    }
    return at;
  }

  /// "$(command)" stays as it is; "$((41 * 1024))" becomes its value.
  void substitute() {
    const size_t end = behind_bracket(at_ + 1);
    const std::string inner = text_.substr(at_, end - at_);
    at_ = end;
    inside_ = true;
    const bool product = inner.starts_with("$((") && inner.ends_with("))") &&
                         inner.find_first_not_of("$() *0123456789") == std::string::npos;
    const bool nests = inner.find("$(", 2) != std::string::npos;
    if (!product && !nests && is_assignment(word_)) {  // OUT=$(llama-cli -m FILE)
      for (Words& command : command_within(inner)) commands_.push_back(std::move(command));
    }
    word_ += product ? std::to_string(product_of(inner)) : inner;
  }

  /// The commands of "$(command)".
  std::vector<Words> command_within(const std::string& substitution) {
    const std::string text = substitution.substr(2, substitution.size() - 3);
    return ShellReader(text, variables_, expanded_).read();
  }

  /// Reads the here-documents that the line at its end has begun (POSIX, 2.7.4).
  void read_documents() {
    end_word();
    ++at_;
    for (const Document& document : documents_) {
      if (endless_ == 64) break;  // each is looked for to the text's end
      const auto [body, behind] = body_of(document);
      if (behind == 0) {  // it has no end: the lines are commands
        ++endless_;
        continue;
      }
      at_ = behind;
      const std::string last = std::ranges::count(words_, "tee") > 0 ? words_.back() : target_;
      const std::string target = document.target.empty() ? last : document.target;
      if (target.empty()) continue;
      variables_[file_variable(target)] =
          document.quoted ? body : ShellReader(body, variables_, expanded_).expanded();
    }
    documents_.clear();
    end_command();
  }

  /// The lines up to the one that is the document's end, and the place behind that; 0: there is
  /// none. Pastes are indented, and have blanks behind it.
  [[nodiscard]] std::pair<std::string, size_t> body_of(const Document& document) const {
    std::string body;
    for (size_t at = at_; at < text_.size();) {
      const size_t end = std::min(text_.find('\n', at), text_.size());
      std::string line = text_.substr(at, end - at);
      at = std::min(end + 1, text_.size());
      const std::string_view marker = trimmed(line, " \t\r");
      if (!marker.empty() && marker == document.end) return {body, at};
      if (document.strips) line.erase(0, line.find_first_not_of('\t'));
      body += line + "\n";
    }
    return {};
  }

  /// Reads "<<END", "<<-END", "<<'END'".
  void begin_document() {
    end_word();
    Document document;
    at_ += 2;
    if (here() == '-') {
      document.strips = true;
      ++at_;
    }
    while (is_blank(here())) ++at_;
    while (at_ < text_.size() && (is_name_char(here()) || here() == '\'' || here() == '"')) {
      document.quoted = document.quoted || !is_name_char(here());
      if (is_name_char(here())) document.end += here();
      ++at_;
    }
    if (!document.end.empty()) documents_.push_back(document);
  }

  void single_quoted() {
    const size_t end = text_.find('\'', at_ + 1);
    if (end == std::string::npos) fail(ExitCode::usage, "--from: a quote is not closed");
    word_.append(text_, at_ + 1, end - at_ - 1);
    inside_ = true;
    at_ = end + 1;
  }

  void double_quoted() {
    constexpr std::string_view kAll = "\"$@\"";
    const auto all = variables_.find("@");
    if (all != variables_.end() && all->second.empty() &&
        text_.compare(at_, kAll.size(), kAll) == 0) {
      at_ += kAll.size();  // no arguments: no word
      return;
    }
    inside_ = true;
    ++at_;
    while (here() != '"') {
      if (at_ >= text_.size()) fail(ExitCode::usage, "--from: a quote is not closed");
      if (here() == '$') {
        expand(true);
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

  /// "$NAME" and what parameter_value() knows; whatever else begins with "$" stays. A value outside
  /// quotes is as many words as it has, but for that of an assignment.
  void expand(bool quoted) {
    if (here(1) == '(') return substitute();
    const bool braced = here(1) == '{';
    const size_t first = at_ + (braced ? 2 : 1);
    size_t end = first;
    while (end < text_.size() && is_name_char(text_[end])) ++end;
    if (!braced && std::isdigit(static_cast<unsigned char>(here(1))) != 0) end = first + 1;
    const bool all = end == first && end < text_.size() && (text_[end] == '@' || text_[end] == '*');
    if (all && variables_.contains("@")) ++end;
    if (end == first || (braced && behind_brace(end) == 0)) {
      add('$');
      ++at_;
      return;
    }
    const size_t after = braced ? behind_brace(end) : end;
    const std::string inside = text_.substr(first, after - first - (braced ? 1 : 0));
    const std::optional<std::string> known = parameter_value(inside, variables_);
    const std::string value = known.value_or(text_.substr(at_, after - at_));
    expanded_ += value.size();
    if (expanded_ > kMostExpanded)
      fail(ExitCode::usage, "--from: variables stand for more than 1 MiB of text");
    at_ = after;
    const bool splits = !quoted && known && !is_assignment(word_);
    inside_ = inside_ || quoted || !known || !value.empty();
    const bool joins = all && (is_assignment(word_) || text_[first] == '*');
    for (const char c : value) {
      if (c == kBetweenWords && joins) {
        add(' ');
      } else if (c == kBetweenWords || (splits && (is_blank(c) || c == '\n'))) {
        end_word();
      } else {
        add(c);
      }
    }
  }

  /// The place behind the brace that closes the one before `at`; 0: there is none.
  [[nodiscard]] size_t behind_brace(size_t at) const {
    constexpr size_t kLongest = 4096;  // bytes: each is looked for that far
    const size_t end = std::min(text_.size(), at + kLongest);
    for (int depth = 1; at < end; ++at) {
      if (text_[at] == '{') ++depth;
      if (text_[at] == '}' && --depth == 0) return at + 1;
    }
    return 0;
  }

  /// NAME=(word ...): an array, which holds no other.
  void read_array() {
    const size_t end = behind_bracket(at_);
    const std::string inner = text_.substr(at_ + 1, end - at_ - 2);
    assign_array(variables_, word_, ShellReader(inner, variables_, expanded_).array_words());
    at_ = end;
    drop_word();
  }

  void redirect() {
    const bool is_descriptor =
        !word_.empty() && std::ranges::all_of(word_, [](char c) { return c >= '0' && c <= '9'; });
    if (is_descriptor) drop_word();
    if (here() == '<' && here(1) == '<' && here(2) != '<') return begin_document();
    end_word();
    names_target_ = here() == '>';
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
    check_word_count(words_, 4 * kMostWords);  // not all are a launch's
    if (inside_ && drops_next_ && names_target_) target_ = word_;
    if (inside_) drops_next_ = false;
    drop_word();
  }

  void end_command() {
    end_word();
    drops_next_ = false;
    if (is_array_) return;
    drop_prompt(words_);
    begin_loop(words_, variables_);
    shift_arguments(words_, variables_);
    if (!target_.empty() && !words_.empty() && words_.front() == "echo")
      keep_echo(words_, target_, variables_);
    constexpr std::string_view kSetters[] = {"export", "local", "declare", "readonly", "typeset"};
    const bool sets = !words_.empty() && is_among(kSetters, words_.front());
    if (sets || std::ranges::all_of(words_, is_assignment)) {
      for (const std::string& word : words_)
        if (is_assignment(word)) assign(variables_, word);
    } else {
      commands_.push_back(words_);
    }
    words_.clear();
    for (Document& document : documents_)
      if (document.target.empty()) document.target = target_;
    target_.clear();
  }

  const std::string& text_;
  Variables& variables_;
  size_t at_ = 0;
  std::string word_;
  size_t own_expanded_ = 0;
  size_t& expanded_;                 // bytes of variables' values
  bool is_array_ = false;            // the text is that of an array
  bool prompts_ = false;             // continued lines begin with "> "
  bool inside_ = false;              // a word has begun, be it empty
  bool drops_next_ = false;          // the next word is a redirection's
  bool names_target_ = false;        // and it is the file that is written
  std::string target_;               // the file that the command writes
  std::vector<Document> documents_;  // begun on this line
  int endless_ = 0;                  // here-documents without an end
  Words words_;
  std::vector<Words> commands_;
};

}  // namespace

std::string expand_variables(const std::string& text, Variables& variables) {
  return ShellReader(text, variables).expanded();
}

std::vector<Words> shell_commands(const std::string& text, Variables& variables) {
  return ShellReader(text, variables).read();
}

}  // namespace plimsoll::cli
