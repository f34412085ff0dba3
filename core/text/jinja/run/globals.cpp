// The functions that every template has.
#include "text/chat_template.h"
#include "text/jinja/filters/filters.h"
#include "text/jinja/run/strftime.h"
#include "text/jinja/values/operators.h"

namespace plimsoll::text::jinja {
namespace {

constexpr Int kMaxRange = 100'000;  // the sandbox's MAX_RANGE

Value range(Runtime& runtime, const Args& args) {
  const Bound bound("range", args, {"", "", ""}, 1);
  const bool one = !bound.has(1);
  const Int start = one ? 0 : bound.integer(runtime, 0, 0);
  const Int stop = bound.integer(runtime, one ? 0 : 1, 0);
  const Int step = bound.integer(runtime, 2, 1);
  if (step == 0) raise("range() arg 3 must not be zero");
  Int distance = 0;
  const bool overflow = step > 0 ? __builtin_sub_overflow(stop, start, &distance)
                                 : __builtin_sub_overflow(start, stop, &distance);
  if (overflow) raise("Range too big.");
  Int length = 0;
  if (distance > 0)
    length = step > 0           ? (distance - 1) / step + 1
             : step < -distance ? 1
                                : (distance - 1) / -step + 1;
  if (length > kMaxRange) {
    raise("Range too big. The sandbox blocks ranges larger than MAX_RANGE (",
          int_to_string(kMaxRange), ").");
  }
  return {Kind::range, new Range(start, stop, step, length)};
}

Value make_dict(Runtime& runtime, const Args& args) {
  if (args.positional.size() > 1) raise("dict expected at most 1 argument");
  auto [value, dict] = new_dict();
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    if (from.is(Kind::dict)) {
      runtime.check_elements(static_cast<Int>(from.as_dict().entries().size()));
      for (const auto& [key, item] : from.as_dict().entries()) dict->set(runtime, key, item);
    } else {
      Cursor cursor(runtime, from);
      for (Value entry; cursor.next(entry);) {
        const std::vector<Value> pair = to_list(runtime, entry);
        if (pair.size() != 2)
          raise("dictionary update sequence element has length ", std::to_string(pair.size()),
                "; 2 is required");
        dict->set(runtime, pair[0], pair[1]);
      }
    }
  }
  for (const auto& [key, item] : args.keywords) dict->set(runtime, Value::string(key), item);
  return value;
}

Value make_namespace(Runtime& runtime, const Args& args) {
  const Value attributes = make_dict(runtime, args);
  auto* space = new Namespace(runtime);
  Value value = make_object(space);
  for (const auto& [key, item] : attributes.as_dict().entries()) {
    if (key.is_string()) space->set(key.text(), item);
  }
  return value;
}

class Cycler final : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  [[nodiscard]] std::string_view type_name() const override { return "Cycler"; }
  std::optional<Value> attribute(Runtime&, std::string_view name) override {
    if (name == "current") return items_[at_];
    if (name != "next" && name != "reset") return std::nullopt;
    const Value self = make_object(this);
    const bool advances = name == "next";
    return make_object(
        new Function(std::string(name), [self, advances](Runtime&, const Args& args) {
          const Bound bound("cycler", args, {});
          auto* cycler = static_cast<Cycler*>(self.object());
          if (!advances) {
            cycler->at_ = 0;
            return Value::none();
          }
          const size_t now = cycler->at_;
          cycler->at_ = (now + 1) % cycler->items_.size();
          return cycler->items_[now];
        }));
  }

 private:
  std::vector<Value> items_;
  size_t at_ = 0;
};

class Joiner final : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  [[nodiscard]] std::string_view type_name() const override { return "Joiner"; }
  [[nodiscard]] bool callable() const override { return true; }
  Value call(Runtime&, const Args& args) override {
    const Bound bound("joiner", args, {});
    return std::exchange(used_, true) ? separator_ : Value::string({});
  }

 private:
  Value separator_;
  bool used_ = false;
};

Value cycler(Runtime&, const Args& args) {
  if (args.positional.empty() || !args.keywords.empty())
    raise("at least one item has to be provided");
  return make_object(new Cycler(args.positional));
}

Value joiner(Runtime&, const Args& args) {
  const Bound bound("joiner", args, {"sep"});
  return make_object(new Joiner(bound.has(0) ? bound[0] : Value::string(", ")));
}

// The conversation is refused in the template's own words.
Value raise_exception(Runtime& runtime, const Args& args) {
  const Bound bound("raise_exception", args, {"message"}, 1);
  throw TemplateError(str(runtime, bound[0]));
}

Value strftime_now(Runtime& runtime, const Args& args) {
  const Bound bound("strftime_now", args, {"format"}, 1);
  const std::string& format = bound.text(0);
  runtime.charge_characters(format.size() * 8);
  std::string text = format_time(format, runtime.now());
  runtime.charge_copy(text.size());
  return Value::string(std::move(text));
}

}  // namespace

Value find_global(std::string_view name) {
  struct Global {
    std::string_view name;
    Value (*body)(Runtime&, const Args&);
  };
  static constexpr Global kGlobals[] = {
      {"range", range},
      {"dict", make_dict},
      {"namespace", make_namespace},
      {"cycler", cycler},
      {"joiner", joiner},
      {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},
  };
  for (const Global& global : kGlobals) {
    if (global.name == name) return make_object(new Function(std::string(name), global.body));
  }
  return {};
}

}  // namespace plimsoll::text::jinja
