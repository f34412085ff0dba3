#include "text/tokenizer/config.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "text/tokenizer/files.h"
#include "text/tokenizer/json_fields.h"

namespace plimsoll::text {
namespace {

constexpr size_t kMaxConfig = size_t{64} << 20;
constexpr std::array<const char*, 7> kNamedTokens = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

Json read_if_present(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return Json::object();
  Json json = read_json_file(file, kMaxConfig);
  if (!json.is_object())
    fail(ExitCode::checkpoint_unusable, "{}: not a JSON object", file.string());
  return json;
}

// tokenizer_config.json, completed by special_tokens_map.json where the older of the two formats is
// in use.
Json merged_config(const std::filesystem::path& folder) {
  Json config = read_if_present(folder / "tokenizer_config.json");
  if (!config.contains("added_tokens_decoder")) {
    const Json map = read_if_present(folder / "special_tokens_map.json");
    for (const auto& [key, value] : map.items()) config[key] = value;
  }
  return config;
}

// A token is a text or an object with "content" and flags.
std::optional<AddedToken> parse_token(const Json& json) {
  AddedToken token;
  token.special = true;
  token.normalized = false;
  if (json.is_string()) {
    token.content = json.get<std::string>();
    return token;
  }
  if (!json.is_object() || !json.contains("content") || !json.at("content").is_string())
    return std::nullopt;
  token = parse_added_tokens(Json::array({json})).front();
  if (!json.contains("special")) token.special = true;
  return token;
}

std::optional<bool> optional_flag(const Json& config, const char* name) {
  const auto found = config.find(name);
  if (found == config.end() || !found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

std::string without_fast(std::string name) {
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

std::string class_of_model(const std::filesystem::path& folder) {
  const Json config = read_if_present(folder / "config.json");
  const auto text = [&](const char* name) {
    return config.contains(name) && config.at(name).is_string() ? config.at(name).get<std::string>()
                                                                : std::string();
  };
  if (const std::string named = text("tokenizer_class"); !named.empty()) return without_fast(named);
  const std::string type = text("model_type");
  if (type.starts_with("qwen2") || type.starts_with("qwen3")) return "Qwen2Tokenizer";
  if (type == "roberta") return "RobertaTokenizer";
  if (type == "clip") return "CLIPTokenizer";
  if (type == "llama" || type == "mistral" || type == "mixtral") return "LlamaTokenizer";
  if (type == "internlm2") return "InternLM2Tokenizer";
  if (type.starts_with("gemma")) return "GemmaTokenizer";
  // GPT-2's folder once held these two files and nothing else.
  const bool bare = std::filesystem::exists(folder / "vocab.json") &&
                    !std::filesystem::exists(folder / "tokenizer.json");
  return bare ? "GPT2Tokenizer" : "";
}

void read_added_tokens_decoder(const Json& decoder, TokenizerConfig& config) {
  for (const auto& [key, value] : decoder.items()) {
    TokenId id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= kMaxTokens) {
      throw ModelError(
          fmt::format("added_tokens_decoder: '{}' is no id below {}", key, kMaxTokens));
    }
    config.added.emplace_back(id, parse_added_tokens(Json::array({value})).front());
  }
}

// added_tokens.json: an object from token to id, flags unknown.
void read_added_tokens_file(const std::filesystem::path& file, TokenizerConfig& config) {
  const Json added = read_if_present(file);
  const auto is_special = [&](const std::string& content) {
    const auto same = [&](const AddedToken& token) { return token.content == content; };
    return std::ranges::any_of(config.named,
                               [&](const auto& entry) { return same(entry.second); }) ||
           std::ranges::any_of(config.extra, same);
  };
  with_file_name(file, [&] {
    for (const auto& [content, id] : added.items()) {
      AddedToken token;
      token.content = content;
      token.special = is_special(content);
      token.normalized = !token.special;
      config.added.emplace_back(id_field(id, content), std::move(token));
    }
  });
}

void read_special_tokens(const Json& json, TokenizerConfig& config) {
  for (const char* name : kNamedTokens) {
    if (!json.contains(name)) continue;
    if (auto token = parse_token(json.at(name))) config.named[name] = std::move(*token);
  }
  for (const char* name : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!json.contains(name)) continue;
    const Json& list = json.at(name);
    if (!list.is_array() && !list.is_object()) continue;
    for (const auto& entry : list) {
      if (auto token = parse_token(entry)) config.extra.push_back(std::move(*token));
    }
  }
}

// Special tokens of transformers' classes where the files are silent.
struct ClassDefaults {
  const char* tokenizer_class;
  const char* bos;
  const char* eos;
  const char* unk;
};
constexpr std::array<ClassDefaults, 6> kClassDefaults = {{
    {"LlamaTokenizer", "<s>", "</s>", "<unk>"},
    {"CodeLlamaTokenizer", "<s>", "</s>", "<unk>"},
    {"InternLM2Tokenizer", "<s>", "</s>", "<unk>"},
    {"GemmaTokenizer", "<bos>", "<eos>", "<unk>"},
    {"GPT2Tokenizer", "<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
    {"Qwen2Tokenizer", nullptr, "<|endoftext|>", "<|endoftext|>"},
}};

void add_class_defaults(const std::string& tokenizer_class, Json& config) {
  for (const auto& [name, bos, eos, unk] : kClassDefaults) {
    if (tokenizer_class != name) continue;
    const auto set = [&](const char* key, const char* value) {
      if (value && !config.contains(key)) config[key] = value;
    };
    set("bos_token", bos);
    set("eos_token", eos);
    set("unk_token", unk);
  }
}

std::string class_named_in(const Json& config) {
  const auto found = config.find("tokenizer_class");
  return found != config.end() && found->is_string() ? without_fast(found->get<std::string>())
                                                     : std::string();
}

}  // namespace

const AddedToken* TokenizerConfig::find_named(const std::string& name) const {
  const auto found = named.find(name);
  return found == named.end() ? nullptr : &found->second;
}

TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder) {
  TokenizerConfig config;
  Json json = merged_config(folder);
  with_file_name(folder / "tokenizer_config.json", [&] {
    config.tokenizer_class = class_named_in(json);
    if (config.tokenizer_class.empty()) config.tokenizer_class = class_of_model(folder);
    config.add_bos_token = optional_flag(json, "add_bos_token");
    config.add_eos_token = optional_flag(json, "add_eos_token");
    config.add_prefix_space = optional_flag(json, "add_prefix_space");
    config.legacy = optional_flag(json, "legacy");
    add_class_defaults(config.tokenizer_class, json);
    read_special_tokens(json, config);
    if (json.contains("added_tokens_decoder"))
      read_added_tokens_decoder(json.at("added_tokens_decoder"), config);
  });
  if (!json.contains("added_tokens_decoder"))
    read_added_tokens_file(folder / "added_tokens.json", config);
  std::ranges::sort(config.added, {}, &std::pair<TokenId, AddedToken>::first);
  // A special token that is listed with its flags has those.
  for (auto& [name, token] : config.named) {
    for (auto& [id, listed] : config.added) {
      if (listed.content != token.content) continue;
      listed.special = true;
      token = listed;
    }
  }
  return config;
}

void add_config_tokens(const TokenizerConfig& config, AddedIds ids, Pipeline& tokenizer) {
  const Normalizer* normalizer = tokenizer.normalizer.get();
  std::vector<AddedToken> tokens;
  for (const auto& [id, token] : config.added) {
    if (token.content.empty()) continue;
    const bool known =
        tokenizer.added.find(token.content) || tokenizer.model->vocabulary().find(token.content);
    if (ids == AddedIds::as_listed && !known) {
      tokenizer.added.add_at(id, token, normalizer);
    } else {
      tokens.push_back(token);
    }
  }
  const auto add_special = [&](const AddedToken& token) {
    const auto id = tokenizer.added.find(token.content);
    const AddedToken* before = id ? tokenizer.added.token(*id) : nullptr;
    if (before && before->special) return;
    AddedToken special = before ? *before : token;
    special.special = true;
    tokens.push_back(std::move(special));
  };
  tokenizer.added.add(std::move(tokens), *tokenizer.model, normalizer);
  tokens.clear();
  for (const auto& [name, token] : config.named) add_special(token);
  for (const AddedToken& token : config.extra) add_special(token);
  tokenizer.added.add(std::move(tokens), *tokenizer.model, normalizer);
}

void set_bos_eos(const TokenizerConfig& config, bool add_bos, bool add_eos, Pipeline& tokenizer) {
  const auto token_piece = [&](const char* name) -> std::optional<TemplatePiece> {
    const AddedToken* token = config.find_named(name);
    if (!token) return std::nullopt;
    auto id = tokenizer.added.find(token->content);
    if (!id) id = tokenizer.model->vocabulary().find(token->content);
    if (!id) return std::nullopt;
    return TemplatePiece{TemplatePiece::Kind::tokens, {*id}};
  };
  TemplateStep step;
  if (const auto bos = add_bos ? token_piece("bos_token") : std::nullopt)
    step.single.push_back(*bos);
  step.single.push_back({TemplatePiece::Kind::sequence_a, {}});
  if (const auto eos = add_eos ? token_piece("eos_token") : std::nullopt)
    step.single.push_back(*eos);
  tokenizer.post_processor = {};
  tokenizer.post_processor.add(std::move(step));
}

std::map<std::string, std::string> special_token_texts(const std::filesystem::path& folder) {
  std::map<std::string, std::string> texts;
  Json json = merged_config(folder);
  add_class_defaults(class_named_in(json), json);
  for (const auto& [key, value] : json.items()) {
    if (!key.ends_with("_token")) continue;
    if (value.is_string()) texts[key] = value.get<std::string>();
    if (value.is_object() && value.contains("content") && value.at("content").is_string()) {
      texts[key] = value.at("content").get<std::string>();
    }
  }
  // Models name further tokens of their own here: "image_token": "<image>".
  if (json.contains("extra_special_tokens") && json.at("extra_special_tokens").is_object()) {
    for (const auto& [key, value] : json.at("extra_special_tokens").items()) {
      if (value.is_string()) texts[key] = value.get<std::string>();
    }
  }
  return texts;
}

}  // namespace plimsoll::text
