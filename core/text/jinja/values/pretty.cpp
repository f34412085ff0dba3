#include "text/jinja/values/pretty.h"

#include <algorithm>

#include "text/jinja/filters/methods.h"
#include "text/jinja/values/operators.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

constexpr Int kWidth = 80;

// Follows CPython's pprint.PrettyPrinter: what does not fit its line is split at the outermost
// container.
class PrettyPrinter {
 public:
  explicit PrettyPrinter(Runtime& runtime) : runtime_(runtime) {}

  std::string run(const Value& value) {
    write(value, 0, 0, 0);
    runtime_.charge_copy(out_.size());
    return std::move(out_);
  }

 private:
  static Int width_of(const std::string& text) { return static_cast<Int>(count_code_points(text)); }

  std::vector<const std::pair<Value, Value>*> sorted_entries(const Dict& dict) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    std::ranges::stable_sort(entries, [&](const auto* a, const auto* b) {
      const bool comparable = (a->first.is_string() && b->first.is_string()) ||
                              (a->first.is_number() && b->first.is_number());
      return comparable ? less(runtime_, a->first, b->first)
                        : type_name(a->first) < type_name(b->first);
    });
    return entries;
  }

  // repr() with sorted keys.
  void append_flat(std::string& out, const Value& value, int depth) {
    if (value.is(Kind::dict)) {
      out += '{';
      const char* separator = "";
      for (const auto* entry : sorted_entries(value.as_dict())) {
        out += separator;
        append_flat(out, entry->first, depth + 1);
        out += ": ";
        append_flat(out, entry->second, depth + 1);
        separator = ", ";
      }
      out += '}';
    } else if (value.is_sequence()) {
      const bool list = value.is(Kind::list);
      out += list ? '[' : '(';
      const char* separator = "";
      for (const Value& item : value.items()) {
        out += separator;
        append_flat(out, item, depth + 1);
        separator = ", ";
      }
      if (!list && value.items().size() == 1) out += ',';
      out += list ? ']' : ')';
    } else {
      append_repr(runtime_, out, value, depth);
    }
    runtime_.charge(1);
    runtime_.check_size(static_cast<Int>(out.size()));
  }

  void write(const Value& value, Int indent, Int allowance, int level) {
    std::string flat;
    append_flat(flat, value, level);
    runtime_.charge_characters(flat.size());
    if (width_of(flat) <= kWidth - indent - allowance) {
      out_ += flat;
    } else if (value.is(Kind::dict)) {
      write_dict(value.as_dict(), indent, allowance + 1, level + 1);
    } else if (value.is_sequence()) {
      write_sequence(value, indent, allowance + 1, level + 1);
    } else if (value.is_string() && !value.is_markup()) {
      write_string(value, indent, allowance, level + 1);
    } else {
      out_ += flat;
    }
    runtime_.check_size(static_cast<Int>(out_.size()));
  }

  void new_line(Int indent) { out_ += ",\n" + std::string(static_cast<size_t>(indent), ' '); }

  void write_dict(const Dict& dict, Int indent, Int allowance, int level) {
    out_ += '{';
    const auto entries = sorted_entries(dict);
    for (size_t i = 0; i < entries.size(); ++i) {
      std::string key;
      append_flat(key, entries[i]->first, level);
      if (i > 0) new_line(indent + 1);
      out_ += key + ": ";
      write(entries[i]->second, indent + 1 + width_of(key) + 2,
            i + 1 == entries.size() ? allowance : 1, level);
    }
    out_ += '}';
  }

  void write_sequence(const Value& sequence, Int indent, Int allowance, int level) {
    const bool list = sequence.is(Kind::list);
    const auto& items = sequence.items();
    const std::string end = list ? "]" : items.size() == 1 ? ",)" : ")";
    out_ += list ? '[' : '(';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) new_line(indent + 1);
      const Int room = i + 1 == items.size() ? allowance + static_cast<Int>(end.size()) - 1 : 1;
      write(items[i], indent + 1, room, level);
    }
    out_ += end;
  }

  // A word and the whitespace behind it, at `at`.
  static std::string next_part(const std::string& line, size_t& at) {
    const size_t begin = at;
    bool spaces = false;
    while (at < line.size()) {
      size_t after = at;
      const bool space = is_space(next_character(line, after));
      if (spaces && !space) break;
      spaces = space;
      at = after;
    }
    return line.substr(begin, at - begin);
  }

  // Long strings become several literals, cut at line ends and then between words.
  void write_string(const Value& value, Int indent, Int allowance, int level) {
    if (level == 1) {
      ++indent;
      ++allowance;
    }
    std::vector<std::string> chunks;
    const std::vector<Value> lines = split_lines(runtime_, value, true);
    std::string flat;
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool last_line = i + 1 == lines.size();
      const Int room = kWidth - indent - (last_line ? allowance : 0);
      flat = quote(lines[i].text());
      if (width_of(flat) <= room) {
        chunks.push_back(flat);
        continue;
      }
      std::string current;
      const std::string& line = lines[i].text();
      for (size_t at = 0; at < line.size();) {
        runtime_.charge_characters(current.size() * 2 + 32);
        const std::string part = next_part(line, at);
        const bool last = at >= line.size();
        const Int width = kWidth - indent - (last && last_line ? allowance : 0);
        if (width_of(quote(current + part)) > width) {
          if (!current.empty()) chunks.push_back(quote(current));
          current = part;
        } else {
          current += part;
        }
      }
      if (!current.empty()) chunks.push_back(quote(current));
    }
    if (chunks.size() == 1) {
      out_ += flat;
      return;
    }
    if (level == 1) out_ += '(';
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (i > 0) out_ += "\n" + std::string(static_cast<size_t>(indent), ' ');
      out_ += chunks[i];
      runtime_.check_size(static_cast<Int>(out_.size()));
    }
    if (level == 1) out_ += ')';
  }

  Runtime& runtime_;
  std::string out_;
};

}  // namespace

std::string pretty(Runtime& runtime, const Value& value) {
  return PrettyPrinter(runtime).run(value);
}

}  // namespace plimsoll::text::jinja
