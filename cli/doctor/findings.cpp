#include "cli/doctor/findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/wrapped_text.h"
#include "batch/json_text.h"
#include "cli/run/no_card.h"

namespace plimsoll::cli {
namespace {

constexpr double kGiB = 1 << 30;
constexpr int kColumns = 80;

std::string capability(int value) {
  return fmt::format("{}.{}", value / 10, value % 10);
}

std::string row(const char* what, const std::string& found) {
  return wrapped_after(what, found, kColumns, 18);
}

std::string driver_text(const Findings& f) {
  if (!f.has_backend) return "this build has no CUDA backend";
  if (f.driver.driver == 0) return "none";
  return fmt::format("runs CUDA up to {}", cuda_version(f.driver.driver));
}

std::string device_text(const backend::DeviceInfo& device) {
  return fmt::format(
      "{}: {}, {:.1f} GiB ({:.1f} free), capability {}, {} multiprocessors, {:.2f} TB/s by its "
      "clock",
      device.index, device.name, static_cast<double>(device.total_bytes) / kGiB,
      static_cast<double>(device.free_bytes) / kGiB, capability(device.compute_capability),
      device.processors, device.bandwidth / 1e12);
}

std::string peers_text(const backend::DeviceInfo& device) {
  if (device.peers.empty())
    return "no other device: -pp and -dp, but not -tp, take it beside others";
  return fmt::format("{}", fmt::join(device.peers, ", "));
}

std::string facts_text(const backend::DeviceFacts& facts) {
  std::string text = row("code that runs", "for " + capability(facts.code));
  text += row("kernels overlap", facts.overlaps ? "yes" : "no");
  text += row("graphs", "yes (--enforce-eager: no)");
  text += row("attention", facts.attention);
  text += row("cuBLASLt", facts.products_trouble.empty()
                              ? fmt::format("{} ({})", facts.products, facts.products_version)
                              : facts.products_trouble);
  text += row("NVML", facts.has_nvml ? "yes" : "no: memory by our own count");
  return text;
}

std::string check_text(const Check& check) {
  const std::string found =
      check.trouble.empty()
          ? fmt::format("{}: max difference {:.2g} (limit {:.2g}){}", check.what, check.largest,
                        check.allowed, check.same_tokens ? "" : ", other tokens")
          : fmt::format("{}: {}", check.what, check.trouble);
  return wrapped_after(check.good() ? "ok" : "FAILED", found, kColumns, 8);
}

void write_device(batch::JsonText& out, const backend::DeviceInfo& device) {
  out.begin_object().key("index").integer(device.index).key("name").string(device.name);
  out.key("total_bytes").unsigned_integer(device.total_bytes);
  out.key("free_bytes").unsigned_integer(device.free_bytes);
  out.key("compute_capability").string(capability(device.compute_capability));
  out.key("multiprocessors").integer(device.processors);
  out.key("bytes_per_second").number(device.bandwidth).key("peers").begin_array();
  for (const int peer : device.peers) out.integer(peer);
  out.end_array().end_object();
}

void write_facts(batch::JsonText& out, const backend::DeviceFacts& facts) {
  out.begin_object().key("code").string(capability(facts.code));
  out.key("overlap").boolean(facts.overlaps).key("attention").string(facts.attention);
  out.key("cublaslt").string(facts.products);
  out.key("cublaslt_version").unsigned_integer(facts.products_version);
  out.key("cublaslt_error").string(facts.products_trouble);
  out.key("nvml").boolean(facts.has_nvml).end_object();
}

void write_notes(batch::JsonText& out, const std::vector<std::string>& notes) {
  out.key("notes").begin_array();
  for (const std::string& note : notes) out.string(note);
  out.end_array();
}

void write_check(batch::JsonText& out, const Check& check) {
  out.begin_object().key("what").string(check.what).key("covers").string(check.covers);
  out.key("twin").string(check.twin);
  out.key("good").boolean(check.good()).key("same_tokens").boolean(check.same_tokens);
  out.key("largest_difference").number(check.largest).key("allowed").number(check.allowed);
  out.key("error").string(check.trouble);
  write_notes(out, check.notes);
  out.end_object();
}

}  // namespace

bool Findings::good() const {
  return trouble.empty() && std::ranges::all_of(checks, &Check::good);
}

ExitCode Findings::status() const {
  if (!trouble.empty()) return trouble_code;
  return good() ? ExitCode::done : ExitCode::bug;
}

std::string findings_text(const Findings& f) {
  std::string text = row("plimsoll", f.version);
  text += row("driver", driver_text(f));
  if (f.has_backend) text += row("built for CUDA", cuda_version(f.driver.runtime));
  text += row("cards on the bus", std::to_string(f.pci_cards));
  for (const backend::DeviceInfo& device : f.devices) {
    text += row("device", device_text(device));
    if (f.devices.size() > 1) text += row("reads memory of", peers_text(device));
  }
  if (!f.why_no_card.empty()) text += row("no device", f.why_no_card);
  if (f.facts) text += facts_text(*f.facts);
  text += row("processor", fmt::format("{}, {} threads", f.isa, f.threads));
  text +=
      row("host memory",
          fmt::format("{:.1f} GiB, {:.1f} available ({})", static_cast<double>(f.host_total) / kGiB,
                      static_cast<double>(f.host_available) / kGiB, f.host_bound));
  text += row("examined", f.checks.empty()
                              ? f.subject
                              : fmt::format("{}, against {}", f.subject, f.checks.front().twin));
  for (const Check& check : f.checks) text += check_text(check);
  if (!f.trouble.empty()) text += wrapped_after("FAILED", f.trouble, kColumns, 8);
  if (f.roofs) {
    text += row("reads", fmt::format("{:.1f} GB/s", f.roofs->bytes_per_second / 1e9));
    text +=
        row("products", fmt::format("{:.2f} TFLOP/s in {}", f.roofs->flops / 1e12, f.roofs->dtype));
    if (!f.roofs->kept.empty())
      text += row("kept", f.roofs->kept + ", for --max-num-seqs auto and the like");
    for (const std::string& note : f.roofs->notes) text += row("note", note);
  }
  return text;
}

std::string findings_json(const Findings& f) {
  batch::JsonText out;
  out.begin_object().key("schema_version").integer(1).key("version").string(f.version);
  out.key("good").boolean(f.good());
  out.key("cuda_backend").boolean(f.has_backend);
  out.key("driver").begin_object().key("cuda").integer(f.driver.driver);
  out.key("built_for").integer(f.driver.runtime).key("devices").integer(f.driver.devices);
  out.key("error").string(f.driver.trouble).end_object();
  out.key("pci_cards").integer(f.pci_cards).key("why_no_card").string(f.why_no_card);
  out.key("devices").begin_array();
  for (const backend::DeviceInfo& device : f.devices) write_device(out, device);
  out.end_array().key("facts");
  if (f.facts) {
    write_facts(out, *f.facts);
  } else {
    out.null();
  }
  out.key("host").begin_object().key("isa").string(f.isa).key("threads").integer(f.threads);
  out.key("total_bytes").unsigned_integer(f.host_total);
  out.key("available_bytes").unsigned_integer(f.host_available);
  out.key("bound").string(f.host_bound).end_object();
  out.key("examined").string(f.subject).key("checks").begin_array();
  for (const Check& check : f.checks) write_check(out, check);
  out.end_array().key("roofs");
  if (f.roofs) {
    out.begin_object().key("read_bytes_per_second").number(f.roofs->bytes_per_second);
    out.key("product_flops").number(f.roofs->flops);
    out.key("dtype").string(f.roofs->dtype);
    write_notes(out, f.roofs->notes);
    out.key("kept").string(f.roofs->kept).end_object();
  } else {
    out.null();
  }
  out.key("error").string(f.trouble).end_object();
  return out.take() + "\n";
}

}  // namespace plimsoll::cli
