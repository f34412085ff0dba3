#include "cli/borrowed_flags.h"

#include <algorithm>
#include <CLI/CLI.hpp>

namespace plimsoll::cli {
namespace {

// "-o,--output-file": the names that `command` has no use for itself.
std::string free_names(const CLI::App& command, const CLI::Option& option) {
  std::string names;
  const auto add = [&](const std::string& name) {
    if (command.get_option_no_throw(name) == nullptr) names += (names.empty() ? "" : ",") + name;
  };
  for (const std::string& name : option.get_snames()) add("-" + name);
  for (const std::string& name : option.get_lnames()) add("--" + name);
  return names;
}

}  // namespace

void borrow_flags(CLI::App& command, const OtherFlags& other, const std::vector<std::string>& but,
                  std::vector<std::string>& given) {
  for (CLI::Option* option : other.flags->get_options()) {
    if (option->get_lnames().empty() && option->get_snames().empty()) continue;
    const std::string shown = option->get_lnames().empty() ? "-" + option->get_snames().front()
                                                           : "--" + option->get_lnames().front();
    const std::string names = free_names(command, *option);
    if (names.empty() || std::ranges::find(but, shown) != but.end()) continue;
    const auto take = [other, option, shown, &given](const std::vector<std::string>& values) {
      for (const std::string& value : values) option->add_result(value);
      option->run_callback();
      given.push_back(shown);
    };
    const bool has_value = option->get_items_expected_max() > 0;
    CLI::Option* borrowed =
        has_value ? command.add_option_function<std::vector<std::string>>(names, take)
                        ->type_name(option->get_type_name())
                        ->expected(1)
                        ->allow_extra_args(false)
                        ->multi_option_policy(option->get_multi_option_policy() ==
                                                      CLI::MultiOptionPolicy::TakeLast
                                                  ? CLI::MultiOptionPolicy::TakeLast
                                                  : CLI::MultiOptionPolicy::TakeAll)
                  : command.add_flag_callback(names, [take] { take({"true"}); });
    borrowed->description(option->get_description())->group("");
  }
}

}  // namespace plimsoll::cli
