// Flags of `plimsoll plan`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/engine_args.h"

namespace plimsoll::cli {

enum class PlanFormat { text, json, html, args };

struct PlanOptions {
  std::string model;
  std::string engine = "plimsoll";
  plan::EngineArgs args;
  std::string gpu;              // empty: none; a name, "auto", "list" or "smallest"
  std::optional<int64_t> gpus;  // cards at hand; 0: as few as it takes
  std::optional<int64_t> gpu_total_memory;
  std::optional<int64_t> gpu_memory;  // a ceiling in bytes
  PlanFormat format = PlanFormat::text;
  std::string explain;
  std::pair<std::string, std::string> diff;
  std::string check;                  // a report of `run`
  std::optional<uint64_t> cpu_cache;  // --cpu-kvcache-space, bytes
  std::optional<int> threads;         // of a run on this machine's processor
  bool own_head = false;  // the weights have one beside the table that the config ties it to
  bool advise = false;
  bool solve_seqs = false;  // --max-num-seqs auto
  std::string prompts;      // -i
  std::string rate;         // tokens per second, measured: a number or a report of `run`
  std::string tokenizer;    // of `prompts`; empty: the model's
  std::optional<std::string> chat_template;
  std::optional<int64_t> max_tokens;
  std::vector<std::string> ignored;  // flags that move no memory
};

/// Declares every flag of `plan` on `command`. `options` must outlive the parsing.
void declare_plan_flags(CLI::App& command, PlanOptions& options);

/// "image=2,video=0", {"image": 2} or {"image": {"count": 2, "width": 512}}. Throws
/// std::invalid_argument.
void read_modality_limits(const std::string& text, plan::EngineArgs& args);

/// Replaces `--from 'vllm serve MODEL ...'` by the flags of that line that plan knows, and names
/// the others after `--ignored-flag`.
std::vector<std::string> expand_pasted_line(std::vector<std::string> arguments);

}  // namespace plimsoll::cli
