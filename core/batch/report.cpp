#include "batch/report.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/counted.h"
#include "base/size_text.h"
#include "batch/json_text.h"
#include "batch/progress.h"

namespace plimsoll::batch {
namespace {

// Lines of the input without a record.
uint64_t left_of(const RunCounts& counts) {
  const uint64_t total = counts.total.value_or(counts.lines);
  return total - std::min(total, counts.ok + counts.failed);
}

void write_counts(JsonText& out, const RunCounts& counts) {
  out.key("lines").begin_object();
  out.key("total")
      .unsigned_integer(counts.total.value_or(counts.lines))
      .key("ok")
      .unsigned_integer(counts.ok);
  out.key("failed").unsigned_integer(counts.failed);
  out.key("resumed").unsigned_integer(counts.resumed);
  out.key("not_finished").unsigned_integer(left_of(counts));
  out.key("failed_by_code").begin_object();
  for (const auto& [code, count] : counts.failed_by_code) out.key(code).unsigned_integer(count);
  out.end_object().key("unknown_fields").begin_object();
  for (const auto& [name, count] : counts.unknown_fields) out.key(name).unsigned_integer(count);
  out.end_object().end_object();
}

void write_tools(JsonText& out, const ToolCounts& tools) {
  out.key("tools").begin_object().key("lines").unsigned_integer(tools.lines);
  out.key("calls").unsigned_integer(tools.calls);
  out.key("unread_answers").unsigned_integer(tools.unread);
  out.key("unread_cut_answers").unsigned_integer(tools.unread_cut);
  out.key("lines_without_parser").unsigned_integer(tools.untried).end_object();
}

void write_structured(JsonText& out, const RunReport& report) {
  const StructuredCounts& structured = report.counts.structured;
  if (structured.lines == 0) return;
  out.key("structured").begin_object().key("lines").unsigned_integer(structured.lines);
  out.key("refused_lines").unsigned_integer(structured.refused);
  out.key("answers").unsigned_integer(structured.answers);
  out.key("cut_answers").unsigned_integer(structured.cut);
  out.key("forced_tokens").unsigned_integer(report.stats.forced_tokens);
  out.key("kept_forced_tokens").unsigned_integer(report.stats.kept_forced_tokens);
  out.key("grammars").integer(report.grammars.count);
  out.key("compile_seconds").number(report.grammars.seconds).end_object();
}

void write_tokens(JsonText& out, const RunReport& report) {
  const RunCounts& counts = report.counts;
  out.key("tokens").begin_object();
  out.key("prompt").unsigned_integer(counts.prompt_tokens);
  out.key("cached").unsigned_integer(counts.cached_tokens);
  out.key("completion").unsigned_integer(counts.completion_tokens);
  out.key("dropped").unsigned_integer(counts.dropped_tokens);
  out.key("prompt_per_second").number(rate(counts.prompt_tokens, report.run_seconds));
  out.key("completion_per_second").number(rate(counts.completion_tokens, report.run_seconds));
  out.end_object();
}

void write_engine(JsonText& out, const engine::EngineStats& stats) {
  out.key("engine").begin_object();
  out.key("steps").unsigned_integer(stats.steps);
  out.key("peak_running").integer(stats.peak_running);
  out.key("preemptions").unsigned_integer(stats.preemptions);
  out.key("prefix_hit_tokens").unsigned_integer(stats.cached_prompt_tokens);
  out.key("prefix_query_tokens").unsigned_integer(stats.prefix_queries_tokens);
  out.key("prefill_tokens").unsigned_integer(stats.prompt_tokens);
  out.key("generated_tokens").unsigned_integer(stats.generated_tokens);
  out.key("drafted_tokens").unsigned_integer(stats.drafted_tokens);
  out.key("kept_drafted_tokens").unsigned_integer(stats.kept_tokens);
  out.key("kv_blocks").integer(stats.kv_blocks);
  out.key("kv_blocks_peak").integer(stats.kv_blocks_peak);
  out.end_object();
}

void write_order(JsonText& out, const OrderChoice& order) {
  out.key("order").begin_object().key("asked").string(order_name(order.asked));
  out.key("used").string(order_name(order.used)).key("reason").string(order.reason);
  const std::pair<const char*, const std::optional<ScheduleForecast>&> forecasts[] = {
      {"in_file_order", order.in_file_order}, {"in_prefix_order", order.in_prefix_order}};
  for (const auto& [name, forecast] : forecasts) {
    if (!forecast) continue;
    out.key(name).begin_object().key("prompt").unsigned_integer(forecast->prompt_tokens);
    out.key("cached").unsigned_integer(forecast->cached_tokens);
    out.key("steps").unsigned_integer(forecast->steps);
    out.key("kv_blocks_peak").integer(forecast->kv_blocks_peak).end_object();
  }
  out.key("survey_seconds").number(order.survey_seconds);
  out.key("choose_seconds").number(order.choose_seconds).end_object();
}

void write_images(JsonText& out, const RunReport& report) {
  out.key("images").begin_object();
  out.key("prepared").unsigned_integer(report.prepared.count);
  out.key("prepare_seconds").number(report.prepared.processor_seconds);
  out.key("encoded").unsigned_integer(report.stats.encoded_images);
  out.key("encode_seconds").number(report.stats.encode_seconds);
  out.end_object();
}

void write_plan(JsonText& out, const RunReport& report) {
  const engine::EnginePlan& plan = report.plan;
  out.key("plan").begin_object();
  out.key("max_model_len").integer(plan.max_model_len);
  out.key("max_num_seqs").integer(plan.max_num_seqs);
  out.key("max_num_batched_tokens").integer(plan.max_num_batched_tokens);
  if (!report.limits.empty()) out.key("limits_reason").string(report.limits);
  out.key("kv_blocks").integer(plan.num_kv_blocks);
  out.key("kv_block_bytes").unsigned_integer(plan.kv_block_bytes);
  out.key("total_bytes").unsigned_integer(plan.total_bytes);
  out.key("regions").begin_array();
  for (const memory::Region& region : plan.regions) {
    out.begin_object().key("name").string(region.name);
    out.key("bytes").unsigned_integer(region.bytes).end_object();
  }
  out.end_array().end_object();
}

void write_ranks(JsonText& out, const RunReport& report) {
  if (report.ranks.empty()) return;
  out.key("ranks").begin_array();
  for (size_t i = 0; i < report.ranks.size(); ++i) {
    const RankReport& rank = report.ranks[i];
    out.begin_object().key("rank").unsigned_integer(i);
    out.key("copy").integer(rank.copy);
    out.key("tensor_rank").integer(rank.tensor_rank);
    out.key("first_layer").integer(rank.first_layer).key("layers").integer(rank.layers);
    out.key("planned_bytes").unsigned_integer(rank.planned);
    out.key("measured_bytes").unsigned_integer(rank.placed);
    out.key("arena_peak_bytes").unsigned_integer(rank.arena_peak);
    if (rank.read) out.key("checkpoint_bytes_read").unsigned_integer(*rank.read);
    out.end_object();
  }
  out.end_array();
}

void write_seconds(JsonText& out, const RunReport& report) {
  out.key("seconds").begin_object().key("load").number(report.load_seconds);
  out.key("run").number(report.run_seconds).key("publish").number(report.publish_seconds);
  out.key("prefill_steps").number(report.stats.prefill_seconds);
  out.key("decode_steps").number(report.stats.decode_seconds).end_object();
}

// Behind a number of answers: how many of them are no whole ones.
std::string cut_at_max_tokens(uint64_t answers) {
  return answers > 0 ? fmt::format(" ({} cut at max_tokens)", answers) : "";
}

void add_tools(const ToolCounts& tools, std::vector<std::string>& summary) {
  if (tools.lines > 0) {
    summary.push_back(fmt::format("tools: {} in the answers to {}", counted(tools.calls, "call"),
                                  counted(tools.lines, "line")));
  }
  if (tools.unread > 0) {
    summary.push_back(fmt::format("tools: {} with a call that could not be read, and stayed text{}",
                                  counted(tools.unread, "answer"),
                                  cut_at_max_tokens(tools.unread_cut)));
  }
  if (tools.untried > 0) {
    summary.push_back(
        fmt::format("tools: calls were not looked for in the answers to {}, because how the model "
                    "writes them is not known (--tool-call-parser NAME)",
                    counted(tools.untried, "line")));
  }
}

void add_structured(const RunReport& report, std::vector<std::string>& summary) {
  const StructuredCounts& structured = report.counts.structured;
  if (structured.lines == 0) return;
  std::string text = fmt::format(
      "structured: {}{}; {} compiled or refused in {:.2f} s", counted(structured.answers, "answer"),
      cut_at_max_tokens(structured.cut),
      counted(static_cast<uint64_t>(report.grammars.count), "grammar"), report.grammars.seconds);
  if (structured.refused > 0) {
    text += fmt::format("; the form that {} asked for was refused",
                        counted(structured.refused, "line"));
  }
  summary.push_back(std::move(text));
}

}  // namespace

std::string_view ending_name(Ending ending) {
  switch (ending) {
    case Ending::complete:
      return "complete";
    case Ending::stopped:
      return "stopped";
    case Ending::time_limit:
      return "time_limit";
    case Ending::stalled:
      return "stalled";
  }
  return "";
}

std::string_view ending_reason(Ending ending) {
  switch (ending) {
    case Ending::complete:
      return "";
    case Ending::stopped:
      return "signal";
    case Ending::time_limit:
      return "--time-limit";
    case Ending::stalled:
      return "--stall-limit";
  }
  return "";
}

std::string report_json(const RunReport& report) {
  JsonText out;
  out.begin_object().key("schema_version").integer(kReportSchemaVersion);
  out.key("version").string(report.version).key("model").string(report.model);
  out.key("device").string(report.device).key("isa").string(report.isa);
  out.key("threads").integer(report.threads).key("dtype").string(report.dtype);
  out.key("seed").unsigned_integer(report.seed);
  out.key("ending").string(ending_name(report.counts.ending));
  out.key("exit_status").integer(report.exit_status);
  write_counts(out, report.counts);
  write_tokens(out, report);
  write_tools(out, report.counts.tools);
  write_structured(out, report);
  write_order(out, report.order);
  write_engine(out, report.stats);
  write_images(out, report);
  write_plan(out, report);
  write_memory(out, report.memory);
  write_ranks(out, report);
  write_seconds(out, report);
  out.key("notes").begin_array();
  for (const std::string& note : report.notes) out.string(note);
  out.end_array().end_object();
  return out.take() + "\n";
}

std::vector<std::string> summary_lines(const RunReport& report) {
  const RunCounts& counts = report.counts;
  const uint64_t total = counts.total.value_or(counts.lines);
  if (total == 0 && counts.ending == Ending::complete)
    return {
        "nothing was answered: the input, or what --part, --skip and --limit leave, has no lines"};
  std::string lines = fmt::format("{} of {} lines answered", counts.ok, total);
  if (counts.failed > 0) {
    lines += fmt::format(", {} failed (", counts.failed);
    const char* separator = "";
    for (const auto& [code, count] : counts.failed_by_code) {
      lines += fmt::format("{}{} {}", separator, count, code);
      separator = ", ";
    }
    lines += ")";
  }
  if (const uint64_t left = left_of(counts)) lines += fmt::format(", {} left", left);
  if (counts.resumed > 0) lines += fmt::format("; {} by earlier lives", counts.resumed);

  std::vector<std::string> summary{lines};
  if (report.memory.lines.empty()) return summary;  // ended within a step: nothing is measured
  summary.push_back(
      fmt::format("tokens: {} in ({} from the prefix cache), {} out; {:.1f} in/s, {:.1f} out/s",
                  counts.prompt_tokens, counts.cached_tokens, counts.completion_tokens,
                  rate(counts.prompt_tokens, report.run_seconds),
                  rate(counts.completion_tokens, report.run_seconds)));
  summary.push_back(
      fmt::format("order: {} ({})", order_name(report.order.used), report.order.reason));
  if (!report.limits.empty()) {
    summary.push_back(
        fmt::format("limits: {}, {} a step ({})", counted(report.plan.max_num_seqs, "sequence"),
                    counted(report.plan.max_num_batched_tokens, "token"), report.limits));
  }
  if (counts.dropped_tokens > 0) {
    summary.push_back(fmt::format("{} tokens were cut from long prompts", counts.dropped_tokens));
  }
  summary.push_back(fmt::format("time: load {:.2f} s, run {:.2f} s, publish {:.2f} s",
                                report.load_seconds, report.run_seconds, report.publish_seconds));
  add_tools(counts.tools, summary);
  add_structured(report, summary);
  const engine::EngineStats& stats = report.stats;
  summary.push_back(
      fmt::format("engine: at most {} running, {} preemptions, KV blocks {} of {} at the peak",
                  stats.peak_running, stats.preemptions, stats.kv_blocks_peak, stats.kv_blocks));
  if (stats.forced_tokens > 0) {
    summary.push_back(fmt::format("jump ahead: {} of {} tokens of forced text were drawn",
                                  stats.kept_forced_tokens, stats.forced_tokens));
  }
  if (stats.drafted_tokens > 0) {
    summary.push_back(fmt::format("speculation: {} of {} proposed tokens were drawn",
                                  stats.kept_tokens, stats.drafted_tokens));
  }
  for (size_t i = 0; i < report.ranks.size(); ++i) {
    const RankReport& rank = report.ranks[i];
    std::string line = fmt::format("rank {}: layers {}-{}", i, rank.first_layer,
                                   rank.first_layer + rank.layers - 1);
    if (rank.tensor_ranks > 1) {
      line += fmt::format(", share {} of {}", rank.tensor_rank + 1, rank.tensor_ranks);
    }
    if (rank.read) line += fmt::format(", {} of the checkpoint read", size_text(*rank.read));
    summary.push_back(std::move(line));
  }
  for (std::string& line : memory_table(report.memory)) summary.push_back(std::move(line));
  return summary;
}

uint64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;  // Linux: KiB
}

}  // namespace plimsoll::batch
