#include "text/chat_template.h"

#include <fmt/format.h>

#include "base/error.h"
#include "text/jinja/filters/filters.h"
#include "text/jinja/parse/parser.h"
#include "text/jinja/run/interpreter.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {
namespace {

using jinja::Heap;
using jinja::Runtime;
using jinja::Value;

constexpr size_t kMaxTemplateBytes = size_t{1} << 20;  // real ones have at most some tens of KiB

Value to_value(Runtime& runtime, const OrderedJson& json) {
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case OrderedJson::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case OrderedJson::value_t::number_unsigned:
      return Value::integer(json.get<uint64_t>());
    case OrderedJson::value_t::number_float:
      return Value::number(json.get<double>());
    case OrderedJson::value_t::string:
      return Value::string(json.get_ref<const std::string&>());
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(to_value(runtime, item));
      return Value::list(std::move(items));
    }
    case OrderedJson::value_t::object: {
      auto [value, dict] = jinja::new_dict();
      for (const auto& [key, item] : json.items())
        dict->set(runtime, Value::string(key), to_value(runtime, item));
      return value;
    }
    default:
      return Value::none();
  }
}

// The variable `name` of the conversation, or a global function, or missing.
Value context_value(Runtime& runtime, const ChatInput& input, const std::string& name) {
  if (input.kwargs.is_object()) {
    if (const auto at = input.kwargs.find(name); at != input.kwargs.end())
      return to_value(runtime, *at);
  }
  const auto optional = [&](const std::optional<OrderedJson>& json) {
    return json ? to_value(runtime, *json) : Value::none();
  };
  if (name == "messages") return to_value(runtime, input.messages);
  if (name == "tools") return optional(input.tools);
  if (name == "documents") return optional(input.documents);
  if (name == "add_generation_prompt") return Value::boolean(input.add_generation_prompt);
  if (const auto at = input.special_tokens.find(name); at != input.special_tokens.end()) {
    return Value::string(at->second);
  }
  return jinja::find_global(name);
}

// Bounds the memory of a render's values and takes the bound away afterwards.
class HeapLimit {
 public:
  HeapLimit() : before_(Heap::current().limit) {}
  ~HeapLimit() { Heap::current().limit = before_; }
  HeapLimit(const HeapLimit&) = delete;
  HeapLimit& operator=(const HeapLimit&) = delete;
  /// Limits the heap of a render to this much above what is live now, which is the conversation
  /// itself.
  static void start(const TemplateBudget& budget) {
    constexpr int64_t kRoom = int64_t{64} << 20;
    Heap& heap = Heap::current();
    heap.limit = heap.live + kRoom + 8 * static_cast<int64_t>(budget.max_output);
  }

 private:
  int64_t before_;
};

}  // namespace

struct ChatTemplate::Impl {
  jinja::Program program;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

ChatTemplate ChatTemplate::parse(const std::string& source) {
  if (source.size() > kMaxTemplateBytes) {
    throw TemplateError(fmt::format("the template has more than {} bytes", kMaxTemplateBytes));
  }
  if (!is_valid_utf8(source)) throw TemplateError("the template is not UTF-8");
  auto impl = std::make_unique<Impl>();
  impl->program = jinja::parse_program(source);
  return ChatTemplate(std::move(impl));
}

std::string ChatTemplate::render(const ChatInput& input, TemplateBudget budget) const {
  const HeapLimit limit;
  Runtime runtime(budget, input.now);
  jinja::Interpreter interpreter(impl_->program, runtime);
  try {
    std::string text = interpreter.render(
        [&](const std::string& name) { return context_value(runtime, input, name); },
        [&] { HeapLimit::start(budget); });
    // Escapes in a template can make half a surrogate pair.
    if (!is_valid_utf8(text)) {
      throw jinja::Failure("the template makes a lone surrogate, which is no character");
    }
    return text;
  } catch (const jinja::Failure& failure) {
    throw TemplateError(fmt::format("{} (template line {})", failure.what(), interpreter.line()));
  }
}

}  // namespace plimsoll::text
