#include "launch/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>
#include <utility>

#include "base/choice.h"
#include "base/json.h"
#include "base/lower_case.h"
#include "base/nearest_name.h"
#include "base/units.h"
#include "vllm/items/encoder_memory.h"

namespace plimsoll::launch {
namespace {

Json read_json(const std::string& text) {
  try {
    return parse_json<Json>(text);
  } catch (const JsonError& error) {
    throw std::invalid_argument(fmt::format("column {}: {}", error.column, error.what()));
  }
}

Json read_object(const std::string& text) {
  Json json = read_json(text);
  if (!json.is_object()) throw std::invalid_argument("expected a JSON object");
  return json;
}

/// The mode in capitals; vLLM takes it in any case, and by number. Empty: none is named.
std::string read_graph_mode(const Json& mode) {
  constexpr std::string_view kModes[] = {"NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY",
                                         "FULL_AND_PIECEWISE"};
  constexpr int kNumbered = 3;  // the modes that are no pair
  if (mode.is_null()) return "";
  if (mode.is_number_integer() && mode >= 0 && mode < kNumbered)
    return std::string(kModes[mode.get<size_t>()]);
  std::string name = upper_case(mode.is_string() ? mode.get<std::string>() : mode.dump());
  if (std::ranges::find(kModes, name) != std::end(kModes)) return name;
  throw std::invalid_argument(fmt::format(
      "cudagraph_mode {}: expected NONE, PIECEWISE, FULL, FULL_DECODE_ONLY or FULL_AND_PIECEWISE",
      mode.dump()));
}

/// A size of graphs that the key states.
int64_t graph_size(const char* key, const Json& size) {
  constexpr int64_t kMost = 1 << 20;
  if (size.is_number_integer() && size >= 1 && size <= kMost) return size.get<int64_t>();
  throw std::invalid_argument(
      fmt::format("{}: expected 1 to {}, found {}", key, kMost, size.dump()));
}

std::vector<int64_t> capture_sizes(const Json& list) {
  constexpr const char* kKey = "cudagraph_capture_sizes";
  if (!list.is_array())
    throw std::invalid_argument(fmt::format("{}: expected a list, found {}", kKey, list.dump()));
  std::vector<int64_t> sizes;
  for (const Json& size : list) sizes.push_back(graph_size(kKey, size));
  return sizes;
}

/// How vLLM compiles, by number or name; nothing: the key is absent.
std::optional<int64_t> compile_mode(const char* key, const Json& mode) {
  constexpr std::string_view kModes[] = {"NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE",
                                         "VLLM_COMPILE"};
  if (mode.is_null()) return std::nullopt;
  if (mode.is_number_integer() && mode >= 0 && mode <= 3) return mode.get<int64_t>();
  const std::string name = mode.is_string() ? upper_case(mode.get<std::string>()) : "";
  const auto* const named = std::ranges::find(kModes, name);
  if (named != std::end(kModes)) return named - std::begin(kModes);
  throw std::invalid_argument(fmt::format("{} {}: expected 0 to 3", key, mode.dump()));
}

/// A count of --speculative-config; where the key is absent or no number, `count` stays.
void read_draft_count(const Json& json, const char* key, int64_t least, int64_t& count) {
  constexpr int64_t kMost = 1 << 20;
  const auto value = json.find(key);
  if (value == json.end() || !value->is_number_integer()) return;
  count = value->get<int64_t>();
  if (count < least || count > kMost)
    throw std::invalid_argument(fmt::format("{}: expected {} to {}", key, least, kMost));
}

}  // namespace

double parse_number(const std::string& text) {
  size_t used = 0;
  double number = 0;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != text.size() || text.empty()) throw std::invalid_argument("expected a number");
  return number;
}

void read_compilation(const std::string& text, vllm::EngineArgs& args) {
  const Json json = read_json(text);
  vllm::GraphArgs& graphs = args.graphs;
  if (json.is_number_integer()) {
    graphs.level = compile_mode("level", json);
    return;
  }
  if (!json.is_object()) throw std::invalid_argument("expected a level or a JSON object");
  const auto at = [&](const char* key) { return json.value(key, Json()); };
  for (const char* key : {"level", "mode"})
    if (const std::optional<int64_t> mode = compile_mode(key, at(key))) graphs.compile = mode;
  if (const Json sizes = at("cudagraph_capture_sizes"); !sizes.is_null())
    args.capture_sizes = capture_sizes(sizes);
  constexpr const char* kLargest = "max_cudagraph_capture_size";
  if (const Json most = at(kLargest); !most.is_null()) graphs.largest = graph_size(kLargest, most);
  if (at("full_cuda_graph") == true) graphs.mode = "FULL";
  if (const std::string mode = read_graph_mode(at("cudagraph_mode")); !mode.empty())
    graphs.mode = mode;
  if (at("use_cudagraph") == false) graphs.mode = "NONE";
  if (at("cudagraph_specialize_lora") == false) graphs.by_adapters = false;
}

