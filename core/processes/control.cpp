#include "processes/control.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace plimsoll::processes {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 5ms;
constexpr auto kPulse = 500ms;
/// Between two looks no more than that counts as silence: a process that was stopped itself has not
/// waited.
constexpr auto kLongLook = 200ms;
/// Time for a last message before the process ends.
constexpr auto kFarewell = 500ms;

struct Header {
  int32_t kind = 0, code = 0;
};

}  // namespace

Control::Control(Link& link, ControlOptions options)
    : link_(link), options_(std::move(options)), thread_([this] { work(); }) {}

Control::~Control() {
  stop();
}

void Control::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) thread_.join();
}

std::vector<int> Control::peers() const {
  if (!is_first()) return {0};
  std::vector<int> peers;
  for (int process = 1; process < link_.count(); ++process) peers.push_back(process);
  return peers;
}

void Control::tell(int process, Kind kind, const std::string& text, ExitCode code) {
  const Header header{static_cast<int32_t>(kind), static_cast<int32_t>(code)};
  const std::lock_guard lock(mutex_);
  Sent& sent = sent_.emplace_back(Sent{process, kind, {}, {}});
  sent.bytes.resize(sizeof header + text.size());
  std::memcpy(sent.bytes.data(), &header, sizeof header);
  std::copy_n(text.data(), text.size(), reinterpret_cast<char*>(sent.bytes.data() + sizeof header));
  sent.request = link_.send({kPlimsollMpiControl, process, 0}, sent.bytes);
}

std::string Control::await(int process, Kind kind) {
  std::unique_lock lock(mutex_);
  std::deque<std::string>& texts = texts_[{process, kind}];
  changed_.wait(lock, [&] { return fault_ || !texts.empty(); });
  if (texts.empty()) throw Error(fault_->code, fault_->text);
  std::string text = std::move(texts.front());
  texts.pop_front();
  return text;
}

std::optional<Fault> Control::fault() {
  const std::lock_guard lock(mutex_);
  return fault_;
}

void Control::work() {
  Clock::time_point looked = Clock::now();
  while (true) {
    const Clock::time_point now = Clock::now();
    std::optional<Fault> overdue;
    try {
      receive();
      send_pulses(now);
      forget_sent();
    } catch (const Error& error) {
      set_fault({error.code(), error.what()});
    }
    note_silence(now - std::exchange(looked, now));
    {
      std::unique_lock lock(mutex_);
      if (fault_ && now > fault_at_ + options_.patience) overdue = fault_;
      if (!overdue && changed_.wait_for(lock, kLook, [this] { return stopped_; })) return;
    }
    if (overdue) return options_.leave(*overdue);
  }
}

void Control::send_pulses(Clock::time_point now) {
  if (ending_ || now - pulsed_ < kPulse) return;
  pulsed_ = now;
  for (const int peer : peers()) {
    bool on_its_way = false;
    {
      const std::lock_guard lock(mutex_);
      on_its_way = std::ranges::any_of(
          sent_, [&](const Sent& sent) { return sent.to == peer && sent.kind == Kind::pulse; });
    }
    if (!on_its_way) tell(peer, Kind::pulse, "");
  }
}

// A sender may be stopped in the middle of a message: none is waited for.
void Control::receive() {
  while (true) {
    if (!incoming_) {
      const auto ready = link_.probe();
      if (!ready) return;
      incoming_ = Incoming{ready->from, std::vector<std::byte>(ready->bytes), {}};
      incoming_->request = link_.receive({kPlimsollMpiControl, ready->from, 0}, incoming_->bytes);
    }
    if (!link_.test(incoming_->request)) return;
    const Incoming whole = *std::exchange(incoming_, std::nullopt);
    Header header;
    if (whole.bytes.size() < sizeof header) continue;
    std::memcpy(&header, whole.bytes.data(), sizeof header);
    const auto* text = reinterpret_cast<const char*>(whole.bytes.data()) + sizeof header;
    take(whole.from, static_cast<Kind>(header.kind), static_cast<ExitCode>(header.code),
         {text, whole.bytes.size() - sizeof header});
  }
}

void Control::take(int from, Kind kind, ExitCode code, std::string text) {
  silent_[from] = {};
  if (kind == Kind::pulse) return;
  if (kind == Kind::fault || kind == Kind::left) return set_fault({code, std::move(text)});
  {
    const std::lock_guard lock(mutex_);
    texts_[{from, kind}].push_back(std::move(text));
  }
  changed_.notify_all();
}

void Control::forget_sent() {
  const std::lock_guard lock(mutex_);
  std::erase_if(sent_, [this](Sent& sent) { return link_.test(sent.request).has_value(); });
}

void Control::note_silence(Clock::duration passed) {
  for (const int peer : peers()) {
    Clock::duration& silent = silent_[peer];
    silent += std::min<Clock::duration>(passed, kLongLook);
    if (silent < options_.silence) continue;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.silence);
    set_fault({ExitCode::device_lost,
               fmt::format("process {} of {}, on {}, has not been heard for {} seconds: it is "
                           "stopped or lost; finished lines are safe, and the same command goes on",
                           peer, link_.count(), link_.host(peer), seconds.count())});
  }
}

void Control::set_fault(Fault fault) {
  {
    const std::lock_guard lock(mutex_);
    if (fault_ || stopped_) return;
    fault_ = std::move(fault);
    fault_at_ = Clock::now();
  }
  if (options_.abort) options_.abort();
  changed_.notify_all();
}

void Control::shut_down(ExitCode code) noexcept {
  try {
    stop();
    for (const int peer : peers()) {
      if (is_first()) tell(peer, Kind::left, "", code);
    }
    flush();
  } catch (const std::exception&) {
    // They notice by the silence.
  }
}

// Messages come in the order in which they were sent: what was sent before these was received.
void Control::end() {
  if (is_first()) {
    ending_ = true;
    for (const int peer : peers()) tell(peer, Kind::end, "");
    for (const int peer : peers()) await(peer, Kind::ended);
    stop();
  } else {
    await(0, Kind::end);
    stop();
    tell(0, Kind::ended, "");
  }
  flush();
}

void Control::flush() {
  const Clock::time_point end = Clock::now() + kFarewell;
  for (forget_sent(); !sent_.empty() && Clock::now() < end; forget_sent()) {
    std::this_thread::sleep_for(1ms);
  }
}

}  // namespace plimsoll::processes
