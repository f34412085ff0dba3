// The `loop` variable.
#include "text/jinja/filters/filters.h"
#include "text/jinja/run/macro.h"
#include "text/jinja/values/operators.h"

namespace plimsoll::text::jinja {

void LoopContext::clear() {
  next_ = nullptr;
  drawn_.clear();
  iterable_ = recursion_ = before_ = current_ = after_ = last_changed_ = Value();
}

bool LoopContext::draw(Value& item) {
  if (drawn_at_ < drawn_.size()) {
    item = std::move(drawn_[drawn_at_++]);
    return true;
  }
  if (!next_) return false;
  if (next_(item)) return true;
  next_ = nullptr;
  return false;
}

bool LoopContext::next(Value& item) {
  if (!after_.is(Kind::missing)) {
    item = std::move(after_);
    after_ = Value();
  } else if (!draw(item)) {
    return false;
  }
  ++index0_;
  before_ = std::move(current_);
  current_ = item;
  return true;
}

const Value& LoopContext::peek() {
  if (after_.is(Kind::missing)) {
    Value item;
    if (draw(item)) after_ = std::move(item);
  }
  return after_;
}

Int LoopContext::item_count(Runtime&) {
  if (!length_ && !iterable_.is(Kind::missing)) {
    if (const auto known = length_of(iterable_)) length_ = static_cast<Int>(*known);
  }
  if (!length_) {
    std::vector<Value> rest;
    for (Value item; draw(item);) rest.push_back(std::move(item));
    drawn_ = std::move(rest);
    drawn_at_ = 0;
    length_ = static_cast<Int>(drawn_.size()) + index0_ + 1 + (after_.is(Kind::missing) ? 0 : 1);
  }
  return *length_;
}

std::optional<Value> LoopContext::attribute(Runtime& runtime, std::string_view name) {
  if (name == "index") return Value::integer(index0_ + 1);
  if (name == "index0") return Value::integer(index0_);
  if (name == "first") return Value::boolean(index0_ == 0);
  if (name == "last") return Value::boolean(peek().is(Kind::missing));
  if (name == "length") return Value::integer(item_count(runtime));
  if (name == "revindex") return Value::integer(item_count(runtime) - index0_);
  if (name == "revindex0") return Value::integer(item_count(runtime) - index0_ - 1);
  if (name == "depth") return Value::integer(depth0_ + 1);
  if (name == "depth0") return Value::integer(depth0_);
  if (name == "previtem")
    return index0_ == 0 ? undefined_hint("there is no previous item") : before_;
  if (name == "nextitem") {
    const Value& next = peek();
    return next.is(Kind::missing) ? undefined_hint("there is no next item") : next;
  }
  if (name == "cycle" || name == "changed") {
    const Value self = make_object(this);
    const bool cycles = name == "cycle";
    return make_object(
        new Function(std::string(name), [self, cycles](Runtime& rt, const Args& args) {
          auto* loop = static_cast<LoopContext*>(self.object());
          return cycles ? loop->cycle(rt, args) : loop->changed(rt, args);
        }));
  }
  return std::nullopt;
}

Value LoopContext::cycle(Runtime&, const Args& args) const {
  const auto& items = args.positional;
  if (!args.keywords.empty()) raise("loop.cycle() takes no keyword arguments");
  if (items.empty()) raise("no items for cycling given");
  return items[static_cast<size_t>(index0_ % static_cast<Int>(items.size()))];
}

Value LoopContext::changed(Runtime& runtime, const Args& args) {
  if (!args.keywords.empty()) raise("loop.changed() takes no keyword arguments");
  const Value value = Value::tuple(args.positional);
  if (!last_changed_.is(Kind::missing) && equals(runtime, last_changed_, value))
    return Value::boolean(false);
  last_changed_ = value;
  return Value::boolean(true);
}

Value LoopContext::call(Runtime&, const Args& args) {
  const Bound bound("loop", args, {"iterable"}, 1);
  auto* recursion = recursion_.object_as<RecursiveLoop>();
  if (recursion == nullptr)
    raise("The loop must have the 'recursive' marker to be called recursively.");
  return recursion->run(recursion_, bound[0], depth0_ + 1);
}

}  // namespace plimsoll::text::jinja
