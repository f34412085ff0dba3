#include "engines/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engines/answer.h"

namespace plimsoll::engines {
namespace {

/// What ConfigView refuses in a config is here a mistake of the command line.
template <typename Read>
auto checked(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(ExitCode::usage, error.what());
  }
}

}  // namespace

Fields::Fields(Json object) : object_(std::move(object)) {
  if (object_.is_null()) object_ = Json::object();
  if (!object_.is_object()) fail(ExitCode::usage, "--engine-args: expected a JSON object");
}

void Fields::check_names(std::string_view python_class,
                         std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : object_.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    throw Refusal{"arguments",
                  fmt::format("TypeError: {}.__init__() got an unexpected keyword argument '{}'",
                              python_class, key)};
  }
}

bool Fields::has(const char* key) const {
  return view().has(key);
}

int64_t Fields::integer(const char* key, int64_t missing, Bounds bounds) const {
  return checked([&] { return view().integer({key}, missing, bounds); });
}

std::optional<int64_t> Fields::integer(const char* key, Bounds bounds) const {
  if (!has(key)) return std::nullopt;
  return integer(key, 0, bounds);
}

double Fields::number(const char* key, double missing) const {
  return checked([&] { return view().number({key}, missing); });
}

bool Fields::flag(const char* key, bool missing) const {
  return checked([&] { return view().flag({key}, missing); });
}

std::string Fields::text(const char* key, const std::string& missing) const {
  return checked([&] { return view().text({key}, missing); });
}

Fields Fields::object(const char* key) const {
  return Fields(view().child({key}).json());
}

Json with_flags(const Json& fields, const CommandLine& line, std::span<const Flag> flags,
                std::span<const FieldFlag> meanings) {
  Json all = fields.is_object() ? fields : Json::object();
  for (const auto& [key, field] : meanings) {
    if (!line.has(key)) continue;
    const Flag* const flag = find_flag(flags, key);
    const FlagKind kind = flag == nullptr ? FlagKind::text : flag->kind;
    if (kind == FlagKind::bare) {
      all[field] = true;
    } else if (kind == FlagKind::integer) {
      all[field] = line.integer(key, 0);
    } else if (kind == FlagKind::number) {
      all[field] = line.number(key).value_or(0);
    } else {
      all[field] = line.text(key, "");
    }
  }
  return all;
}

}  // namespace plimsoll::engines
