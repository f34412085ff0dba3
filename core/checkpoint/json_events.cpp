#include "checkpoint/json_events.h"

#include <fmt/format.h>

#include <utility>

namespace plimsoll::checkpoint {

std::string shown(std::string_view name, Letters letters) {
  constexpr size_t kLongest = 120;
  std::string text;
  for (const char c : name.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool escaped = byte < 0x20 || byte == 0x7f || (byte > 0x7f && letters == Letters::ascii);
    text += escaped ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  if (name.size() > kLongest) text += "...";
  return text;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

bool JsonEvents::parse(std::string_view text) {
  return Json::sax_parse(text.data(), text.data() + text.size(), this);
}

bool JsonEvents::parse_error(size_t position, const std::string&,
                             const nlohmann::detail::exception& cause) {
  std::string_view why = cause.what();
  if (const size_t at = why.find("] "); at != std::string_view::npos) why.remove_prefix(at + 2);
  return stop(fmt::format("not JSON at byte {}: {}", position, shown(why)));
}

bool JsonEvents::stop(std::string why) {
  problem_ = std::move(why);
  return false;
}

}  // namespace plimsoll::checkpoint
