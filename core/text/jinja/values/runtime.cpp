#include "text/jinja/values/runtime.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/values/operators.h"

namespace plimsoll::text::jinja {

void Runtime::check_size(Int count, Int unit) {
  if (unit <= 0 || count <= 0) return;
  const Int most = static_cast<Int>(limits_.max_output);
  if (count > most || unit > most || count * unit > most) {
    too_long(static_cast<size_t>(std::min<Int>(count, INT64_MAX)));
  }
}

void Runtime::check_elements(Int count) {
  if (count > static_cast<Int>(limits_.max_output / sizeof(Value))) {
    throw Failure("the template builds a list that is too long for its budget");
  }
  charge(static_cast<uint64_t>(std::max<Int>(count, 0)) / 8 + 1);
}

Runtime::~Runtime() {
  while (mutables_ != nullptr) {
    const Value hold = make_object(mutables_);
    Mutable& first = *mutables_;
    mutables_ = first.after_;
    if (mutables_ != nullptr) mutables_->before_ = nullptr;
    first.after_ = nullptr;
    first.clear();
  }
}

Mutable::Mutable(Runtime& runtime) : runtime_(runtime), after_(runtime.mutables_) {
  if (after_ != nullptr) after_->before_ = this;
  runtime.mutables_ = this;
}

Mutable::~Mutable() {
  if (after_ != nullptr) after_->before_ = before_;
  if (before_ != nullptr) {
    before_->after_ = after_;
  } else if (runtime_.mutables_ == this) {
    runtime_.mutables_ = after_;
  }
}

std::optional<Value> Namespace::attribute(Runtime&, std::string_view name) {
  const auto at = std::ranges::find(
      attributes_, name, [](const auto& entry) { return std::string_view(entry.first); });
  return at == attributes_.end() ? std::nullopt : std::optional(at->second);
}

void Namespace::set(const std::string& name, Value value) {
  const auto at = std::ranges::find(
      attributes_, name, [](const auto& entry) { return std::string_view(entry.first); });
  if (at != attributes_.end()) {
    at->second = std::move(value);
  } else {
    attributes_.emplace_back(name, std::move(value));
  }
}

std::string Namespace::repr(Runtime& runtime, int depth) const {
  std::string out = "<Namespace {";
  const char* separator = "";
  for (const auto& [name, value] : attributes_) {
    out += separator + quote(name) + ": ";
    append_repr(runtime, out, value, depth);
    separator = ", ";
  }
  return out + "}>";
}

void Runtime::out_of_steps() const {
  throw Failure(fmt::format("the template takes more than {} steps", limits_.max_steps));
}

void Runtime::too_long(size_t) const {
  throw Failure(fmt::format("the template makes a text of more than {} bytes", limits_.max_output));
}

std::tm Runtime::now() const {
  if (now_) return *now_;
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  localtime_r(&seconds, &local);
  return local;
}

Bound::Bound(std::string_view function, const Args& args,
             std::initializer_list<std::string_view> names, size_t required)
    : function_(function) {
  if (args.positional.size() > names.size()) {
    raise(function, "() takes at most ", std::to_string(names.size()), " argument(s) (",
          std::to_string(args.positional.size()), " given)");
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.keywords) {
    const auto* at = std::ranges::find(names, std::string_view(name));
    if (at == names.end() || name.empty())
      raise(function, "() got an unexpected keyword argument '", name, "'");
    const auto index = static_cast<size_t>(at - names.begin());
    if (values_[index] != nullptr)
      raise(function, "() got multiple values for argument '", name, "'");
    values_[index] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr)
      raise(function, "() misses its required argument ", std::to_string(i + 1));
  }
}

bool Bound::truthy(size_t index) const {
  return has(index) && jinja::truthy(*values_[index]);
}

Int Bound::integer(Runtime& runtime, size_t index, Int fallback) const {
  if (!has(index)) return fallback;
  if (values_[index]->is_undefined()) fail_undefined(runtime, *values_[index]);
  if (const auto value = as_index(*values_[index])) {
    constexpr Int kMost = Int{1} << 100;  // callers may add and negate
    if (*value > kMost || *value < -kMost) raise("an argument of ", function_, "() is too large");
    return *value;
  }
  raise("'", type_name(*values_[index]), "' object cannot be interpreted as an integer");
}

const std::string& Bound::text(size_t index) const {
  if (!values_[index]->is_string()) raise("expected str, got ", type_name(*values_[index]));
  return values_[index]->text();
}

}  // namespace plimsoll::text::jinja
