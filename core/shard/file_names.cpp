#include "shard/file_names.h"

#include <algorithm>
#include <functional>
#include <regex>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace plimsoll::shard {
namespace {

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  fail(ExitCode::usage, "--file-pattern '{}': {}", text, why);
}

enum class Braces { filled, kept };  // what becomes of '{{' and '}}': one brace, or themselves

// str.format with `value` giving each field's text.
std::string format(const std::string& text,
                   const std::function<std::string(const std::string&)>& value,
                   Braces braces = Braces::filled) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool doubled = i + 1 < text.size() && text[i + 1] == c;
    if (c != '{' && c != '}') {
      result += c;
    } else if (doubled) {
      result.append(braces == Braces::kept ? 2 : 1, c);
      ++i;
    } else if (c == '}') {
      refuse(text, "a single '}'; a brace itself is written '}}'");
    } else {
      const size_t end = text.find('}', i);
      if (end == std::string::npos)
        refuse(text, "a '{' without '}'; a brace itself is written '{{'");
      result += value(text.substr(i + 1, end - i - 1));
      i = end;
    }
  }
  return result;
}

/// "rank" or "rank:03d", which is filled with zeros to three digits.
struct Field {
  std::string name;
  size_t digits = 0;

  [[nodiscard]] std::string filled(int64_t number) const {
    return fmt::format("{:0{}}", number, digits);
  }
};

Field parse_field(const std::string& text, const std::string& field) {
  const size_t colon = std::min(field.find(':'), field.size());
  Field result{.name = field.substr(0, colon)};
  static const std::regex kZeros(":(0([1-9][0-9]?))?d?");
  std::smatch match;
  const std::string format = field.substr(colon);
  if (format.empty()) return result;
  if (!std::regex_match(format, match, kZeros)) {
    refuse(text,
           fmt::format("'{{{}}}': of formats there is that with zeros, as in {{rank:03d}}", field));
  }
  if (match[2].matched) result.digits = std::stoul(match[2]);
  return result;
}

}  // namespace

FilePattern::FilePattern(const std::string& text) : text_(text) {
  parse();
}

FilePattern::FilePattern(const std::string& text, int64_t tensor_parallel,
                         int64_t pipeline_parallel)
    : text_(text) {
  if (text_.empty()) text_ = pipeline_parallel > 1 ? kPipelinePattern : kDefaultPattern;
  parse();
  if (tensor_parallel > 1 && !has_rank_) {
    refuse(text_, "the ranks would overwrite each other; put {rank} into it");
  }
  if (pipeline_parallel > 1 && !has_stage_) {
    refuse(text_, "the stages would overwrite each other; put {pp_rank} into it");
  }
  if (pipeline_parallel == 1 && has_stage_) {
    refuse(text_, "{pp_rank} needs --pipeline-parallel-size of more than 1");
  }
}

void FilePattern::parse() {
  try {
    static_cast<void>(Json(text_).dump());
  } catch (const Json::exception&) {
    refuse("", "is not UTF-8");
  }
  const std::string plain = format(text_, [&](const std::string& written) -> std::string {
    const std::string field = parse_field(text_, written).name;
    if (field == "rank" || field == "tp_rank") {
      has_rank_ = true;
    } else if (field == "pp_rank") {
      has_stage_ = true;
    } else if (field == "part") {
      has_part_ = true;
    } else {
      refuse(text_, fmt::format("unknown field '{{{}}}'; there are rank, tp_rank, pp_rank and part",
                                field));
    }
    return "0";
  });
  if (plain.find('/') != std::string::npos || plain.find('\0') != std::string::npos ||
      plain.starts_with('.')) {
    refuse(text_, "expected a plain file name, without '/' and not hidden");
  }
  if (!plain.ends_with(".safetensors")) refuse(text_, "expected a name that ends in .safetensors");
}

std::string FilePattern::name(int64_t stage, int64_t rank, int64_t part) const {
  return format(text_, [&](const std::string& written) {
    const Field field = parse_field(text_, written);
    return field.filled(field.name == "pp_rank" ? stage : field.name == "part" ? part : rank);
  });
}

std::string FilePattern::loader_text() const {
  const auto field = [&](std::string written) -> std::string {
    if (written.starts_with("part:")) return "*";
    if (!has_stage_ && written.starts_with("tp_rank")) written.erase(0, 3);
    return "{" + written + "}";
  };
  return format(text_, field, Braces::kept);
}

std::optional<FileNumbers> FilePattern::match(const std::string& name) const {
  // The pattern as a regular expression: literal text quoted, a group for each field.
  std::string expression;
  std::vector<std::string> fields;
  const std::string marked = format(text_, [&](const std::string& field) {
    fields.push_back(parse_field(text_, field).name);
    return std::string(1, '\0');
  });
  for (const char c : marked) {
    if (c == '\0') {
      expression += "([0-9]{1,17})";
    } else {
      if (std::string_view(R"(\^$.|?*+()[]{})").find(c) != std::string_view::npos)
        expression += '\\';
      expression += c;
    }
  }
  std::smatch match;
  if (!std::regex_match(name, match, std::regex(expression))) return std::nullopt;
  FileNumbers numbers;
  for (size_t i = 0; i < fields.size(); ++i) {
    const int64_t number = std::stoll(match[i + 1]);
    int64_t& to = fields[i] == "pp_rank" ? numbers.stage
                  : fields[i] == "part"  ? numbers.part
                                         : numbers.rank;
    to = number;
  }
  // A field that stands twice must say the same, with as many zeros as the pattern wants.
  if (this->name(numbers.stage, numbers.rank, numbers.part) != name) return std::nullopt;
  return numbers;
}

}  // namespace plimsoll::shard
