// `plimsoll doctor`: which devices work here, whether they compute right, and how fast they could
// be. Bug reports include its output.
#pragma once

#include <cstdint>
#include <string>

#include "cli/cli11_names.h"

namespace plimsoll::cli {

enum class DoctorFormat : uint8_t { text, json };

struct DoctorOptions {
  DoctorFormat format = DoctorFormat::text;
  bool measure = true;  // the peak rates
  std::string device = "auto";
};

/// Declares the subcommand. `options` must outlive the parsing.
CLI::App* add_doctor_command(CLI::App& app, DoctorOptions& options);

/// Runs the command. Returns the exit status: done, or bug where something computes wrongly. Throws
/// Error.
int doctor_command(const DoctorOptions& options);

}  // namespace plimsoll::cli
