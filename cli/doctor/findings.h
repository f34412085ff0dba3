// Findings of the doctor, as text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/device.h"
#include "backend/device_facts.h"
#include "base/error.h"

namespace plimsoll::cli {

/// Comparison of a tiny model on two backends or in two instruction sets.
struct Check {
  std::string what;      // model and dtypes: "llama, bfloat16"
  std::string covers{};  // the operations that it goes through
  std::string twin;      // what it was compared with
  double largest = 0;    // difference of log probabilities
  double allowed = 0;
  bool same_tokens = false;
  std::string trouble;               // why it could not be run; empty: it was run
  std::vector<std::string> notes{};  // of the launch on a device, as `run` prints them
  [[nodiscard]] bool good() const { return trouble.empty() && same_tokens && largest <= allowed; }
};

/// Peak rates that a device reached just now.
struct MeasuredRoofs {
  double bytes_per_second = 0;  // reading weights
  double flops = 0;             // products of many rows
  std::string dtype;
  std::vector<std::string> notes{};  // of the launch on a device, as in Check
  std::string kept{};                // the file that launches read them from; empty: not kept
};

struct Findings {
  std::string version;
  bool has_backend = backend::kHasDeviceBackend;
  backend::DriverState driver;
  int pci_cards = 0;
  std::string why_no_card;
  std::vector<backend::DeviceInfo> devices;
  std::optional<backend::DeviceFacts> facts;  // of the device that is examined
  std::string subject;                        // "cpu", or the device's name
  std::string isa;
  int threads = 0;
  uint64_t host_total = 0, host_available = 0;  // bytes
  std::string host_bound;
  std::vector<Check> checks;
  std::optional<MeasuredRoofs> roofs;
  std::string trouble;  // why the examination ended early; the fields above were found before
  ExitCode trouble_code = ExitCode::bug;
  [[nodiscard]] bool good() const;
  [[nodiscard]] ExitCode status() const;
};

std::string findings_text(const Findings& findings);
std::string findings_json(const Findings& findings);

}  // namespace plimsoll::cli
