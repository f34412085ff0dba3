// `plan --check`: did a run exceed its plan, and does a log of vLLM lie inside the bounds of its
// plan?
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "batch/memory_report.h"
#include "cli/plan/parts.h"
#include "plan/log/vllm_log.h"

namespace plimsoll::cli {
namespace {

std::optional<uint64_t> bytes_at(const Json& json, const char* key) {
  const auto at = json.find(key);
  if (at == json.end() || !at->is_number_unsigned()) return std::nullopt;
  return at->get<uint64_t>();
}

std::string text_at(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : "";
}

/// The object under `key`; an empty one where there is none.
const Json& object_at(const Json& json, const char* key) {
  static const Json kNone = Json::object();
  const auto at = json.find(key);
  return at != json.end() && at->is_object() ? *at : kNone;
}

void read_lines(const Json& memory, batch::MemoryReport& report) {
  const auto parts = memory.find("parts");
  if (parts == memory.end() || !parts->is_array()) return;
  for (const Json& part : *parts) {
    if (!part.is_object()) continue;
    report.lines.push_back({.part = text_at(part, "part"),
                            .planned = bytes_at(part, "planned_bytes"),
                            .measured = bytes_at(part, "measured_bytes"),
                            .used = bytes_at(part, "used_bytes")});
  }
}

std::optional<batch::DeviceMemoryReport> read_device(const Json& memory) {
  const Json& device = object_at(memory, "device");
  if (device.empty()) return std::nullopt;
  return batch::DeviceMemoryReport{
      .name = text_at(device, "name"),
      .total = bytes_at(device, "total_bytes").value_or(0),
      .budget = bytes_at(device, "budget_bytes").value_or(0),
      .free_at_start = bytes_at(device, "free_at_start_bytes").value_or(0),
      .peak = bytes_at(device, "peak_bytes").value_or(0)};
}

batch::MemoryReport read_report(const Json& json, const std::string& file) {
  const Json& memory = json.is_object() ? object_at(json, "memory") : json;
  const auto planned = json.is_object() ? bytes_at(memory, "planned_bytes") : std::nullopt;
  const auto measured = json.is_object() ? bytes_at(json, "measured_peak_bytes") : std::nullopt;
  if (!planned || !measured) {
    fail(ExitCode::usage,
         "--check {}: not a report of run: {} is missing (run --report FILE writes one)", file,
         planned ? "measured_peak_bytes" : "memory.planned_bytes");
  }
  batch::MemoryReport report;
  report.planned = *planned;
  report.measured_peak = *measured;
  report.arena_peak = bytes_at(json, "arena_peak_bytes").value_or(0);
  report.peak_rss = bytes_at(json, "peak_rss_bytes").value_or(0);
  read_lines(memory, report);
  report.device = read_device(memory);
  return report;
}

}  // namespace

std::string read_named_file(std::string_view flag, const std::string& file) {
  constexpr size_t kMost = size_t{64} << 20;  // bytes of a pipe
  const std::string path = file == "-" ? "/dev/stdin" : file;
  std::error_code ignored;
  if (!std::filesystem::is_fifo(path, ignored)) {
    try {
      return read_text_file(path);
    } catch (const Error& error) {
      fail(error.code(), "{} {}", flag, error.what());
    }
  }
  std::ifstream pipe(path, std::ios::binary);
  std::string text;
  char block[1 << 16];
  while (pipe.read(block, sizeof block), pipe.gcount() > 0) {
    text.append(block, static_cast<size_t>(pipe.gcount()));
    if (text.size() > kMost)
      fail(ExitCode::checkpoint_unusable, "{} {}: more than 64 MiB", flag, file);
  }
  return text;
}

int check_report(const std::string& text, const std::string& file) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  const bool looks_like_report = begin != std::string::npos && text[begin] == '{';
  Json json;
  try {
    json = parse_file_text("--check " + file, text);
  } catch (const Error&) {
    if (looks_like_report) throw;
    fail(
        ExitCode::checkpoint_unusable,
        "--check {}: is neither a report of run, a JSON object, nor a log of vLLM with lines about "
        "memory",
        file);
  }
  const batch::MemoryReport report = read_report(json, file);
  for (const std::string& line : batch::memory_table(report)) fmt::print("{}\n", line);
  const bool exceeded = batch::exceeds_plan(report);
  if (!exceeded) fmt::print("  within the plan\n");
  return static_cast<int>(exceeded ? ExitCode::does_not_fit : ExitCode::done);
}

int print_log_check(const std::string& text, const plan::PlanResult& planned) {
  const plan::VllmLog log = plan::read_vllm_log(text);
  const plan::LogCheck check = plan::check_log(log, planned);
  if (check.parts.empty()) {
    fail(ExitCode::usage,
         "--check: the log says no figure that the plan has, such as 'Available KV cache memory: "
         "12.3 GiB' or 'GPU KV cache size: 45,678 tokens'");
  }
  for (const std::string& line : plan::log_table(check, log, planned)) fmt::print("{}\n", line);
  return static_cast<int>(check.inside ? ExitCode::done : ExitCode::does_not_fit);
}

}  // namespace plimsoll::cli
