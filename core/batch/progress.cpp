#include "batch/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace plimsoll::batch {
namespace {

using namespace std::chrono_literals;

constexpr auto kBarInterval = 100ms;
constexpr auto kLineInterval = 10s;

double rate(uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

std::string bar_of(double fraction, int cells) {
  const int full = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * cells);
  return "[" + std::string(static_cast<size_t>(full), '#') +
         std::string(static_cast<size_t>(cells - full), '.') + "] ";
}

}  // namespace

std::string format_duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(seconds, 0.0, 1e9));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F, in UTF-8 C2 80 to C2 9F, drive terminals too.
    const bool c1 =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (byte < 0x20 || byte == 0x7f || c1) {
      out += fmt::format("\\x{:02x}", byte);
      if (c1) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string describe(const ProgressSample& sample) {
  std::string text = fmt::format("{}", sample.done);
  if (sample.total) text += fmt::format("/{}", *sample.total);
  text += " lines";
  if (sample.failed > 0) text += fmt::format(" ({} failed)", sample.failed);
  if (sample.fraction) text += fmt::format(", {:.0f} %", 100 * *sample.fraction);
  text += fmt::format(", in {:.0f} out {:.0f} tok/s", rate(sample.tokens_in, sample.seconds),
                      rate(sample.tokens_out, sample.seconds));
  text += fmt::format(", running {} (+{}), KV {:.0f} %", sample.running, sample.waiting,
                      100 * sample.kv_use);
  if (sample.fraction && *sample.fraction > 0.001) {
    const double left = sample.seconds * (1 - *sample.fraction) / *sample.fraction;
    text += ", " + format_duration(left) + " left";
  }
  return text;
}

Progress::Progress(ProgressMode mode, int width, std::function<void(std::string_view)> write)
    : mode_(mode), width_(std::max(width, 20)), write_(std::move(write)) {}

void Progress::tick(Clock::time_point now, const std::function<ProgressSample()>& sample) {
  if (mode_ == ProgressMode::none) return;
  if (!last_) last_ = now;
  if (mode_ == ProgressMode::bar) {
    if (drawn_ && now - *last_ < kBarInterval) return;
    last_ = now;
    draw(sample());
    return;
  }
  const bool due = now - *last_ >= kLineInterval;
  // One early line tells that all is well; looked for twice a second.
  const bool early = !first_line_shown_ && now - *last_ >= 500ms;
  if (!due && !early) return;
  const ProgressSample shown = sample();
  if (!due && shown.fraction.value_or(0) < 0.01) return;
  first_line_shown_ = true;
  last_ = now;
  write_("plimsoll: " + describe(shown) + "\n");
}

void Progress::draw(const ProgressSample& sample) {
  std::string text = describe(sample);
  const int cells = width_ - static_cast<int>(text.size()) - 4;
  if (sample.fraction && cells >= 10) text = bar_of(*sample.fraction, std::min(cells, 40)) + text;
  text.resize(std::min(text.size(), static_cast<size_t>(width_ - 1)));
  write_("\r\x1b[K" + text);
  drawn_ = true;
}

void Progress::note(std::string_view line) {
  if (drawn_) write_("\r\x1b[K");
  drawn_ = false;
  write_("plimsoll: " + std::string(line) + "\n");
}

void Progress::finish() {
  if (drawn_) write_("\r\x1b[K");
  drawn_ = false;
}

}  // namespace plimsoll::batch
