// Sources: common/arg.cpp, common/common.cpp and src/llama-context.cpp of llama.cpp 0c1e57098.
#include "engines/llamacpp/launch.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/amount.h"
#include "base/lower_case.h"
#include "base/rounding.h"
#include "base/split_text.h"
#include "engines/answer.h"

namespace plimsoll::engines::llamacpp {
namespace {

constexpr int64_t kPad = 256;  // cells of a cache are a multiple of it
constexpr int64_t kMostContext = int64_t{1} << 28;
constexpr int64_t kMostSequences = 256;  // LLAMA_MAX_SEQ

[[noreturn]] void refuse_value(const std::string& flag, const std::string& why) {
  throw Refusal{"arguments", fmt::format("error while handling argument \"{}\": {}", flag, why)};
}

template <typename Number>
Number number_of(const std::string& flag, std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    refuse_value(flag, fmt::format("invalid number: {}", text));
  return value;
}

/// on, off or auto, as llama.cpp spells them; nullopt: auto.
std::optional<bool> tristate(const std::string& flag, const std::string& text) {
  for (const char* word : {"on", "enabled", "true", "1"})
    if (text == word) return true;
  for (const char* word : {"off", "disabled", "false", "0"})
    if (text == word) return false;
  if (text == "auto" || text == "-1") return std::nullopt;
  refuse_value(flag, fmt::format("unknown value '{}' (on, off or auto)", text));
}

/// Flags that the programs do not know; they take no names cut short.
void check_names(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (is_value(word)) continue;
    const Flag* const flag = find_flag(flags(), word);
    const std::string names = flag == nullptr ? "" : "," + std::string(flag->names) + ",";
    if (names.find("," + word + ",") == std::string::npos)
      throw Refusal{"arguments", "error: invalid argument: " + word};
  }
}

class LaunchReader {
 public:
  explicit LaunchReader(const Question& question)
      : question_(question), line_(flags(), "llama-server", question.words) {}

  Launch read() {
    read_context();
    read_caches();
    read_split();
    read_placement(launch_, "");
    read_fit();
    read_companions();
    line_.add_notes(launch_.notes);
    return std::move(launch_);
  }

 private:
  [[nodiscard]] bool last_of(const char* on, const char* off, bool missing) const {
    return line_.has(off) ? false : line_.has(on) || missing;
  }

  /// A flag as the command line has it: "-ngl" of "--gpu-layers".
  [[nodiscard]] std::string typed(const std::string& key) const {
    for (const std::string& word : question_.words) {
      const Flag* const flag = is_value(word) ? nullptr : find_flag(flags(), word);
      if (flag != nullptr && split_text(flag->names, ",").front() == key)
        return word.substr(0, word.find('='));
    }
    return key;
  }

  [[nodiscard]] int64_t bounded(const std::string& flag, int64_t missing, int64_t least,
                                int64_t most) const {
    const int64_t value = line_.integer(flag, missing);
    if (value < least || value > most)
      refuse_value(typed(flag), fmt::format("{} is not from {} to {}", value, least, most));
    return value;
  }

  void read_context() {
    launch_.all_logits =
        tristate(typed("--fit-print"), line_.text("--fit-print", "off")).value_or(false);
    if (line_.has("--ctx-size")) launch_.context = bounded("--ctx-size", 0, 0, kMostContext);
    const int64_t parallel = bounded("--parallel", -1, -1, 1 << 20);
    const int64_t unset = launch_.all_logits ? 1 : 4;
    launch_.sequences = parallel > 0 ? parallel : unset;
    launch_.unified = last_of("--kv-unified", "--no-kv-unified", parallel <= 0);
    launch_.batch = bounded("--batch-size", 2048, 1, kMostContext);
    launch_.micro_batch = bounded("--ubatch-size", 512, 0, kMostContext);
    if (launch_.micro_batch == 0) launch_.micro_batch = launch_.batch;
    const bool asks_flash = line_.has("--flash-attn");
    const std::string flash = line_.text("--flash-attn", asks_flash ? "" : "auto");
    if (flash.empty()) {
      launch_.notes.emplace_back(
          "-fa without a value: on, as builds before September 2025 read it; later ones refuse it");
    }
    launch_.flash_attention =
        flash.empty() || tristate(typed("--flash-attn"), flash).value_or(true);
  }

  void read_caches() {
    launch_.full_windows = line_.has("--swa-full");
    launch_.caches_on_cards = last_of("--kv-offload", "--no-kv-offload", true);
    const std::string mode = line_.text("--load-mode", "auto");
    launch_.maps_file = !line_.has("--no-mmap") && (mode == "auto" || mode.starts_with("mmap"));
    launch_.pinned_host = !line_.has("--no-host");
    launch_.repacks = last_of("--repack", "--no-repack", true);
    launch_.offloads_products = last_of("--op-offload", "--no-op-offload", true);
  }

