// Rates that `doctor` measured on this machine. It keeps them in a file, and limits of a step that
// are left open (--max-num-seqs auto) are chosen by them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backend/cpu/cpu_backend.h"
#include "cli/environment.h"

namespace plimsoll::cli {

/// What a processor or a card was measured to do.
struct MeasuredRates {
  double bytes_per_second = 0;  // reading weights
  double flops = 0;             // products of many rows in bfloat16
  std::string day;              // of the measurement, "2026-11-29"

  /// Rows whose arithmetic takes as long as reading the weights: an element of bfloat16 has two
  /// bytes, and costs each row two operations.
  [[nodiscard]] double weight_rows() const { return flops / bytes_per_second; }
};

/// Names under which rates are kept.
std::string processor_subject(const backend::CpuOptions& cpu);
/// `name`: the driver's or the catalogue's; both give the same subject where the catalogue has it.
std::string card_subject(const std::string& name);

/// The file with rates; empty: the environment names no folder for it.
std::string rates_file(const Environment& environment);

/// Keeps rates in the file, beside those of other subjects. Throws Error(output_unwritable).
void keep_rates(const std::string& file, const std::string& subject, const MeasuredRates& rates);

/// What a file has for a subject.
struct KeptRates {
  std::optional<MeasuredRates> rates;
  std::string fault;  // why the file is not used; empty: it is, or there is none
};
KeptRates kept_rates(const std::string& file, std::string_view subject);

}  // namespace plimsoll::cli
