#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <array>

#include "text/budget.h"
#include "text/text_error.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {
namespace {

constexpr uint32_t kMatchLimit = 5'000'000;  // backtracking steps of one match
// Memory of the interpreter, which runs when the JIT's stack is too small.
constexpr uint32_t kHeapLimitKiB = 64 * 1024;
constexpr size_t kJitStackMax = size_t{8} << 20;
constexpr size_t kMaxPattern = size_t{1} << 14;
// A search without a match is cut into windows of start positions, so that the clock stops
// quadratic patterns.
constexpr size_t kWindow = 4096;
constexpr unsigned kCallsPerClockLook = 4096;

// Buffers and limits of a thread for matching any pattern.
struct Scratch {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(size_t{32} << 10, kJitStackMax, nullptr);

  Scratch() {
    if (!data || !context) throw std::bad_alloc();
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKiB);
    if (stack) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

Scratch& scratch() {
  thread_local Scratch value;
  return value;
}

std::string describe(int error) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(error, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

std::string shortened(std::string_view pattern) {
  return pattern.size() <= 120 ? std::string(pattern) : std::string(pattern.substr(0, 117)) + "...";
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  std::string pattern;  // as the file has it

  explicit Code(std::string_view text) : pattern(text) {}
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern) : code_(std::make_unique<Code>(pattern)) {
  if (pattern.size() > kMaxPattern) {
    throw RegexError(
        fmt::format("regular expression of {} bytes, more than {}", pattern.size(), kMaxPattern));
  }
  const std::string translated = to_pcre2(pattern);
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_bsr(context.get(), PCRE2_BSR_UNICODE);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT,
                    &error, &offset, context.get());
  if (!code_->code) {
    throw RegexError(
        fmt::format("regular expression '{}': {}", shortened(pattern), describe(error)));
  }
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // without it the interpreter runs
}

Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Regex::Search::Search(const Regex& regex, std::string_view text) : regex_(regex), text_(text) {}

bool Regex::Search::next(size_t& begin, size_t& end) {
  while (match(begin, end)) {
    if (begin == end && last_end_ == end) {
      from_ = after(from_);
      continue;
    }
    from_ = end;
    last_end_ = end;
    return true;
  }
  return false;
}

size_t Regex::Search::after(size_t at) const {
  return at < text_.size() ? std::min(text_.size(), at + utf8_length(text_[at])) : at + 1;
}

bool Regex::Search::match(size_t& begin, size_t& end) {
  Scratch& own = scratch();
  while (from_ <= text_.size()) {
    if (++calls_ % kCallsPerClockLook == 0) spend();
    const size_t limit = from_ + kWindow;
    pcre2_set_offset_limit(own.context, limit);
    const auto run = [&](uint32_t options) {
      return pcre2_match(regex_.code_->code, reinterpret_cast<PCRE2_SPTR>(text_.data()),
                         text_.size(), from_, PCRE2_NO_UTF_CHECK | options, own.data, own.context);
    };
    int status = run(0);
    if (status == PCRE2_ERROR_JIT_STACKLIMIT) status = run(PCRE2_NO_JIT);
    if (status >= 0) {
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(own.data);
      begin = bounds[0];
      end = std::max(bounds[0], bounds[1]);  // \K in a look-around may put the start behind the end
      return true;
    }
    if (status != PCRE2_ERROR_NOMATCH) {
      refuse_text("the tokenizer's regular expression '{}' gave up at byte {} of the text: {}",
                  shortened(regex_.code_->pattern), from_, describe(status));
    }
    spend();
    from_ = limit;
    while (from_ < text_.size() && (static_cast<unsigned char>(text_[from_]) & 0xC0) == 0x80)
      ++from_;
  }
  return false;
}

void Regex::Search::spend() {
  if (text_.size() > kWindow) TextBudget::check_regex_time(shortened(regex_.code_->pattern));
}

}  // namespace plimsoll::text
