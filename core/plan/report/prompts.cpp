#include "plan/report/prompts.h"

#include <fmt/format.h>

#include "base/counted.h"
#include "plan/report/report.h"

namespace plimsoll::plan {
namespace {

std::string faults(const PromptFigures& p) {
  std::string text;
  if (p.cut_lines > 0) {
    text += fmt::format(", {} cut to fit ({} tokens left out)", p.cut_lines, p.dropped_tokens);
  }
  if (p.split_lines > 0) text += fmt::format(", {} split to fit", p.split_lines);
  if (p.bad_lines > 0) {
    const std::string place = fmt::format("line {}", p.first_bad_line);
    const bool placed = p.first_bad_reason.starts_with(place);
    text += fmt::format(", {} refused ({}{})", p.bad_lines, placed ? "" : place + ": ",
                        p.first_bad_reason);
  }
  if (p.duplicate_ids > 0) text += fmt::format(", {} with an id taken before", p.duplicate_ids);
  if (p.over_context > 0) {
    text += fmt::format(", {} too long for the context (first line {}, longest {} tokens)",
                        p.over_context, p.first_over_context, p.longest_over_context);
  }
  return text;
}

std::string answers(const PromptFigures& p) {
  std::string text = fmt::format("answers of {} tokens at most", p.answer_tokens);
  if (p.open_ended > 0) {
    text += fmt::format("; max_tokens is missing in {}, and the rest of the context is counted",
                        counted(p.open_ended, "line"));
  }
  return text;
}

std::string cache_need(const PlanResult& result, const PromptFigures& p) {
  std::string text = fmt::format(
      "cache: {} for the longest, {} for those that need most of what "
      "may run at once ({} blocks",
      readable_bytes(p.longest_bytes), readable_bytes(p.peak_bytes), p.peak_blocks);
  text += result.has_kv ? fmt::format(" of {})", result.num_gpu_blocks) : ")";
  if (p.concurrency > 0) {
    text += fmt::format("; about {:.1f} at once over the whole file", p.concurrency);
  }
  return text;
}

/// Never a time that rounds to nothing.
std::string duration(double hours) {
  constexpr double kSeconds = 3600;
  if (hours * kSeconds < 60) return fmt::format("{:.1f} seconds", hours * kSeconds);
  if (hours < 1) return fmt::format("{:.1f} minutes", hours * 60);
  return fmt::format("{:.2f} hours", hours);
}

}  // namespace

namespace {

OrderedJson order_json(const OrderFigures& order) {
  const auto figures = [](const ScheduleFigures& schedule) {
    return OrderedJson{{"cached", schedule.cached_tokens},
                       {"steps", schedule.steps},
                       {"kv_blocks_peak", schedule.kv_blocks_peak}};
  };
  return {{"asked", order.asked},
          {"used", order.used},
          {"reason", order.reason},
          {"in_file_order", figures(order.in_file_order)},
          {"in_prefix_order", figures(order.in_prefix_order)}};
}

std::string order_text(const OrderFigures& order) {
  const ScheduleFigures& file = order.in_file_order;
  const ScheduleFigures& prefix = order.in_prefix_order;
  return fmt::format(
      "order: {} ({}); from the prefix cache {} tokens in the file's order and {} by prefixes, in "
      "{} steps and {}",
      order.used, order.reason, file.cached_tokens, prefix.cached_tokens, file.steps, prefix.steps);
}

}  // namespace

OrderedJson prompts_json(const PromptFigures& p) {
  OrderedJson json = {
      {"file", p.file}, {"lines", p.lines}, {"chats", p.chats}, {"bad_lines", p.bad_lines}};
  if (p.bad_lines > 0) {
    json["first_bad_line"] = p.first_bad_line;
    json["first_bad_reason"] = p.first_bad_reason;
  }
  json["duplicate_ids"] = p.duplicate_ids;
  json["cut_lines"] = p.cut_lines;
  json["dropped_tokens"] = p.dropped_tokens;
  json["split_lines"] = p.split_lines;
  json["over_context"] = p.over_context;
  if (p.over_context > 0) {
    json["first_over_context"] = p.first_over_context;
    json["longest_over_context"] = p.longest_over_context;
  }
  json["open_ended"] = p.open_ended;
  json["sequences"] = p.sequences;
  json["prompt_tokens"] = p.prompt_tokens;
  json["shared_tokens"] = p.shared_tokens;
  json["sharing_cut_off"] = p.sharing_cut_off;
  if (p.order) json["order"] = order_json(*p.order);
  json["answer_tokens"] = p.answer_tokens;
  json["shortest"] = p.shortest;
  json["median"] = p.median;
  json["ninth_decile"] = p.ninth_decile;
  json["longest"] = p.longest;
  json["longest_bytes"] = p.longest_bytes;
  json["peak_blocks"] = p.peak_blocks;
  json["peak_bytes"] = p.peak_bytes;
  if (p.concurrency > 0) json["concurrency"] = p.concurrency;
  if (p.tokens_per_second > 0) {
    json["tokens_per_second"] = p.tokens_per_second;
    json["hours"] = p.hours;
  }
  return json;
}

std::vector<std::string> prompts_text(const PlanResult& result, const PromptFigures& p) {
  std::vector<std::string> text;
  text.push_back(fmt::format("{}: {}, {} of them chats{}", p.file, counted(p.lines, "line"),
                             p.chats, faults(p)));
  if (p.sequences == 0) return text;
  text.push_back(
      fmt::format("{} with prompts of {} to {} tokens, half up to {}, nine in "
                  "ten up to {}; {} tokens of prompts, {}{} in shared prefixes",
                  counted(p.sequences, "sequence"), p.shortest, p.longest, p.median, p.ninth_decile,
                  p.prompt_tokens, p.sharing_cut_off ? "at least " : "", p.shared_tokens));
  text.push_back(answers(p));
  if (p.order) text.push_back(order_text(*p.order));
  text.push_back(cache_need(result, p));
  if (p.tokens_per_second > 0) {
    text.push_back(fmt::format("{} at most, at {:.1f} tokens per second", duration(p.hours),
                               p.tokens_per_second));
  }
  return text;
}

}  // namespace plimsoll::plan
