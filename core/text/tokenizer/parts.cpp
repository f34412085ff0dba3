// The components of tokenizer.json, by their names in Hugging Face tokenizers.
#include <array>

#include "base/error.h"
#include "text/tokenizer/files.h"
#include "text/tokenizer/json_fields.h"

namespace plimsoll::text {
namespace {

constexpr size_t kMaxParts = 64;  // of one list

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

Pattern pattern_field(const Json& object) {
  const Json& pattern = field(object, "pattern");
  if (pattern.is_string()) return Pattern::literal(pattern.get<std::string>());
  if (present(pattern, "String")) return Pattern::literal(text_field(pattern, "String"));
  return Pattern::regex(text_field(pattern, "Regex"));
}

}  // namespace

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
  if (pair.size() != 2) throw ModelError(fmt::format("\"{}\" is not a token and its id", name));
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

}  // namespace plimsoll::text
