#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <vector>

#include "base/wrapped_text.h"

namespace plimsoll::cli {
namespace {

constexpr std::string_view kProgramHelp =
    R"(Batch LLM inference that never runs out of memory, and memory plans for vLLM.

  plimsoll plan MODEL --gpu h100
  plimsoll run MODEL -i prompts.jsonl -o answers.jsonl

Commands:
  plan   the memory of a launch, before the launch
  run    batch generation over a JSONL file
  shard  tensor-parallel shards, as vLLM saves them
  doctor what runs here, and whether it computes right

plimsoll COMMAND -h shows a command's usual flags, --help all of them.
plimsoll --version shows the version, --completion SHELL what completes flags.
)";

constexpr std::string_view kRunHelp =
    R"(Examples:
  plimsoll run MODEL -i prompts.jsonl -o answers.jsonl
  echo '"To be, or not"' | plimsoll run MODEL --max-tokens 32 --temperature 0
  plimsoll run MODEL -i all.jsonl -o part3.jsonl --part 3/8 --report part3.json

MODEL is a folder with config.json and *.safetensors, a GGUF file, or a hub id.
Input lines: a JSON string, {"prompt": ...}, {"messages": [...]} or
{"prompt_token_ids": [...]} with request fields beside, or OpenAI batch lines.

  -i, -o FILE                input, output; default -, the standard streams
  --max-tokens N             most tokens of any answer
  --temperature N, --seed N  0 is greedy; random numbers of the run
  --max-model-len N|auto     context length, such as 4096 or 32k
  --chat-template FILE       in place of the model's
  --long-prompt POLICY       error, truncate-left, truncate-right or split
  --part i/n, --limit N      a slice of the input
  --overwrite                replace an output
  --report FILE              figures of the run as JSON
Exit status: 0 done, 2 usage, 3 some lines failed, 4 input, 5 model,
6 does not fit, 7 stopped early, 8 output exists, 9 output cannot be written,
11 output is locked. All flags: --help. Manual: man plimsoll-run
)";

constexpr std::string_view kPlanHelp =
    R"(Examples:
  plimsoll plan MODEL --gpu h100 --max-model-len 32k
  plimsoll plan config.json --engine vllm --vllm-version 0.19.1 --gpu l40s -tp 2
  plimsoll plan --from 'vllm serve Qwen/Qwen3-8B --max-num-seqs 64' --gpu 4090

MODEL is a folder with config.json, a config.json, a GGUF file, or a hub id.
No GPU and no weights are needed. The flags are those of run.

  --gpu NAME|auto|list       the card, by a loose name; list prints all
  --gpus N|auto              cards at hand; auto: as few as it takes
  --engine NAME              plimsoll, vllm, sglang, lmdeploy ...; all
  --max-model-len N|auto     context length; auto: the longest that fits
  --max-num-seqs N|auto      sequences at once; auto: by -i, or all that fit
  --advise                   what would save memory
  --explain PART             the formula of a part with its numbers
  --format text|json|html    also args: flags to paste; serve: the whole line
  -i prompts.jsonl           lengths of real prompts, and their need
  --diff A.json B.json       what two plans differ in
Exit status: 0 fits, 2 usage, 5 model, 6 does not fit.
All flags: --help. Manual: man plimsoll-plan
)";

constexpr std::string_view kShardHelp =
    R"(Examples:
  plimsoll shard MODEL -o DIR -tp 4
  plimsoll shard MODEL -o DIR -tp 8 -pp 2 --dtype bfloat16
  plimsoll shard MODEL -tp 4 --dry-run
  plimsoll shard --verify DIR --source MODEL
  plimsoll shard --unshard DIR -o MODEL

MODEL is a folder with config.json and *.safetensors, or a hub id in the cache.
The files are those that vLLM's save_sharded_state writes, byte for byte. Load
them with: vllm serve DIR --load-format sharded_state -tp N

  -tp N, -pp N               ranks and pipeline stages
  --dtype DTYPE              auto, bfloat16, float16 or float32
  --max-file-size SIZE       payload of a file; default 5GiB
  --vllm-version X.Y.Z       release that is to load them
Started again after an interruption, the same command goes on.
Exit status: 0 done, 2 usage, 5 model, or --verify found a difference,
7 stopped early, 8 output is not ours, 9 output cannot be written,
11 output is locked. All flags: --help. Manual: man plimsoll-shard
)";

constexpr std::string_view kDoctorHelp =
    R"(Examples:
  plimsoll doctor
  plimsoll doctor --format json > doctor.json

Driver, devices, libraries, processor and memory; tiny models computed on the
card and on the CPU and compared; how fast it reads and multiplies. This is what
a bug report is asked for. Without a card the processor is examined.

  --device auto|cpu|cuda     what is examined
  --format text|json         lines for people, or one JSON object
  --no-measure               leave out how fast it reads and multiplies
Exit status: 0 all computes right, 1 something does not, 2 usage.
Manual: man plimsoll-doctor
)";

std::string names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  std::string joined = fmt::format("{}", fmt::join(names, ", "));
  // A flag has no value; CLI11 says so by an expected size of 0.
  if (option.get_items_expected_max() > 0) joined += " " + option.get_type_name();
  return joined;
}

}  // namespace

void add_help_flags(CLI::App& command) {
  command.set_help_flag();
  CLI::App* self = &command;
  command.option_defaults()->group("Help");
  command.add_flag_callback(
      "-h", [self] { throw HelpWanted{std::string(short_help(self->get_name()))}; },
      "the usual flags, on one screen");
  command.add_flag_callback(
      "--help", [self] { throw HelpWanted{full_help(*self)}; }, "every flag");
}

std::string_view short_help(std::string_view command) {
  if (command == "plan") return kPlanHelp;
  if (command == "shard") return kShardHelp;
  if (command == "doctor") return kDoctorHelp;
  return command == "run" ? kRunHelp : kProgramHelp;
}

std::string full_help(const CLI::App& command) {
  constexpr int kColumns = 80, kIndent = 38;
  std::string text(short_help(command.get_name()));
  for (const std::string& group : command.get_groups()) {
    if (group.empty()) continue;  // what stands in the short help
    text += fmt::format("\n{}:\n", group);
    for (const CLI::Option* option :
         command.get_options([&](const CLI::Option* o) { return o->get_group() == group; })) {
      text += wrapped_after("  " + names_of(*option), option->get_description(), kColumns, kIndent);
    }
  }
  return text;
}

}  // namespace plimsoll::cli
