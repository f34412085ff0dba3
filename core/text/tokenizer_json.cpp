// The parts of tokenizer.json, by their names in Hugging Face tokenizers.
#include <array>

#include "base/error.h"
#include "text/tokenizer_files.h"
#include "text/unicode.h"

namespace plimsoll::text {

const Json& field(const Json& object, const char* name) {
  if (!object.is_object()) throw ModelError(fmt::format("an object with \"{}\" is expected", name));
  const auto found = object.find(name);
  if (found == object.end()) throw ModelError(fmt::format("\"{}\" is missing", name));
  return *found;
}

std::string decode_base64(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    uint32_t value = 0;
    if (c >= 'A' && c <= 'Z')
      value = static_cast<uint32_t>(c - 'A');
    else if (c >= 'a' && c <= 'z')
      value = static_cast<uint32_t>(c - 'a' + 26);
    else if (c >= '0' && c <= '9')
      value = static_cast<uint32_t>(c - '0' + 52);
    else if (c == '+')
      value = 62;
    else if (c == '/')
      value = 63;
    else if (c == '=')
      break;
    else
      throw ModelError("not base64");
    bits = bits << 6 | value;
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return bytes;
}

namespace {

[[noreturn]] void wrong(const char* name, const char* kind) {
  throw ModelError(fmt::format("\"{}\" is not {}", name, kind));
}

bool present(const Json& object, const char* name) {
  return object.is_object() && object.contains(name) && !object.at(name).is_null();
}

std::string type_of(const Json& json) {
  return present(json, "type") ? text_field(json, "type") : std::string();
}

const Json& list_field(const Json& object, const char* name) {
  const Json& list = field(object, name);
  if (!list.is_array()) wrong(name, "a list");
  return list;
}

// Adds the component's place to what is wrong with it.
template <typename Parse>
auto within(const std::string& place, Parse&& parse) {
  try {
    return parse();
  } catch (const RegexError& error) {
    throw ModelError(place + ": " + error.what());
  } catch (const ModelError& error) {
    throw ModelError(place + ": " + error.what());
  }
}

constexpr size_t kMaxParts = 64;        // of one list
constexpr size_t kMaxComponents = 256;  // in a file

template <typename Each>
void for_each_part(const Json& object, const char* name, Each&& each) {
  size_t index = 0;
  if (list_field(object, name).size() > kMaxParts) {
    throw ModelError(fmt::format("\"{}\" has more than {} parts", name, kMaxParts));
  }
  for (const Json& part : list_field(object, name)) {
    within(fmt::format("{}[{}]", name, index++), [&] { each(part); });
  }
}

SplitBehavior behavior(const Json& object) {
  static const std::array<std::pair<const char*, SplitBehavior>, 5> names = {
      {{"Removed", SplitBehavior::removed},
       {"Isolated", SplitBehavior::isolated},
       {"MergedWithPrevious", SplitBehavior::merged_with_previous},
       {"MergedWithNext", SplitBehavior::merged_with_next},
       {"Contiguous", SplitBehavior::contiguous}}};
  const std::string given = text_field(object, "behavior");
  for (const auto& [name, value] : names) {
    if (given == name) return value;
  }
  throw ModelError(fmt::format("\"behavior\" is unknown: '{}'", given));
}

PrependScheme prepend_scheme(const Json& json) {
  if (present(json, "prepend_scheme")) {
    const std::string scheme = text_field(json, "prepend_scheme");
    if (scheme == "first") return PrependScheme::first;
    if (scheme == "never") return PrependScheme::never;
    if (scheme == "always") return PrependScheme::always;
    throw ModelError(fmt::format("\"prepend_scheme\" is unknown: '{}'", scheme));
  }
  return flag_field(json, "add_prefix_space", true) ? PrependScheme::always : PrependScheme::never;
}

}  // namespace

std::string text_field(const Json& object, const char* name) {
  const Json& value = field(object, name);
  if (!value.is_string()) wrong(name, "a text");
  return value.get<std::string>();
}

bool flag_field(const Json& object, const char* name, bool absent) {
  if (!present(object, name)) return absent;
  const Json& value = object.at(name);
  if (!value.is_boolean()) wrong(name, "true or false");
  return value.get<bool>();
}

size_t size_field(const Json& object, const char* name) {
  const Json& value = field(object, name);
  if (!value.is_number_unsigned()) wrong(name, "a whole number");
  return value.get<size_t>();
}

TokenId id_field(const Json& json, const std::string& where) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() >= static_cast<uint64_t>(kMaxTokens)) {
    throw ModelError(fmt::format("{}: an id is a whole number below {}, not {}", where, kMaxTokens,
                                 json.dump()));
  }
  return json.get<TokenId>();
}