void read_graph_sizes(const std::string& text, vllm::EngineArgs& args) {
  std::vector<int64_t> sizes = parse_counts(text);
  for (const int64_t size : sizes) static_cast<void>(graph_size("a size", size));
  if (sizes.size() == 1) {
    args.graphs.up_to = sizes.front();
  } else {
    args.capture_sizes = std::move(sizes);
  }
}

std::string read_dtype_name(const std::string& text) {
  static constexpr std::string_view kNames[] = {"auto", "bfloat16", "float16",
                                                "half", "float32",  "float"};
  if (std::ranges::find(kNames, text) == std::end(kNames)) {
    static constexpr std::pair<std::string_view, std::string_view> kShort[] = {{"bf16", "bfloat16"},
                                                                               {"fp16", "float16"},
                                                                               {"f16", "float16"},
                                                                               {"fp32", "float32"},
                                                                               {"f32", "float32"}};
    std::string_view meant = nearest_name(text, kNames);
    for (const auto& [name, full] : kShort)
      if (text == name) meant = full;
    throw std::invalid_argument(fmt::format(
        "expected auto, bfloat16, float16 or float32, found \"{}\"{}", text, did_you_mean(meant)));
  }
  return text;
}

namespace {

/// vLLM's methods, of all releases (vllm/config/speculative.py: SpeculativeMethod).
void check_draft_method(const std::string& method) {
  constexpr std::array<std::string_view, 13> kMethods = {
      "draft_model",  "ngram",        "ngram_gpu",     "eagle",  "eagle3",
      "mtp",          "medusa",       "suffix",        "dflash", "dspark",
      "custom_class", "deepseek_mtp", "mlp_speculator"};
  const bool known = std::ranges::find(kMethods, method) != kMethods.end() ||
                     method.ends_with("_mtp") || method == "extract_hidden_states";
  if (known) return;
  throw std::invalid_argument(fmt::format("method {} is not known{}", method,
                                          did_you_mean(nearest_name(method, kMethods))));
}

}  // namespace

void read_speculation(const std::string& text, vllm::EngineArgs& args) {
  constexpr auto kKeys = std::to_array<std::string_view>(
      {"method", "model", "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max",
       "draft_sample_method"});
  const Json json = read_object(text);
  // vLLM has more keys; a misspelt one of ours would count for nothing.
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(kKeys, key) != kKeys.end()) continue;
    const std::string_view meant = nearest_name(key, kKeys);
    if (meant.empty()) continue;
    throw std::invalid_argument(fmt::format("{} is no known key{}", key, did_you_mean(meant)));
  }
  const auto method = json.find("method");
  const bool named = method != json.end() && method->is_string();
  args.draft_method = named ? method->get<std::string>() : "draft_model";
  const auto model = json.find("model");
  if (model != json.end() && model->is_string()) args.draft_model = model->get<std::string>();
  const auto is_ngram = [](const std::string& name) {
    return name == "ngram" || name == "[ngram]";
  };
  if (is_ngram(args.draft_method) || (!named && is_ngram(args.draft_model)))
    args.draft_method = "ngram";
  check_draft_method(args.draft_method);
  args.draft_logits = json.value("draft_sample_method", Json()) == "probabilistic";
  read_draft_count(json, "num_speculative_tokens", 0, args.draft_tokens);
  read_draft_count(json, "prompt_lookup_min", 1, args.lookup_min);
  read_draft_count(json, "prompt_lookup_max", 1, args.lookup_max);
}

void read_overrides(const std::string& text, vllm::EngineArgs& args) {
  const Json json = read_object(text);
  Json all = args.overrides ? *args.overrides : Json::object();
  all.update(json);
  args.overrides = std::make_shared<const Json>(std::move(all));
}

