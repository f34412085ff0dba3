#include "batch/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace plimsoll::batch {
namespace {

using namespace std::chrono_literals;

constexpr auto kBarInterval = 100ms;
constexpr auto kLineInterval = 10s;
// The share of the work from which the rest's time can be estimated.
constexpr double kTelling = 0.02;

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

double rate(uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

std::string describe(const ProgressSample& sample, size_t width) {
  if (!sample.phase.empty()) return sample.phase + ", " + format_duration(sample.seconds);
  std::string head = fmt::format("{}", sample.done);
  if (sample.total) head += fmt::format("/{}", *sample.total);
  head += " lines";
  if (sample.failed > 0) head += fmt::format(" ({} failed)", sample.failed);
  // Each part of the line with its rank: parts of the lowest rank are left out first when there is
  // no room.
  std::vector<std::pair<int, std::string>> parts;
  if (sample.fraction) parts.emplace_back(4, fmt::format("{:.0f} %", 100 * *sample.fraction));
  parts.emplace_back(
      3, fmt::format("in {:.0f} out {:.0f} tok/s", rate(sample.tokens_in, sample.seconds),
                     rate(sample.tokens_out, sample.seconds)));
  parts.emplace_back(2, fmt::format("running {} (+{})", sample.running, sample.waiting));
  parts.emplace_back(1, fmt::format("KV {:.0f} %", 100 * sample.kv_use));
  const double made = sample.fraction.value_or(0) - sample.before;
  if (made > kTelling) {
    const double left = sample.seconds * (1 - *sample.fraction) / made;
    parts.emplace_back(5, format_duration(left) + " left");
  }
  while (true) {
    std::string text = head;
    for (const auto& [rank, part] : parts) text += ", " + part;
    if (text.size() <= width || parts.empty()) return text;
    parts.erase(std::ranges::min_element(parts));
  }
}

Progress::Progress(ProgressMode mode, int width, std::function<void(std::string_view)> write)
    : mode_(mode), width_(std::max(width, 20)), write_(std::move(write)) {}

void Progress::tick(Clock::time_point now, const std::function<ProgressSample()>& sample) {
  const std::lock_guard lock(mutex_);
  if (mode_ == ProgressMode::none) return;
  if (!last_) last_ = now;
  if (mode_ == ProgressMode::bar) {
    if (drawn_ && now - *last_ < kBarInterval) return;
    last_ = now;
    draw(sample());
    return;
  }
  const bool due = now - *last_ >= kLineInterval;
  // One early line shows that all is well; checked twice a second.
  const bool early = !first_line_shown_ && now - *last_ >= 500ms;
  if (!due && !early) return;
  const ProgressSample shown = sample();
  if (!due && shown.fraction.value_or(0) < 0.01) return;
  first_line_shown_ = true;
  last_ = now;
  write_("plimsoll: " + describe(shown) + "\n");
}

void Progress::draw(const ProgressSample& sample) {
  const auto columns = static_cast<size_t>(width_ - 1);
  // A bar of ten cells at least, where there is room for one.
  const size_t bar = sample.fraction && columns > 50 ? 14 : 0;
  std::string text = describe(sample, columns - bar);
  const int cells = static_cast<int>(columns) - static_cast<int>(text.size()) - 4;
  if (bar > 0 && cells >= 10) text = bar_of(*sample.fraction, std::min(cells, 40)) + text;
  text.resize(std::min(text.size(), columns));
  write_("\r\x1b[K" + text);
  drawn_ = true;
}

void Progress::note(std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (drawn_) write_("\r\x1b[K");
  drawn_ = false;
  write_("plimsoll: " + std::string(line) + "\n");
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  if (drawn_) write_("\r\x1b[K");
  drawn_ = false;
}

}  // namespace plimsoll::batch