char32_t character_field(const Json& object, const char* name) {
  const std::string text = text_field(object, name);
  size_t at = 0;
  if (text.empty() || utf8_length(text[0]) != text.size()) wrong(name, "one character");
  return next_character(text, at);
}

Pattern pattern_field(const Json& object) {
  const Json& pattern = field(object, "pattern");
  if (pattern.is_string()) return Pattern::literal(pattern.get<std::string>());
  if (present(pattern, "String")) return Pattern::literal(text_field(pattern, "String"));
  return Pattern::regex(text_field(pattern, "Regex"));
}

std::unique_ptr<Normalizer> parse_normalizer(const Json& json) {
  if (json.is_null()) return nullptr;
  const std::string type = type_of(json);
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Normalizer>> parts;
    for_each_part(json, "normalizers", [&](const Json& part) {
      if (auto normalizer = parse_normalizer(part)) parts.push_back(std::move(normalizer));
    });
    return make_normalizer_sequence(std::move(parts));
  }
  if (type == "NFC") return make_unicode_normalizer(UnicodeForm::nfc);
  if (type == "NFD") return make_unicode_normalizer(UnicodeForm::nfd);
  if (type == "NFKC") return make_unicode_normalizer(UnicodeForm::nfkc);
  if (type == "NFKD") return make_unicode_normalizer(UnicodeForm::nfkd);
  if (type == "Lowercase") return make_lowercase();
  if (type == "Strip") {
    return make_strip(
        {flag_field(json, "strip_left", true), flag_field(json, "strip_right", true)});
  }
  if (type == "StripAccents") return make_strip_accents();
  if (type == "Nmt") return make_nmt();
  if (type == "Replace") return make_replace(pattern_field(json), text_field(json, "content"));
  if (type == "Prepend") return make_prepend(text_field(json, "prepend"));
  if (type == "ByteLevel") return make_byte_level_normalizer();
  if (type == "Precompiled")
    return make_precompiled(decode_base64(text_field(json, "precompiled_charsmap")));
  if (type == "BertNormalizer") {
    BertNormalizerOptions options;
    options.clean_text = flag_field(json, "clean_text", true);
    options.handle_chinese_chars = flag_field(json, "handle_chinese_chars", true);
    if (present(json, "strip_accents"))
      options.strip_accents = flag_field(json, "strip_accents", false);
    options.lowercase = flag_field(json, "lowercase", true);
    return make_bert_normalizer(options);
  }
  throw ModelError(fmt::format("normalizer of unknown type '{}'", type));
}

std::unique_ptr<PreTokenizer> parse_pre_tokenizer(const Json& json) {
  if (json.is_null()) return nullptr;
  const std::string type = type_of(json);
  if (type == "Sequence") {
    std::vector<std::unique_ptr<PreTokenizer>> parts;
    for_each_part(json, "pretokenizers", [&](const Json& part) {
      if (auto pre_tokenizer = parse_pre_tokenizer(part)) parts.push_back(std::move(pre_tokenizer));
    });
    return make_pre_tokenizer_sequence(std::move(parts));
  }
  if (type == "ByteLevel") {
    return make_byte_level(
        {flag_field(json, "add_prefix_space", true), flag_field(json, "use_regex", true)});
  }
  if (type == "Split") {
    return make_split(pattern_field(json), behavior(json),
                      flag_field(json, "invert", false) ? SplitOn::gaps : SplitOn::matches);
  }
  if (type == "Metaspace") {
    return make_metaspace({character_field(json, "replacement"), prepend_scheme(json),
                           flag_field(json, "split", true)});
  }
  if (type == "BertPreTokenizer") return make_bert_pre_tokenizer();
  if (type == "Whitespace") return make_whitespace();
  if (type == "WhitespaceSplit") return make_whitespace_split();
  if (type == "Digits") {
    return make_digits(flag_field(json, "individual_digits", false) ? DigitGroups::individual
                                                                    : DigitGroups::whole);
  }
  if (type == "Punctuation") {
    return make_punctuation(present(json, "behavior") ? behavior(json) : SplitBehavior::isolated);
  }
  if (type == "CharDelimiterSplit" || type == "Delimiter") {
    return make_char_delimiter_split(character_field(json, "delimiter"));
  }
  if (type == "UnicodeScripts") return make_unicode_scripts();
  if (type == "FixedLength") {
    const size_t length = present(json, "length") ? size_field(json, "length") : 5;
    if (length == 0) throw ModelError("\"length\" is 0");
    return make_fixed_length(length);
  }
  throw ModelError(fmt::format("pre-tokenizer of unknown type '{}'", type));
}

