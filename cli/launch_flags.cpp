#include "cli/launch_flags.h"

#include <CLI/CLI.hpp>

#include "cli/value_flag.h"
#include "launch/parameters.h"

namespace plimsoll::cli {
namespace {

void declare(CLI::App& command, const launch::Parameter& parameter,
             launch::LaunchRequest& request) {
  const std::string help(parameter.help);
  const auto turn = [&request, &parameter](bool on) {
    set(request, parameter, on ? "true" : "false");
  };
  switch (parameter.value.form) {
    case launch::Form::value:
      value_flag(
          command, std::string(parameter.names), std::string(parameter.type), help,
          [&request, &parameter](const std::string& text) { set(request, parameter, text); });
      return;
    case launch::Form::on_off:
      switch_flag(command, std::string(parameter.flag().substr(2)), turn, help);
      return;
    case launch::Form::on:
      command.add_flag_function(
          std::string(parameter.names), [turn](int64_t count) { turn(count > 0); }, help);
      return;
  }
}

}  // namespace

void declare_launch_flags(CLI::App& command, launch::LaunchRequest& request) {
  for (const launch::Parameter& parameter : launch::parameters()) {
    command.option_defaults()->group(std::string(parameter.group));
    declare(command, parameter, request);
  }
}

}  // namespace plimsoll::cli
