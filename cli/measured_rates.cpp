#include "cli/measured_rates.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "files/output_file.h"
#include "hardware/gpu_catalogue.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = 1 << 20;

/// A number of the file; NaN: it is none.
double rate_of(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_number()) return std::nan("");
  return found->get<double>();
}

std::optional<MeasuredRates> rates_of(const Json& entry) {
  if (!entry.is_object()) return std::nullopt;
  MeasuredRates rates{rate_of(entry, "read_bytes_per_second"), rate_of(entry, "product_flops"),
                      "a day that it does not say"};
  if (const auto day = entry.find("day"); day != entry.end() && day->is_string()) {
    const auto& text = day->get_ref<const std::string&>();
    if (text.size() == 10 && text.find_first_not_of("0123456789-") == text.npos) rates.day = text;
  }
  // No machine computes less than a tenth of a row, or more than a million, while it reads the
  // weights once.
  const double rows = rates.weight_rows();
  if (!(rates.bytes_per_second > 0 && rows > 0.1 && rows < 1e6)) return std::nullopt;
  return rates;
}

/// The file's rates by subject; an empty object where there is no file.
Json read_rates(const std::string& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return Json::object();
  Json rates = read_json_file(file, kMostBytes);
  if (!rates.is_object()) fail(ExitCode::input_unusable, "{}: expected an object of rates", file);
  return rates;
}

}  // namespace

std::string processor_subject(const backend::CpuOptions& cpu) {
  return fmt::format("cpu, {}, {} thread{}", backend::isa_name(cpu.isa), cpu.threads,
                     cpu.threads == 1 ? "" : "s");
}

std::string card_subject(const std::string& name) {
  try {
    return hardware::find_gpu(name).name;
  } catch (const Error&) {  // the catalogue does not have it
    return name;
  }
}

std::string rates_file(const Environment& environment) {
  return environment.cache.empty() ? "" : environment.cache + "/rates.json";
}

void keep_rates(const std::string& file, const std::string& subject, const MeasuredRates& rates) {
  Json all = Json::object();
  try {
    all = read_rates(file);
  } catch (const Error&) {  // a damaged file is written anew
  }
  all[subject] = {{"read_bytes_per_second", rates.bytes_per_second},
                  {"product_flops", rates.flops},
                  {"day", rates.day}};
  std::error_code error;
  fs::create_directories(fs::path(file).parent_path(), error);
  files::write_file(file, all.dump(1) + "\n");
}

KeptRates kept_rates(const std::string& file, std::string_view subject) {
  if (file.empty()) return {};
  try {
    const Json all = read_rates(file);
    const auto found = all.find(std::string(subject));
    if (found == all.end()) return {};
    if (auto rates = rates_of(*found)) return {std::move(rates), ""};
    return {std::nullopt, fmt::format("{}: {}: no rates", file, subject)};
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
}

}  // namespace plimsoll::cli
