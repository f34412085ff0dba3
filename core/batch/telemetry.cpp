#include "batch/telemetry.h"

#include <fmt/format.h>

#include <iterator>

#include "batch/json_text.h"

namespace plimsoll::batch {
namespace {

// A label's value in Prometheus' text form.
std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text;
}

}  // namespace

std::string status_json(const ProgressSample& sample, uint64_t peak_rss) {
  JsonText out;
  out.begin_object().key("event").string("status");
  out.key("phase").string(sample.phase.empty() ? "running" : sample.phase);
  out.key("done").unsigned_integer(sample.done).key("failed").unsigned_integer(sample.failed);
  out.key("total");
  if (sample.total) {
    out.unsigned_integer(*sample.total);
  } else {
    out.null();
  }
  out.key("order");
  if (sample.order.empty()) {
    out.null();
  } else {
    out.string(sample.order);
  }
  out.key("tokens_in").unsigned_integer(sample.tokens_in);
  out.key("tokens_out").unsigned_integer(sample.tokens_out);
  out.key("running").integer(sample.running).key("waiting").integer(sample.waiting);
  out.key("kv_use").number(sample.kv_use).key("seconds").number(sample.seconds);
  out.key("peak_rss_bytes").unsigned_integer(peak_rss).end_object();
  return out.take() + "\n";
}

std::string end_json(int exit_status) {
  JsonText out;
  out.begin_object().key("event").string("end").key("exit_status").integer(exit_status);
  out.end_object();
  return out.take() + "\n";
}

std::string metrics_text(const ProgressSample& sample, uint64_t peak_rss,
                         const std::string& output) {
  std::string text;
  const std::string label = escaped(output);
  const auto add = [&](const char* name, const char* type, const char* help, auto value) {
    fmt::format_to(std::back_inserter(text),
                   "# HELP {0} {1}\n# TYPE {0} {2}\n{0}{{output=\"{3}\"}} {4}\n", name, help, type,
                   label, value);
  };
  add("plimsoll_lines_done", "counter", "Lines answered or failed.", sample.done);
  add("plimsoll_lines_failed", "counter", "Lines that failed.", sample.failed);
  if (sample.total) add("plimsoll_lines", "gauge", "Lines of the input.", *sample.total);
  add("plimsoll_prompt_tokens", "counter", "Prompt tokens computed.", sample.tokens_in);
  add("plimsoll_generated_tokens", "counter", "Tokens generated.", sample.tokens_out);
  add("plimsoll_running", "gauge", "Sequences that run.", sample.running);
  add("plimsoll_waiting", "gauge", "Sequences that wait.", sample.waiting);
  add("plimsoll_kv_use", "gauge", "Share of KV blocks in use, 0 to 1.", sample.kv_use);
  add("plimsoll_seconds", "counter", "Seconds since the first line.", sample.seconds);
  add("plimsoll_peak_rss_bytes", "gauge", "Largest resident size of the process.", peak_rss);
  return text;
}

}  // namespace plimsoll::batch
