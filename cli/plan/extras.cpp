#include "cli/plan/extras.h"

#include <stdexcept>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "cli/units.h"
#include "cli/value_flag.h"
#include "plan/amount.h"
#include "plan/config_file.h"
#include "plan/model_shape.h"
#include "plan/multimodal.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

void count(CLI::App& command, const char* name, int64_t& target, const char* help) {
  value_flag(command, name, "N", help, [&target](const std::string& text) {
    target = parse_count(text);
    if (target < 1 || target > 1 << 20) throw std::invalid_argument("expected 1 to 1048576");
  })->take_last();
}

void read_speculation(const std::string& text, plan::EngineArgs& args) {
  Json json;
  try {
    json = parse_json<Json>(text);
  } catch (const JsonError& error) {
    throw std::invalid_argument(error.what());
  }
  if (!json.is_object()) throw std::invalid_argument("expected a JSON object");
  const auto method = json.find("method");
  const bool named = method != json.end() && method->is_string();
  args.draft_method = named ? method->get<std::string>() : "draft_model";
  if (args.draft_method == "[ngram]") args.draft_method = "ngram";
  const auto tokens = json.find("num_speculative_tokens");
  if (tokens != json.end() && tokens->is_number_integer()) {
    args.draft_tokens = tokens->get<int64_t>();
    if (args.draft_tokens < 0 || args.draft_tokens > 1 << 20)
      throw std::invalid_argument("num_speculative_tokens: expected 0 to 1048576");
  }
}

/// Sums of the headers; nothing where the folder holds no readable safetensors.
std::optional<plan::CheckpointTensors> tensors_of(const fs::path& folder) {
  bool any = false;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    any |= entry.path().extension() == ".safetensors";
  if (!any) return std::nullopt;
  const auto checkpoint = checkpoint::Checkpoint::open(folder);
  plan::Amount elements = 0;
  plan::Amount others = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const auto bytes = static_cast<int64_t>(tensor.bytes);
    switch (tensor.dtype) {
      case DType::f16:
      case DType::bf16:
      case DType::f32:
      case DType::f64:
        elements += bytes / static_cast<int64_t>(dtype_size(tensor.dtype));
        break;
      default:
        others += bytes;
    }
  }
  return plan::CheckpointTensors{elements.value(), others.value()};
}

}  // namespace

void declare_adapter_flags(CLI::App& command, plan::EngineArgs& args) {
  command.add_flag_callback(
      "--enable-lora", [&args] { args.lora = true; }, "reserve room for LoRA adapters");
  command.add_flag_callback(
      "--no-enable-lora", [&args] { args.lora = false; }, "the reverse of --enable-lora");
  count(command, "--max-loras", args.lora_slots, "adapters held at once (default 1)");
  count(command, "--max-lora-rank", args.lora_rank, "of the adapters (default 16)");
  value_flag(command, "--speculative-config", "JSON",
             "method and num_speculative_tokens are read; a draft model is not counted",
             [&args](const std::string& text) { read_speculation(text, args); })
      ->take_last();
}

namespace {

/// What the processors beside a model's config say of sizes; nothing where there are none.
void read_processors(const fs::path& folder, plan::EngineArgs& args) {
  const std::pair<const char*, const char*> files[] = {
      {"preprocessor_config.json", ""}, {"video_preprocessor_config.json", "videos_kwargs."}};
  for (const auto& [name, prefix] : files) {
    std::error_code ignored;
    if (!fs::is_regular_file(folder / name, ignored)) continue;
    const Json settings = plan::read_config_json(folder / name);
    plan::read_processor_settings(plan::ConfigView(settings, (folder / name).string()), prefix,
                                  args.processor_file);
  }
}

}  // namespace

PlanOptions completed(PlanOptions options, const Environment& environment,
                      const plan::ConfigView& config, const fs::path& config_file) {
  const bool old = options.args.version < plan::VllmVersion{0, 10, 0};
  if (environment.mm_input_cache && old) {
    options.args.processor_cache_gib = *environment.mm_input_cache;
  }
  if (options.engine == "vllm" && config_file.filename() == "config.json") {
    read_processors(config_file.parent_path(), options.args);
  }
  if (options.engine == "vllm" && !plan::is_known_architecture(config)) {
    options.args.tensors = tensors_of(config_file.parent_path());
  }
  return options;
}

}  // namespace plimsoll::cli
