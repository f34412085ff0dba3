#include "value_flag.h"

#include <stdexcept>
#include <utility>

namespace plimsoll::cli {

CLI::Option* value_flag(CLI::App& command, const std::string& names, const std::string& type,
                        const std::string& help, Setter set) {
  const std::string shown = names.substr(names.find("--"));
  auto checked = [shown, set = std::move(set)](const std::string& text) {
    try {
      set(text);
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError(shown, error.what());
    }
  };
  return command.add_option_function<std::string>(names, checked, help)->type_name(type);
}

}  // namespace plimsoll::cli
