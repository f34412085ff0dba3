#include "text/budget.h"

#include "base/thread_seconds.h"
#include "text/text_error.h"

namespace plimsoll::text {
namespace {

constexpr double kRegexSeconds = 5;
// One character of three bytes becomes eighteen of up to three bytes in NFKD (U+FDFA), and each
// byte two in a byte-level alphabet.
constexpr size_t kGrowth = 64;
constexpr size_t kSmallText = size_t{64} << 10;  // may always become so large

thread_local TextBudget* current = nullptr;

}  // namespace

TextBudget::TextBudget(size_t text_bytes) : text_bytes_(text_bytes), outer_(current) {
  current = this;
}
TextBudget::~TextBudget() {
  current = outer_;
}

void TextBudget::check_size(size_t bytes) {
  if (!current || bytes <= kSmallText || bytes / kGrowth <= current->text_bytes_) return;
  refuse_text("the tokenizer's file makes {} bytes of a text of {}", bytes, current->text_bytes_);
}

void TextBudget::check_regex_time(std::string_view pattern) {
  if (!current) return;
  const double now = thread_seconds();
  double& deadline = current->regex_deadline_;
  if (deadline == 0) deadline = now + kRegexSeconds;
  if (now <= deadline) return;
  refuse_text(
      "the tokenizer's regular expression '{}' takes more than {} seconds on a text of {} bytes",
      pattern, kRegexSeconds, current->text_bytes_);
}

}  // namespace plimsoll::text