void parse_decoder(const Json& json, Decoder& decoder) {
  if (json.is_null()) return;
  const std::string type = type_of(json);
  if (type == "Sequence") {
    for_each_part(json, "decoders", [&](const Json& part) { parse_decoder(part, decoder); });
  } else if (type == "ByteLevel") {
    decoder.add(ByteLevelDecode{});
  } else if (type == "ByteFallback") {
    decoder.add(ByteFallbackDecode{});
  } else if (type == "Fuse") {
    decoder.add(FuseDecode{});
  } else if (type == "Strip") {
    decoder.add(StripDecode{character_field(json, "content"), size_field(json, "start"),
                            size_field(json, "stop")});
  } else if (type == "Metaspace") {
    decoder.add(MetaspaceDecode{character_field(json, "replacement"),
                                prepend_scheme(json) != PrependScheme::never});
  } else if (type == "WordPiece") {
    decoder.add(WordPieceDecode{text_field(json, "prefix"), flag_field(json, "cleanup", true)});
  } else if (type == "BPEDecoder") {
    decoder.add(BpeDecode{text_field(json, "suffix")});
  } else if (type == "CTC") {
    decoder.add(CtcDecode{text_field(json, "pad_token"), text_field(json, "word_delimiter_token"),
                          flag_field(json, "cleanup", true)});
  } else if (type == "Replace") {
    decoder.add(ReplaceDecode{pattern_field(json), text_field(json, "content")});
  } else {
    throw ModelError(fmt::format("decoder of unknown type '{}'", type));
  }
}

namespace {

std::vector<TemplatePiece> template_pieces(const Json& json, const char* name) {
  std::vector<TemplatePiece> pieces;
  for_each_part(json, name, [&](const Json& part) {
    if (present(part, "Sequence")) {
      const bool first = text_field(part.at("Sequence"), "id") == "A";
      pieces.push_back(
          {first ? TemplatePiece::Kind::sequence_a : TemplatePiece::Kind::sequence_b, {}});
      return;
    }
    const std::string id = text_field(field(part, "SpecialToken"), "id");
    const Json& tokens = field(json, "special_tokens");
    TemplatePiece piece{TemplatePiece::Kind::tokens, {}};
    for (const Json& value : list_field(field(tokens, id.c_str()), "ids")) {
      piece.ids.push_back(id_field(value, "special token " + id));
    }
    pieces.push_back(std::move(piece));
  });
  return pieces;
}

TokenId paired_id(const Json& json, const char* name) {
  const Json& pair = list_field(json, name);
  if (pair.size() != 2) wrong(name, "a token and its id");
  return id_field(pair[1], name);
}

}  // namespace

void parse_post_processor(const Json& json, PostProcessor& post_processor) {
  if (json.is_null()) return;
  const std::string type = type_of(json);
  if (type == "Sequence") {
    for_each_part(json, "processors",
                  [&](const Json& part) { parse_post_processor(part, post_processor); });
  } else if (type == "TemplateProcessing") {
    post_processor.add(
        TemplateStep{template_pieces(json, "single"), template_pieces(json, "pair")});
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    post_processor.add(
        ClsSepStep{paired_id(json, "cls"), paired_id(json, "sep"), type == "RobertaProcessing"});
  } else if (type != "ByteLevel") {  // which moves offsets only
    throw ModelError(fmt::format("post-processor of unknown type '{}'", type));
  }
}

std::vector<AddedToken> parse_added_tokens(const Json& json) {
  std::vector<AddedToken> tokens;
  if (json.is_null()) return tokens;
  if (!json.is_array()) throw ModelError("\"added_tokens\" is not a list");
  for (size_t i = 0; i < json.size(); ++i) {
    within(fmt::format("added_tokens[{}]", i), [&] {
      AddedToken token;
      token.content = text_field(json[i], "content");
      token.single_word = flag_field(json[i], "single_word", false);
      token.lstrip = flag_field(json[i], "lstrip", false);
      token.rstrip = flag_field(json[i], "rstrip", false);
      token.special = flag_field(json[i], "special", false);
      token.normalized = flag_field(json[i], "normalized", !token.special);
      if (json[i].contains("id")) id_field(json[i].at("id"), "id");
      tokens.push_back(std::move(token));
    });
  }
  return tokens;
}