  void read_split() {
    const std::string split = line_.text("--split-mode", "layer");
    constexpr std::string_view kSplits[] = {"none", "layer", "row", "tensor"};
    const auto* const at = std::ranges::find(kSplits, split);
    if (at == std::end(kSplits)) refuse_value(typed("--split-mode"), "invalid value: " + split);
    launch_.split = static_cast<Split>(at - std::begin(kSplits));
    if (!line_.has("--tensor-split")) return;
    const std::string shares = line_.text("--tensor-split", "");
    for (const std::string_view share : split_text(shares, ",/"))
      launch_.shares.push_back(std::max(0.0F, number_of<float>(typed("--tensor-split"), share)));
  }

  [[nodiscard]] const GgmlTypeInfo* cache_type(const std::string& flag) const {
    constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
        {"f32", "F32"},   {"f16", "F16"},       {"bf16", "BF16"},
        {"q8_0", "Q8_0"}, {"q4_0", "Q4_0"},     {"q4_1", "Q4_1"},
        {"q5_0", "Q5_0"}, {"iq4_nl", "IQ4_NL"}, {"q5_1", "Q5_1"}};
    const std::string name = line_.text(flag, "f16");
    for (const auto& [theirs, ggml] : kTypes)
      if (name == theirs) return find_ggml_type(ggml);
    refuse_value(typed(flag), "Unsupported cache type: " + name);
  }

  /// Where a model's layers, tensors and caches lie. `whose`: "", or "-draft".
  void read_placement(Launch& launch, const std::string& whose) const {
    launch.key_type = cache_type("--cache-type-k" + whose);
    launch.value_type = cache_type("--cache-type-v" + whose);
    const std::string flag = "--gpu-layers" + whose;
    const std::string layers = line_.text(flag, "auto");
    const bool all = layers == "auto" || layers == "all";
    launch.gpu_layers = all ? -1 : number_of<int>(typed(flag), layers);
    read_cards(launch, "--device" + whose, !whose.empty());
    read_overrides(launch, whose);
  }

  /// -dev and -sm none choose among the cards. A draft model has the target's but for -devd; one
  /// card of its own is split by layers.
  void read_cards(Launch& launch, const std::string& flag, bool drafts) const {
    if (drafts && !line_.has(flag)) return;
    launch.cards = question_.cards;
    if (line_.has(flag)) {
      launch.cards.clear();
      const std::string devices = line_.text(flag, "");
      for (const std::string_view name : split_text(devices, ",")) {
        if (name == "none") break;
        launch.cards.push_back(card_named(flag, std::string(name)));
      }
    }
    if (drafts && launch.cards.size() == 1) launch.split = Split::layer;
    if (launch.split != Split::none || launch.cards.empty()) return;
    const int64_t main = line_.integer("--main-gpu", 0);
    if (main < 0 || main >= static_cast<int64_t>(launch.cards.size())) {
      throw Refusal{"model",
                    fmt::format("llama_model_load_from_file_impl: invalid value for main_gpu: {} "
                                "(available devices: {})",
                                main, launch.cards.size())};
    }
    launch.cards = {launch.cards[static_cast<size_t>(main)]};
    launch.shares.clear();
  }

  [[nodiscard]] Card card_named(const std::string& flag, const std::string& name) const {
    for (const Card& card : question_.cards)
      if (card.name == name) return card;
    refuse_value(typed(flag), "invalid device: " + name);
  }

  /// The place of a buffer type's name among the cards, or the host.
  static int device_named(const Launch& launch, const std::string& flag, const std::string& name) {
    for (size_t i = 0; i < launch.cards.size(); ++i)
      if (launch.cards[i].name == name) return static_cast<int>(i);
    if (name == "CPU") return kHost;
    refuse_value(flag, "unknown buffer type " + name);
  }

  static void add_override(Launch& launch, const std::string& flag, const std::string& pattern,
                           int device) {
    try {
      launch.overrides.push_back({std::regex(pattern), 0, device});
    } catch (const std::regex_error&) {
      refuse_value(flag, "invalid regular expression " + pattern);
    }
  }

  void read_overrides(Launch& launch, const std::string& whose) const {
    const std::string key = "--override-tensor" + whose, flag = typed(key);
    for (const std::string& list : line_.texts(key)) {
      for (const std::string_view piece : split_text(list, ",")) {
        const std::string part(piece);
        const size_t equals = part.find('=');
        if (equals == std::string::npos) refuse_value(flag, "invalid value");
        const int device = device_named(launch, flag, part.substr(equals + 1));
        add_override(launch, flag, part.substr(0, equals), device);
      }
    }
    if (line_.has("--cpu-moe" + whose))
      launch.overrides.push_back({std::nullopt, kMostLayers, kHost});
    if (const int64_t layers = bounded("--n-cpu-moe" + whose, 0, 0, 1 << 16); layers > 0)
      launch.overrides.push_back({std::nullopt, layers, kHost});
  }

  /// Files that are loaded beside the model.
  void read_companions() {
    launch_.projector = line_.has("--no-mmproj") ? "" : line_.text("--mmproj", "");
    launch_.projector_on_card = last_of("--mmproj-offload", "--no-mmproj-offload", true);
    launch_.adapters = scaled_files("--lora");
    launch_.control_vectors = scaled_files("--control-vector");
    if (!line_.has("--model-draft")) return;
    Launch draft = launch_;
    draft.file = line_.text("--model-draft", "");
    draft.overrides.clear();
    draft.notes.clear();
    read_placement(draft, "-draft");
    launch_.draft.push_back(std::move(draft));
  }

