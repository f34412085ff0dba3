#include "ptx/module.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "ptx/parser.h"
#include "ptx/text.h"

namespace plimsoll::ptx {
namespace {

/// Where the declaration ends that begins at `at`: at its closing brace, or the semicolon of one
/// without a body.
size_t end_of_declaration(std::string_view text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '{') ++depth;
    if (text[at] == '}' && --depth == 0) return at + 1;
    if (text[at] == ';' && depth == 0) return at + 1;
  }
  return at;
}

bool is_line_directive(std::string_view text) {
  return std::ranges::any_of(
      std::vector<std::string_view>{".version", ".target", ".address_size", ".file"},
      [&](std::string_view name) { return text.starts_with(name); });
}

/// Values of a variable, as "{1, 2}" or "1".
std::vector<std::byte> values_of(const std::string& list, size_t each, size_t bytes) {
  std::vector<std::byte> data(std::max(bytes, sizeof(uint64_t)));
  size_t at = 0;
  for (const std::string& element : split_vector(list)) {
    const uint64_t value = parse_number(element, each == sizeof(uint64_t));
    if (at + each <= bytes) std::memcpy(data.data() + at, &value, each);
    at += each;
  }
  return data;
}

}  // namespace

Module::Module(std::string_view text) : text_(without_comments(text)) {
  const std::string_view all = text_;
  for (size_t at = 0; at < all.size();) {
    if (std::isspace(static_cast<unsigned char>(all[at])) != 0) {
      ++at;
      continue;
    }
    if (is_line_directive(all.substr(at))) {
      at = std::min(all.find('\n', at), all.size());
      continue;
    }
    const size_t end = end_of_declaration(all, at);
    const std::string_view declaration = all.substr(at, end - at);
    const std::string_view head = declaration.substr(0, declaration.find_first_of(";{("));
    const bool has_body = declaration.ends_with('}');
    if (head.find(".entry") != std::string_view::npos) {
      if (has_body) add_entry(declaration);
    } else if (head.find(".func") == std::string_view::npos) {
      // The values of a variable end with a brace before its semicolon.
      const size_t semicolon = all.find(';', end - 1);
      add_variable(all.substr(at, semicolon - at));
      at = std::min(semicolon, all.size() - 1) + 1;
      continue;
    }
    at = end;
  }
}

void Module::add_entry(std::string_view text) {
  size_t at = text.find(".entry") + std::strlen(".entry");
  while (std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
  size_t end = at;
  while (is_of_name(text[end])) ++end;
  const std::string name(text.substr(at, end - at));
  const auto place = static_cast<size_t>(text.data() + end - text_.data());
  if (!entries_.emplace(plain_symbol(name), Entry{name, text.substr(end), place}).second)
    throw std::runtime_error("PTX has two kernels " + name);
}

void Module::add_variable(std::string_view text) {
  const size_t equals = std::min(text.find('='), text.size());
  std::istringstream words{std::string(text.substr(0, equals))};
  std::string word, type, name;
  size_t alignment = 1;
  bool is_shared = false, is_extern = false;
  while (words >> word && type.empty()) {
    is_shared = is_shared || word == ".shared";
    is_extern = is_extern || word == ".extern";
    if (word == ".align") {
      words >> alignment;
    } else if (type_bytes(std::string_view(word).substr(1)) > 0 && word[0] == '.') {
      type = word.substr(1);
      std::getline(words, name, '\0');
    }
  }
  if (type.empty()) return;
  name = trimmed(name);
  const size_t bytes = take_count(name) * type_bytes(type);
  if (is_shared && is_extern) {
    dynamic_[name] = alignment;
  } else if (is_shared) {
    shared_[name] = reserve(shared_bytes_, bytes, alignment);
  } else {
    const std::string list = equals == text.size() ? "" : trimmed(text.substr(equals + 1));
    variables_[name] = values_of(list.empty() ? "{}" : list, type_bytes(type), bytes);
  }
}

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const Code& Module::code(const std::string& kernel) {
  const auto known = parsed_.find(kernel);
  if (known != parsed_.end()) return known->second;
  const auto entry = entries_.find(kernel);
  if (entry == entries_.end()) throw std::runtime_error("PTX has no kernel " + kernel);
  return parsed_.emplace(kernel, parse(*this, entry->second)).first->second;
}

std::optional<size_t> Module::shared(const std::string& name) const {
  const auto found = shared_.find(name);
  if (found == shared_.end()) return {};
  return found->second;
}

std::span<std::byte> Module::variable(const std::string& name) {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return {};
  return found->second;
}

std::vector<std::span<std::byte>> Module::variables() {
  std::vector<std::span<std::byte>> all;
  for (auto& [name, memory] : variables_) all.emplace_back(memory);
  return all;
}

}  // namespace plimsoll::ptx