namespace {

// Files from before the models had types are told apart by their fields.
std::string model_type(const Json& model, const TokenizerDocument& document) {
  if (const std::string type = type_of(model); !type.empty()) return type;
  if (document.has_merges) return "BPE";
  if (present(model, "max_input_chars_per_word")) return "WordPiece";
  if (!document.pieces.empty()) return "Unigram";
  return "WordLevel";
}

std::string optional_text(const Json& object, const char* name) {
  return present(object, name) ? text_field(object, name) : std::string();
}

std::unique_ptr<Model> parse_model(const Json& model, TokenizerDocument& document) {
  if (!model.is_object()) throw ModelError("an object is expected");
  if (!document.has_vocabulary) throw ModelError("\"vocab\" is missing");
  const std::string type = model_type(model, document);
  if (type == "BPE") {
    if (!document.has_merges) throw ModelError("\"merges\" is missing or no list");
    BpeOptions options;
    if (present(model, "unk_token")) options.unk_token = text_field(model, "unk_token");
    options.continuing_subword_prefix = optional_text(model, "continuing_subword_prefix");
    options.end_of_word_suffix = optional_text(model, "end_of_word_suffix");
    options.fuse_unk = flag_field(model, "fuse_unk", false);
    options.byte_fallback = flag_field(model, "byte_fallback", false);
    options.ignore_merges = flag_field(model, "ignore_merges", false);
    return make_bpe(std::move(document.vocabulary), document.merges, std::move(options));
  }
  if (type == "WordPiece") {
    return make_word_piece(std::move(document.vocabulary), text_field(model, "unk_token"),
                           text_field(model, "continuing_subword_prefix"),
                           size_field(model, "max_input_chars_per_word"));
  }
  if (type == "WordLevel")
    return make_word_level(std::move(document.vocabulary), text_field(model, "unk_token"));
  if (type == "Unigram") {
    std::optional<size_t> unk_id;
    if (present(model, "unk_id")) unk_id = size_field(model, "unk_id");
    return make_unigram(std::move(document.pieces), unk_id,
                        flag_field(model, "byte_fallback", false));
  }
  throw ModelError(fmt::format("model of unknown type '{}'", type));
}

}  // namespace

namespace {

size_t count_components(const Json& json) {
  size_t count = json.is_object() && json.contains("type") ? 1 : 0;
  if (json.is_structured()) {
    for (const Json& part : json) count += count_components(part);
  }
  return count;
}

}  // namespace

void load_tokenizer_json(const std::filesystem::path& file, Pipeline& tokenizer) {
  TokenizerDocument document = read_tokenizer_document(file);
  const Json& root = document.root;
  const auto part = [&](const char* name) -> const Json& {
    static const Json absent;
    return present(root, name) ? root.at(name) : absent;
  };
  with_file_name(file, [&] {
    if (!root.is_object()) throw ModelError("not a JSON object");
    for (const char* name : {"normalizer", "pre_tokenizer", "decoder", "post_processor"}) {
      if (count_components(part(name)) <= kMaxComponents) continue;
      throw ModelError(fmt::format("{}: more than {} components", name, kMaxComponents));
    }
    tokenizer.model = within("model", [&] { return parse_model(part("model"), document); });
    tokenizer.normalizer =
        within("normalizer", [&] { return parse_normalizer(part("normalizer")); });
    tokenizer.pre_tokenizer =
        within("pre_tokenizer", [&] { return parse_pre_tokenizer(part("pre_tokenizer")); });
    within("decoder", [&] { parse_decoder(part("decoder"), tokenizer.decoder); });
    if (tokenizer.decoder.empty() && part("decoder").is_null())
      tokenizer.decoder.add(SpacedDecode{});
    within("post_processor",
           [&] { parse_post_processor(part("post_processor"), tokenizer.post_processor); });
    tokenizer.added.add(parse_added_tokens(part("added_tokens")), *tokenizer.model,
                        tokenizer.normalizer.get());
  });
}

}  // namespace plimsoll::text
