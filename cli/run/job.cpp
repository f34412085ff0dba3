#include "cli/run/job.h"

#include <unistd.h>

#include <filesystem>

#include "checkpoint/find_model.h"
#include "checkpoint/gguf/model.h"
#include "files/identity.h"
#include "files/names.h"
#include "launch/parameters.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

template <typename Value>
OrderedJson or_null(const std::optional<Value>& value) {
  return value ? OrderedJson(*value) : OrderedJson();
}

template <typename Value>
OrderedJson if_so(bool condition, const Value& value) {
  return condition ? OrderedJson(value) : OrderedJson();
}

OrderedJson describe_input(files::InputFile& input) {
  if (!input.is_regular()) return nullptr;  // it cannot be read twice
  return {{"bytes", input.size()}, {"xxh3", files::digest_of(input)}};
}

// The source of sampling defaults: "auto", "vllm", or the digest of the file that is named.
OrderedJson describe_generation(const RunOptions& options) {
  const std::string& from = options.generation_config;
  if (from == "auto" || from == "vllm") return from;
  return files::sampled_digest(fs::path(from) / "generation_config.json");
}

const char* name_of(batch::LongPrompt policy) {
  switch (policy) {
    case batch::LongPrompt::error:
      return "error";
    case batch::LongPrompt::truncate_left:
      return "truncate-left";
    case batch::LongPrompt::truncate_right:
      return "truncate-right";
    case batch::LongPrompt::split:
      return "split";
  }
  return "";
}

// Flags that answers depend on, as given; the model's own defaults follow from its files.
OrderedJson describe_answers(const RunOptions& options) {
  OrderedJson answers = {{"seed", options.seed},
                         {"fields", options.sampling},
                         {"generation_config", describe_generation(options)},
                         {"max_logprobs", options.max_logprobs},
                         {"long_prompt", name_of(options.long_prompt)},
                         {"split_overlap", options.split_overlap},
                         {"skip_tokenizer_init", options.skip_tokenizer_init}};
  answers["max_tokens"] = or_null(options.max_tokens);
  answers["chat_template"] = or_null(options.chat_template);
  answers["chat_template_kwargs"] = options.chat_template_kwargs;
  answers["tool_call_parser"] = options.tool_call_parser;
  answers["reasoning_parser"] = options.reasoning_parser;
  answers["images"] = {{"pixels", options.max_image_pixels}, {"folder", options.media_path}};
  return answers;
}

OrderedJson describe_launch(const RunOptions& options, const DeviceChoice& device) {
  const bool on_cards = device.card.has_value();
  OrderedJson launch = launch::deciding_values(options.launch, on_cards);
  launch["device"] = on_cards ? "cuda" : "cpu";
  // Another instruction set gives other bits; --cpu-isa pins it.
  launch["cpu_isa"] = if_so(!on_cards, backend::isa_name(device.cpu.isa));
  launch["random_weights"] = options.random_weights();
  launch["file_pattern"] = options.file_pattern;
  launch["sharded_state"] = options.sharded_state();
  return launch;
}

/// Digests of a model's files: a folder's, or a GGUF model's parts.
OrderedJson digests_of(const fs::path& model) {
  if (!checkpoint::gguf::is_gguf_path(model)) return files::model_digests(model);
  OrderedJson digests = OrderedJson::object();
  const auto parts = checkpoint::gguf::Model::open(model);
  for (const auto& file : parts.files())
    digests[file->path().filename().string()] = files::sampled_digest(file->path());
  return digests;
}

}  // namespace

OrderedJson describe_job(const RunOptions& options, const Environment& environment,
                         const DeviceChoice& device, files::InputFile& input,
                         const ScannedInput& scanned) {
  OrderedJson job;
  job["version"] = options.build;
  job["input"] = describe_input(input);
  job["lines"] = batch::lines_json(scanned.slice, scanned.all_lines);
  job["max_line_bytes"] = options.max_line_bytes;
  job["strict"] = options.unknown_fields == batch::UnknownFields::refuse;
  job["model"] = digests_of(checkpoint::find_model(options.model, environment.stores));
  job["tokenizer"] =
      options.tokenizer.empty()
          ? OrderedJson()
          : digests_of(checkpoint::find_model(options.tokenizer, environment.stores));
  job["answers"] = describe_answers(options);
  job["launch"] = describe_launch(options, device);
  job["format"] = options.format == batch::OutputFormat::ids ? "ids" : "json";
  // Without a given name answers have the name that the first life was given (describe_life).
  job["served_model_name"] = if_so(!options.served_model_name.empty(), options.served_model_name);
  job["created"] = environment.source_date_epoch.value_or(0);
  job["errors"] = !options.errors.empty();
  return job;
}

OrderedJson describe_life(const RunOptions& options, const DeviceChoice& device) {
  OrderedJson inputs = OrderedJson::array();
  for (const std::string& input : input_paths(options)) {
    inputs.push_back(files::absolute_path(input));
  }
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return {{"inputs", inputs},
          {"errors", files::absolute_path(options.errors)},
          {"model", options.model},
          {"host", host},
          {"pid", getpid()},
          {"card", device.card ? OrderedJson(device.card->name) : OrderedJson()},
          {"threads", device.cpu.threads},
          {"max_num_seqs", options.launch.args.max_num_seqs}};
}

}  // namespace plimsoll::cli
