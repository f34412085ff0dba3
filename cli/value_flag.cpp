#include "cli/value_flag.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/json.h"

namespace plimsoll::cli {

CLI::Option* value_flag(CLI::App& command, const std::string& names, const std::string& type,
                        const std::string& help, Setter set) {
  std::string shown = names.substr(std::min(names.find("--"), names.size() - 2));
  shown.resize(std::min(shown.find(','), shown.size()));
  auto checked = [shown, set = std::move(set)](const std::string& text) {
    try {
      set(text);
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError(shown, error.what());
    } catch (const JsonError& error) {
      throw CLI::ValidationError(shown, fmt::format("column {}: {}", error.column, error.what()));
    }
  };
  return command.add_option_function<std::string>(names, checked, help)
      ->type_name(type)
      ->take_last();
}

CLI::Option* text_flag(CLI::App& command, const std::string& names, std::string& target,
                       const std::string& type, const std::string& help) {
  return value_flag(command, names, type, help,
                    [&target](const std::string& text) { target = text; });
}

void switch_flag(CLI::App& command, const std::string& name, std::function<void(bool)> set,
                 const std::string& help) {
  command
      .add_flag_function(
          "--" + name + ",!--no-" + name, [set](int64_t count) { set(count > 0); }, help)
      ->take_last();
}

std::string read_template(const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(text, ignored)) return read_text_file(text, 16 << 20);
  if (text.find_first_of("{}\n") != std::string::npos) return text;
  throw std::invalid_argument(fmt::format("no such file, and not a template: \"{}\"", text));
}

}  // namespace plimsoll::cli
