// Launches of engines other than vLLM by their Python classes and functions.
#include <algorithm>
#include <array>
#include <utility>

#include "base/ggml/types.h"
#include "base/json.h"
#include "base/lower_case.h"
#include "base/trim.h"
#include "cli/plan/paste/python_calls.h"

namespace plimsoll::cli {
namespace {

/// A text and, in it, the call that launches.
struct LaunchingCall {
  const std::string& text;
  const std::string& code;  // code_of(text)
  size_t at;                // of its arguments
};

/// The arguments of a call, and where the model is: named, or else in front.
class Call {
 public:
  /// `model_name`: of the argument that names the model; empty: none does. `apart`: an argument
  /// whose text is kept.
  Call(const std::string& text, size_t at, std::string_view model_name, PastedLaunch& launch,
       std::string_view apart = "") {
    const NamedValues names = assigned(text, launch.variables);
    bool first = true;
    const auto take = [&](const std::string& name, const Literal& value, std::string_view written) {
      const bool is_model = name.empty() ? first : name == model_name;
      first = false;
      if (is_model && !model_name.empty()) {
        if (value && value->is_string()) model_ = value->get<std::string>();
      } else if (name.empty()) {
        launch.left_out.push_back(std::string(written) + " (without a name)");
      } else if (name == apart && !written.empty()) {
        apart_ = written;
        apart_at_ = static_cast<size_t>(written.data() - text.data());
      } else if (value && name != apart) {
        arguments_[name] = *value;
      } else {
        launch.left_out.push_back(name + " (not a literal)");
      }
    };
    for_each_argument(text, at, names, take);
  }
  [[nodiscard]] const std::string& model() const { return model_; }
  [[nodiscard]] const OrderedJson& arguments() const { return arguments_; }
  [[nodiscard]] const std::string& apart() const { return apart_; }
  [[nodiscard]] size_t apart_at() const { return apart_at_; }  // where it stands in the text

 private:
  std::string model_, apart_;
  size_t apart_at_ = 0;
  OrderedJson arguments_ = OrderedJson::object();
};

/// Adds a field of SGLang's ServerArgs as its flag: cuda_graph_bs=[1, 2] as --cuda-graph-bs 1 2.
void add_field(const std::string& name, const OrderedJson& value, Words& words) {
  if (value.is_null() || value == false) return;
  std::string flag = "--" + name;
  std::ranges::replace(flag, '_', '-');
  words.push_back(flag);
  if (value == true) return;
  if (!value.is_array()) return words.push_back(word_of(value));
  for (const OrderedJson& item : value) words.push_back(word_of(item));
}

void read_sglang(const LaunchingCall& python, PastedLaunch& launch) {
  const Call call(python.text, python.at, "model_path", launch);
  if (!call.model().empty()) launch.words = {"--model-path", call.model()};
  for (const auto& [name, value] : call.arguments().items()) {
    if (name != "server_args" || !value.is_object()) {
      add_field(name, value, launch.words);
    } else {
      for (const auto& [field, one] : value.items()) add_field(field, one, launch.words);
    }
  }
}

/// Fields of a Python config as --engine-args.
void add_fields(const OrderedJson& fields, Words& words) {
  if (!fields.empty()) words.insert(words.end(), {"--engine-args", fields.dump()});
}

/// The place of the arguments of the call that a kept argument is, or that the name it is stands
/// for; npos: neither.
size_t call_behind(const std::string& code, const Call& call) {
  const std::string& written = call.apart();
  if (const size_t open = written.find('('); open != std::string::npos)
    return call.apart_at() + open + 1;
  for (size_t at = code.find(written); at != std::string::npos; at = code.find(written, at + 1)) {
    const bool begins = at == 0 || code[at - 1] == '\n' || code[at - 1] == ' ';
    const size_t equals = code.find_first_not_of(" \t", at + written.size());
    if (!begins || equals == std::string::npos || code[equals] != '=') continue;
    const size_t line = std::min(code.find('\n', equals), code.size());
    const size_t open = std::string_view(code).substr(equals, line - equals).find('(');
    if (open != std::string_view::npos) return equals + open + 1;
  }
  return std::string::npos;
}

void read_lmdeploy(const LaunchingCall& python, PastedLaunch& launch) {
  const Call call(python.text, python.at, "model_path", launch, "backend_config");
  if (!call.model().empty()) launch.words = {call.model()};
  if (call.apart().empty()) return;
  const std::string& code = python.code;
  const size_t fields = call_behind(code, call);
  for (const auto& [config, backend] : {std::pair{"TurbomindEngineConfig", "turbomind"},
                                        std::pair{"PytorchEngineConfig", "pytorch"}}) {
    const std::string alias = imported_as(code, "lmdeploy", config);
    for (const std::string& name : {std::string(config), alias}) {
      const bool is_called = fields != std::string::npos && !name.empty() &&
                             trimmed(std::string_view(code).substr(0, fields - 1)).ends_with(name);
      if (!is_called) continue;
      launch.words.insert(launch.words.end(), {"--backend", backend});
      return add_fields(Call(python.text, fields, "", launch).arguments(), launch.words);
    }
  }
  launch.left_out.emplace_back("backend_config (not a literal)");
}

void read_tensorrt_llm(const LaunchingCall& python, PastedLaunch& launch) {
  const Call call(python.text, python.at, "model", launch);
  if (!call.model().empty()) launch.words = {call.model()};
  add_fields(call.arguments(), launch.words);
}

/// Arguments of llama-cpp-python's Llama (llama_cpp/llama.py) that move memory, and llama.cpp's
/// flags.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kLlamaNumbers = {{
    {"n_ctx", "--ctx-size"},
    {"n_batch", "--batch-size"},
    {"n_ubatch", "--ubatch-size"},
    {"main_gpu", "--main-gpu"},
    {"n_seq_max", "--parallel"},
}};
constexpr std::string_view kLlamaUnmoved[] = {"bos_token",
                                              "chat_format",
                                              "chat_handler",
                                              "echo",
                                              "filename",
                                              "n_threads",
                                              "kv_overrides",
                                              "last_n_tokens_size",
                                              "n_threads_batch",
                                              "numa",
                                              "repo_id",
                                              "seed",
                                              "spm_infill",
                                              "tokenizer",
                                              "use_mlock",
                                              "use_mmap",
                                              "verbose",
                                              "rope_freq_base",
                                              "rope_freq_scale",
                                              "rope_scaling_type",
                                              "local_dir",
                                              "cache_dir",
                                              "local_dir_use_symlinks",
                                              "pooling_type",
                                              "vocab_only"};

