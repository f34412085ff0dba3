// `plimsoll doctor`: what runs here, whether it computes right, and how fast it could: what a bug
// report is asked for.
#pragma once

#include <cstdint>
#include <string>

#include "cli/cli11_names.h"

namespace plimsoll::cli {

enum class DoctorFormat : uint8_t { text, json };

struct DoctorOptions {
  DoctorFormat format = DoctorFormat::text;
  bool measure = true;  // the roofs
  std::string device = "auto";
};

/// Declares the subcommand. `options` must outlive the parsing.
CLI::App* add_doctor_command(CLI::App& app, DoctorOptions& options);

/// Runs it. Returns the exit status: done, or bug where something computes wrongly. Throws Error.
int doctor_command(const DoctorOptions& options);

}  // namespace plimsoll::cli
