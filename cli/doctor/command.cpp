#include "cli/doctor/command.h"

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <ctime>

#include "backend/cpu/cpu_backend.h"
#include "backend/pci_cards.h"
#include "base/error.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/findings.h"
#include "cli/environment.h"
#include "cli/help.h"
#include "cli/host_limits.h"
#include "cli/measured_rates.h"
#include "cli/run/device.h"
#include "cli/run/no_card.h"
#include "cli/terminal.h"
#include "cli/value_flag.h"
#include "memory/available.h"

namespace plimsoll::cli {
namespace {

void look_at_host(const Environment& environment, Findings& findings) {
  findings.isa = backend::isa_name(backend::detect_isa());
  findings.threads = host_threads(std::nullopt, environment);
  findings.host_total = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  const memory::Available available = memory::available_memory();
  findings.host_available = static_cast<uint64_t>(available.bytes);
  findings.host_bound = available.bound;
}

void look_at_devices(Findings& findings) {
  const CardTrouble trouble = find_card_trouble();
  findings.driver = trouble.driver;
  findings.pci_cards = trouble.pci_cards;
  try {
    findings.devices = backend::list_devices();
  } catch (const Error& error) {
    findings.trouble = error.what();
    findings.trouble_code = error.code();
  }
  if (findings.devices.empty()) findings.why_no_card = why_no_card(trouble);
}

/// The device that is examined: the first, or none where the CPU is wanted.
const backend::DeviceInfo* subject(const DoctorOptions& options, const Findings& findings) {
  if (options.device == "cpu") return nullptr;
  if (!findings.devices.empty()) return &findings.devices.front();
  if (options.device == "auto") return nullptr;
  fail(ExitCode::usage,
       "--device cuda: there is no device to examine{}{}; --device cpu examines "
       "the processor",
       findings.why_no_card.empty() ? "" : ": ", findings.why_no_card);
}

void ask_all(const std::vector<Question>& questions, const MakeBackend& subject,
             const MakeBackend& twin, const std::string& twin_name, Findings& findings) {
  for (const Question& question : questions) {
    Check& check = findings.checks.emplace_back(ask_both(question, subject, twin));
    check.twin = twin_name;
  }
}

MakeBackend on_processor(backend::CpuIsa isa, const Findings& findings) {
  return [isa, threads = findings.threads] { return backend::make_cpu_backend({isa, threads}); };
}

/// Measures a backend's rates and keeps them for launches that choose limits by them. A home that
/// cannot be written to is told, and is no fault of the machine's.
void measure(backend::Backend& backend, const RoofSizes& sizes, const std::string& subject,
             const Environment& environment, Findings& findings) {
  findings.roofs = measure_roofs(backend, sizes);
  const std::string file = rates_file(environment);
  if (file.empty()) return;
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  gmtime_r(&now, &day);
  try {
    keep_rates(file, subject,
               {findings.roofs->bytes_per_second, findings.roofs->flops,
                fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday)});
    findings.roofs->kept = file;
  } catch (const Error& error) {
    findings.roofs->notes.push_back(fmt::format("these rates are not kept: {}", error.what()));
  }
}

void examine_card(const DoctorOptions& options, const Environment& environment,
                  const backend::DeviceInfo& card, Findings& findings) {
  findings.facts = backend::device_facts(card.index);
  findings.facts->overlaps = findings.facts->overlaps && kernels_may_overlap();
  backend::DeviceOptions device{
      .index = card.index, .threads = findings.threads, .overlap = kernels_may_overlap()};
  const MakeBackend subject = [&] { return backend::make_device_backend(device); };
  const MakeBackend twin = on_processor(backend::detect_isa(), findings);
  const std::string twin_name = "the CPU's " + findings.isa;
  ask_all(usual_questions(), subject, twin, twin_name, findings);
  device.hopper_from = 1;
  ask_all(questions_of_hopper(), subject, twin, twin_name, findings);
  if (options.measure)
    measure(*subject(), kCardRoofs, card_subject(card.name), environment, findings);
}

void examine_processor(const DoctorOptions& options, const Environment& environment,
                       Findings& findings) {
  const backend::CpuIsa isa = backend::detect_isa();
  const MakeBackend subject = on_processor(isa, findings);
  const MakeBackend twin = on_processor(backend::CpuIsa::portable, findings);
  ask_all(usual_questions(), subject, twin, "portable code", findings);
  if (options.measure)
    measure(*subject(), kHostRoofs, processor_subject({isa, findings.threads}), environment,
            findings);
}

// Examines the card, or the processor where there is none. An error becomes the findings' trouble,
// beside what was found before it.
void examine(const DoctorOptions& options, const Environment& environment, Findings& findings) {
  const backend::DeviceInfo* card = subject(options, findings);
  findings.subject = card != nullptr ? card->name : "the processor";
  try {
    if (card != nullptr) return examine_card(options, environment, *card, findings);
    examine_processor(options, environment, findings);
  } catch (const Error& error) {
    findings.trouble = error.what();
    findings.trouble_code = error.code();
  }
}

}  // namespace

CLI::App* add_doctor_command(CLI::App& app, DoctorOptions& options) {
  CLI::App* command = app.add_subcommand("doctor", "what runs here, and whether it computes right");
  add_help_flags(*command);
  command->option_defaults()->group("Flags");
  choice_flag(*command, "--device", options.device,
              {{"auto", std::string("auto")}, {"cpu", "cpu"}, {"cuda", "cuda"}},
              "what is examined (default auto: a card if any)");
  choice_flag(*command, "--format", options.format,
              {{"text", DoctorFormat::text}, {"json", DoctorFormat::json}},
              "what to print (default text)");
  command->add_flag_callback(
      "--no-measure", [&options] { options.measure = false; },
      "leave out how fast it reads and multiplies");
  return command;
}

int doctor_command(const DoctorOptions& options) {
  const Environment environment = read_environment();
  Findings findings;
  findings.version = PLIMSOLL_VERSION;
  look_at_host(environment, findings);
  look_at_devices(findings);
  if (findings.trouble.empty()) examine(options, environment, findings);
  const std::string text =
      options.format == DoctorFormat::json ? findings_json(findings) : findings_text(findings);
  std::fputs(text.c_str(), stdout);
  flush_output();
  return static_cast<int>(findings.status());
}

}  // namespace plimsoll::cli