/// A type of ggml by its number, in llama.cpp's small letters; empty: none has it.
std::string ggml_type_name(const OrderedJson& value) {
  if (!value.is_number_unsigned() || value > 255) return "";
  const GgmlTypeInfo* const type = find_ggml_type(value.get<uint32_t>());
  return type == nullptr ? "" : lower_case(std::string(type->name));
}

void read_llama(const LaunchingCall& python, PastedLaunch& launch) {
  const Call call(python.text, python.at, "model_path", launch);
  // Its own defaults, where llama-server's are others.
  launch.defaults = {"--ctx-size",   "512", "--batch-size", "512", "--ubatch-size", "512",
                     "--gpu-layers", "0",   "--fit",        "off", "--parallel",    "1",
                     "--flash-attn", "off"};
  Words& words = launch.words;
  const OrderedJson repository = call.arguments().value("repo_id", OrderedJson());
  if (!call.model().empty()) words = {"--model", call.model()};
  if (repository.is_string()) words = {"-hf", repository.get<std::string>()};
  for (const auto& [name, value] : call.arguments().items()) {
    const auto* const number =
        std::ranges::find(kLlamaNumbers, name, &decltype(kLlamaNumbers)::value_type::first);
    if (number != kLlamaNumbers.end()) {
      words.insert(words.end(), {std::string(number->second), word_of(value)});
    } else if (name == "n_gpu_layers") {
      const bool all = value.is_number() && value < 0;
      words.insert(words.end(), {"--gpu-layers", all ? "all" : word_of(value)});
    } else if (name == "flash_attn") {
      words.insert(words.end(), {"--flash-attn", value == true ? "on" : "off"});
    } else if ((name == "type_k" || name == "type_v") && !ggml_type_name(value).empty()) {
      words.insert(words.end(),
                   {name == "type_k" ? "--cache-type-k" : "--cache-type-v", ggml_type_name(value)});
    } else if (name == "split_mode" && value.is_number_integer()) {
      words.insert(words.end(), {"--split-mode", value == 0   ? "none"
                                                 : value == 2 ? "row"
                                                              : "layer"});
    } else if (name == "tensor_split" && value.is_array()) {
      std::string shares;
      for (const OrderedJson& share : value) shares += (shares.empty() ? "" : ",") + word_of(share);
      words.insert(words.end(), {"--tensor-split", shares});
    } else if (name == "offload_kqv" && value == false) {
      words.emplace_back("--no-kv-offload");
    } else if (name == "swa_full" && value == true) {
      words.emplace_back("--swa-full");
    } else if (name == "logits_all" && value == true) {
      words.insert(words.end(), {"--fit-print", "on"});
    } else if (!value.is_null() && !value.is_boolean() && !is_among(kLlamaUnmoved, name)) {
      launch.left_out.push_back(name);
    }
  }
}

/// A class or function that launches an engine: behind its module, or by itself where the text
/// imports it.
struct PythonLaunch {
  std::string_view module, name, engine;
  void (*read)(const LaunchingCall& python, PastedLaunch& launch);
};
constexpr PythonLaunch kPythonLaunches[] = {
    {"tensorrt_llm", "LLM", "tensorrt-llm", read_tensorrt_llm},  // a name of vLLM's too
    {"sgl", "Engine", "sglang", read_sglang},
    {"sglang", "Engine", "sglang", read_sglang},
    {"sgl", "Runtime", "sglang", read_sglang},
    {"sglang", "Runtime", "sglang", read_sglang},
    {"lmdeploy", "pipeline", "lmdeploy", read_lmdeploy},
    {"lmdeploy", "serve", "lmdeploy", read_lmdeploy},
    {"llama_cpp", "Llama", "llamacpp", read_llama},
    {"llama_cpp", "Llama.from_pretrained", "llamacpp", read_llama},
};

/// The place of the call's arguments; npos: the text does not call it.
size_t call_of_launch(const std::string& code, const PythonLaunch& launch) {
  const std::string module(launch.module), name(launch.name);
  if (const size_t at = call_of(code, module + "." + name); at != std::string::npos) return at;
  const std::string base = name.substr(0, name.find('.'));
  const std::string own = imported_as(code, module, base);
  return own.empty() ? std::string::npos : call_of(code, own + name.substr(base.size()));
}

}  // namespace

std::optional<PastedLaunch> launch_of_other_python(const std::string& text) {
  const std::string code = code_of(text);
  for (const PythonLaunch& known : kPythonLaunches) {
    const size_t at = call_of_launch(code, known);
    if (at == std::string::npos) continue;
    PastedLaunch launch;
    launch.engine = known.engine;
    known.read({.text = text, .code = code, .at = at}, launch);
    return launch;
  }
  return std::nullopt;
}

}  // namespace plimsoll::cli