  /// Files of a flag and of its form with scales: FILE, FILE:SCALE, or the SCALE behind a FILE of
  /// older builds.
  [[nodiscard]] std::vector<std::string> scaled_files(const std::string& flag) const {
    const auto is_number = [](std::string_view text) {
      return !text.empty() && text.find_first_not_of("0123456789.-") == std::string_view::npos;
    };
    std::vector<std::string> files;
    for (const std::string& key : {flag, flag + "-scaled"}) {
      for (const std::string& list : line_.texts(key)) {
        for (const std::string_view word : split_text(list, ",")) {
          if (word.empty() || is_number(word)) continue;
          const size_t colon = word.rfind(':');
          const bool scaled = colon != std::string_view::npos && is_number(word.substr(colon + 1));
          files.emplace_back(word.substr(0, scaled ? colon : word.size()));
        }
      }
    }
    return files;
  }

  void read_fit() {
    launch_.fits = tristate(typed("--fit"), line_.text("--fit", "on")).value_or(true);
    launch_.least_context = bounded("--fit-ctx", 4096, 1, kMostContext);
    std::vector<int64_t> margins;
    const std::string targets = line_.text("--fit-target", "1024");
    for (const std::string_view margin : split_text(targets, ",/"))
      margins.push_back(
          std::clamp<int64_t>(number_of<int64_t>(typed("--fit-target"), margin), 0, 1 << 30));
    for (size_t i = 0; i < launch_.cards.size(); ++i) {
      const size_t given = margins.size() == 1 ? 0 : i;
      launch_.margins.push_back((given < margins.size() ? margins[given] : 1024) * kMiB);
    }
  }

  const Question& question_;
  CommandLine line_;
  Launch launch_;
};

void check_blocks(const GgmlTypeInfo& type, const Shape& shape, int64_t Layer::*head,
                  const char* kind) {
  for (const Layer& layer : shape.layers) {
    if (!type.is_packed() || layer.*head % type.values == 0) continue;
    const std::string name = type_name(type);
    throw Refusal{"arguments",
                  fmt::format("llama_init_from_model: {} cache type {} with block size {} does not "
                              "divide n_embd_head_{}={}",
                              kind, name, type.values, kind[0] == 'K' ? "k" : "v", layer.*head)};
  }
}

}  // namespace

bool Override::names(const Weight& weight) const {
  if (pattern) return std::regex_search(weight.tensor->name, *pattern);
  const bool within = weight.layer >= 0 && weight.layer < expert_layers;
  return within && weight.expert && weight.part != MlpPart::none && weight.part != MlpPart::other;
}

std::string type_name(const GgmlTypeInfo& type) {
  return lower_case(std::string(type.name));
}

int64_t Launch::sequence_context(int64_t tokens) const {
  return round_up(std::max<int64_t>(1, tokens / streams()), kPad);
}

int64_t Launch::whole_context(int64_t tokens) const {
  return sequence_context(tokens) * streams();
}

int64_t Launch::asked_context(const Shape& shape) const {
  if (context && *context > 0) return *context;
  return std::min(shape.context * streams(), int64_t{1} << 30);
}

int64_t Launch::batch_of(int64_t tokens) const {
  return std::min(batch, whole_context(tokens));
}

int64_t Launch::micro_batch_of(int64_t tokens) const {
  return std::min(micro_batch, batch_of(tokens));
}

Launch read_launch(const Question& question) {
  check_names(question.words);
  return LaunchReader(question).read();
}

void apply_overrides(const Launch& launch, Shape& shape) {
  for (Weight& weight : shape.weights) {
    for (const Override& row : launch.overrides) {
      if (!row.names(weight)) continue;
      weight.sent_to = row.device;
      break;
    }
  }
}

void check_launch(const Launch& launch, const Shape& shape) {
  if (launch.split == Split::row && !launch.cards.empty()) {
    throw Refusal{"model", fmt::format("llama_model_load: error loading model: device {} does not "
                                       "support split buffers",
                                       launch.cards.front().name)};
  }
  if (launch.sequences > kMostSequences) {
    throw Refusal{"arguments",
                  "llama_init_from_model: failed to initialize the context: n_seq_max must be <= "
                  "256"};
  }
  if (launch.flash_attention) {
    check_blocks(*launch.key_type, shape, &Layer::key_head, "K");
    check_blocks(*launch.value_type, shape, &Layer::value_head, "V");
  } else if (launch.value_type->is_packed()) {
    throw Refusal{"arguments",
                  "llama_init_from_model: quantized V cache requires flash_attn to be enabled"};
  }
  if (shape.latent && launch.key_type != launch.value_type) {
    throw Refusal{"arguments",
                  fmt::format("llama_init_from_model: model does not support different K ({}) and "
                              "V ({}) cache types",
                              type_name(*launch.key_type), type_name(*launch.value_type))};
  }
}

}  // namespace plimsoll::engines::llamacpp