void read_tables(const std::string& text, vllm::EngineArgs& args) {
  const Json json = read_object(text);
  args.tables = {.given = true};
  for (const auto& [key, value] : json.items()) {
    const bool known = key == "cpu_offload" || key == "embedding_across_dp" ||
                       key == "dp_shared_memory" || key == "use_thp";
    if (!known) throw std::invalid_argument("EngramConfig has no \"" + key + "\"");
    if (key == "dp_shared_memory" && value.is_null()) continue;
    if (!value.is_boolean()) {
      throw std::invalid_argument("expected true or false for \"" + key + "\"");
    }
    const bool on = value.get<bool>();
    if (key == "cpu_offload") args.tables.offload = on;
    if (key == "embedding_across_dp") args.tables.over_replicas = on;
    if (key == "dp_shared_memory") args.tables.shared = on;
    if (key == "use_thp") args.tables.huge_pages = on;
  }
}

void read_pooler(const std::string& text, vllm::EngineArgs& args) {
  const Choices<std::string> types = {
      {"LAST", "LAST"}, {"MEAN", "MEAN"}, {"CLS", "CLS"}, {"ALL", "ALL"}, {"STEP", "STEP"}};
  const Json json = read_object(text);
  for (const char* key : {"pooling_type", "seq_pooling_type", "tok_pooling_type"}) {
    const auto stated = json.find(key);
    if (stated == json.end() || stated->is_null()) continue;
    if (!stated->is_string())
      throw std::invalid_argument(fmt::format("expected a string for \"{}\"", key));
    args.pooling.type = chosen(stated->get<std::string>(), types);
  }
}

/// vLLM's, of which a misspelt one would bound nothing.
void check_modality(const std::string& name) {
  for (const char* known : {"image", "video", "audio", "vision_chunk"})
    if (name == known) return;
  throw std::invalid_argument("expected image, video or audio, found \"" + name + "\"");
}

void read_modality_limits(const std::string& text, vllm::EngineArgs& args) {
  if (text.find('{') == std::string::npos) {
    std::string item;
    for (const char c : text + ",") {
      if (c != ',') {
        item += c;
        continue;
      }
      const size_t equals = item.find('=');
      if (equals == std::string::npos)
        throw std::invalid_argument("expected image=N,video=N or a JSON object");
      const std::string modality = item.substr(0, equals);
      check_modality(modality);
      args.limits[modality].count = parse_count(item.substr(equals + 1));
      item.clear();
    }
    return;
  }
  const Json json = read_json(text);
  if (!json.is_object()) throw std::invalid_argument("expected image=N,video=N or a JSON object");
  for (const auto& item : json.items()) {
    const std::string& modality = item.key();
    const Json& value = item.value();
    check_modality(modality);
    vllm::ModalityLimit& limit = args.limits[modality];
    if (value.is_number_integer()) {
      limit.count = value.get<int64_t>();
    } else if (value.is_object()) {
      const auto number = [&](const char* key, int64_t fallback) {
        const auto at = value.find(key);
        return at != value.end() && at->is_number_integer() ? at->get<int64_t>() : fallback;
      };
      constexpr int64_t kUnlimited = 999;
      limit = {number("count", kUnlimited), number("width", 0), number("height", 0),
               number("num_frames", 0), number("length", 0)};
    } else {
      throw std::invalid_argument("expected a count or an object for " + modality);
    }
    if (limit.count < 0) throw std::invalid_argument("expected at least 0 for " + modality);
  }
}

void read_processor(const std::string& text, vllm::EngineArgs& args) {
  const Json json = read_object(text);
  // Processors have more keys; a misspelt one of these would count for nothing.
  constexpr std::array<std::string_view, 14> kKeys = {
      "max_pixels",        "min_pixels",      "size",       "crop_size",  "max_image_size",
      "max_dynamic_patch", "do_pan_and_scan", "num_frames", "max_frames", "min_dynamic_patch",
      "patch_size",        "max_patches",     "min_frames", "fps"};
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(kKeys, key) != kKeys.end()) continue;
    const std::string_view meant = nearest_name(key, kKeys);
    if (meant.empty()) continue;
    throw std::invalid_argument(fmt::format("{} is no known key{}", key, did_you_mean(meant)));
  }
  vllm::read_processor_settings(ConfigView(json, "--mm-processor-kwargs"), "", args.processor);
}

}  // namespace plimsoll::launch
