// The components of tokenizer.json, by their names in Hugging Face tokenizers.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/tokenizer/files.h"
#include "text/tokenizer/json_fields.h"

namespace plimsoll::text {
namespace {

constexpr size_t kMaxParts = 64;  // of one list

// A type of component and its reader. `fields`: fields by which the reference recognises a
// component without a type, as in files from before components had types.
template <typename Made, typename... Into>
struct Component {
  using Read = Made (*)(const Json& json, Into...);
  Component(std::string_view name, Read reader, std::vector<const char*> known_by = {})
      : type(name), read(reader), fields(std::move(known_by)) {}
  std::string_view type;
  Read read;
  std::vector<const char*> fields;
};

template <typename Row>
const Row& row_of(const Json& json, const std::vector<Row>& rows, const char* kind) {
  const std::string type = type_of(json);
  const auto named = std::ranges::find(rows, type, &Row::type);
  if (named != rows.end()) return *named;
  const auto fits = std::ranges::find_if(rows, [&](const Row& row) {
    const auto given = [&](const char* field) { return present(json, field); };
    return !row.fields.empty() && std::ranges::all_of(row.fields, given);
  });
  if (fits != rows.end()) return *fits;
  throw ModelError(fmt::format("{} of unknown type '{}'", kind, type));
}

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

namespace {

using NormalizerPtr = std::unique_ptr<Normalizer>;

NormalizerPtr normalizer_sequence(const Json& json) {
  std::vector<NormalizerPtr> parts;
  for_each_part(json, "normalizers", [&](const Json& part) {
    if (auto normalizer = parse_normalizer(part)) parts.push_back(std::move(normalizer));
  });
  return make_normalizer_sequence(std::move(parts));
}

NormalizerPtr bert_normalizer(const Json& json) {
  BertNormalizerOptions options;
  options.clean_text = flag_field(json, "clean_text", true);
  options.handle_chinese_chars = flag_field(json, "handle_chinese_chars", true);
  if (present(json, "strip_accents"))
    options.strip_accents = flag_field(json, "strip_accents", false);
  options.lowercase = flag_field(json, "lowercase", true);
  return make_bert_normalizer(options);
}

template <UnicodeForm Form>
NormalizerPtr unicode_normalizer(const Json&) {
  return make_unicode_normalizer(Form);
}

}  // namespace

std::unique_ptr<Normalizer> parse_normalizer(const Json& json) {
  static const std::vector<Component<NormalizerPtr>> rows = {
      {"BertNormalizer", bert_normalizer, {"clean_text", "handle_chinese_chars", "lowercase"}},
      {"Bert", bert_normalizer},
      {"Strip",
       [](const Json& j) {
         return make_strip({flag_field(j, "strip_left", true), flag_field(j, "strip_right", true)});
       },
       {"strip_left", "strip_right"}},
      {"StripAccents", [](const Json&) { return make_strip_accents(); }},
      {"NFC", unicode_normalizer<UnicodeForm::nfc>},
      {"NFD", unicode_normalizer<UnicodeForm::nfd>},
      {"NFKC", unicode_normalizer<UnicodeForm::nfkc>},
      {"NFKD", unicode_normalizer<UnicodeForm::nfkd>},
      {"Sequence", normalizer_sequence, {"normalizers"}},
      {"Lowercase", [](const Json&) { return make_lowercase(); }},
      {"Nmt", [](const Json&) { return make_nmt(); }},
      {"Precompiled",
       [](const Json& j) {
         return make_precompiled(base64_bytes(text_field(j, "precompiled_charsmap")));
       },
       {"precompiled_charsmap"}},
      {"Replace",
       [](const Json& j) { return make_replace(pattern_field(j), text_field(j, "content")); },
       {"pattern", "content"}},
      {"Prepend",
       [](const Json& j) { return make_prepend(text_field(j, "prepend")); },
       {"prepend"}},
      {"ByteLevel", [](const Json&) { return make_byte_level_normalizer(); }}};
  if (json.is_null()) return nullptr;
  return row_of(json, rows, "normalizer").read(json);
}

namespace {

using PreTokenizerPtr = std::unique_ptr<PreTokenizer>;

PreTokenizerPtr pre_tokenizer_sequence(const Json& json) {
  std::vector<PreTokenizerPtr> parts;
  for_each_part(json, "pretokenizers", [&](const Json& part) {
    if (auto pre_tokenizer = parse_pre_tokenizer(part)) parts.push_back(std::move(pre_tokenizer));
  });
  return make_pre_tokenizer_sequence(std::move(parts));
}

PreTokenizerPtr split_pre_tokenizer(const Json& json) {
  return make_split(pattern_field(json), behavior(json),
                    flag_field(json, "invert", false) ? SplitOn::gaps : SplitOn::matches);
}

PreTokenizerPtr digits(const Json& json) {
  const bool individual = flag_field(json, "individual_digits", false);
  return make_digits(individual ? DigitGroups::individual : DigitGroups::whole);
}

PreTokenizerPtr fixed_length(const Json& json) {
  const size_t length = present(json, "length") ? size_field(json, "length") : 5;
  if (length == 0) throw ModelError("\"length\" is 0");
  return make_fixed_length(length);
}

}  // namespace

std::unique_ptr<PreTokenizer> parse_pre_tokenizer(const Json& json) {
  static const std::vector<Component<PreTokenizerPtr>> rows = {
      {"Sequence", pre_tokenizer_sequence},
      {"ByteLevel",
       [](const Json& j) {
         return make_byte_level(
             {flag_field(j, "add_prefix_space", true), flag_field(j, "use_regex", true)});
       }},
      {"Split", split_pre_tokenizer},
      {"Metaspace",
       [](const Json& j) {
         return make_metaspace(
             {character_field(j, "replacement"), prepend_scheme(j), flag_field(j, "split", true)});
       }},
      {"BertPreTokenizer", [](const Json&) { return make_bert_pre_tokenizer(); }},
      {"Whitespace", [](const Json&) { return make_whitespace(); }},
      {"WhitespaceSplit", [](const Json&) { return make_whitespace_split(); }},
      {"Digits", digits},
      {"Punctuation",
       [](const Json& j) {
         return make_punctuation(present(j, "behavior") ? behavior(j) : SplitBehavior::isolated);
       }},
      {"CharDelimiterSplit",
       [](const Json& j) { return make_char_delimiter_split(character_field(j, "delimiter")); }},
      {"UnicodeScripts", [](const Json&) { return make_unicode_scripts(); }},
      {"FixedLength", fixed_length}};
  if (json.is_null()) return nullptr;
  return row_of(json, rows, "pre-tokenizer").read(json);
}

void parse_decoder(const Json& json, Decoder& decoder) {
  static const std::vector<Component<void, Decoder&>> rows = {
      {"BPEDecoder",
       [](const Json& j, Decoder& to) { to.add(BpeDecode{text_field(j, "suffix")}); },
       {"suffix"}},
      {"ByteLevel", [](const Json&, Decoder& to) { to.add(ByteLevelDecode{}); }},
      {"WordPiece",
       [](const Json& j, Decoder& to) {
         to.add(WordPieceDecode{text_field(j, "prefix"), flag_field(j, "cleanup", true)});
       },
       {"prefix", "cleanup"}},
      {"Metaspace",
       [](const Json& j, Decoder& to) {
         to.add(MetaspaceDecode{character_field(j, "replacement"),
                                prepend_scheme(j) != PrependScheme::never});
       }},
      {"CTC",
       [](const Json& j, Decoder& to) {
         to.add(CtcDecode{text_field(j, "pad_token"), text_field(j, "word_delimiter_token"),
                          flag_field(j, "cleanup", true)});
       },
       {"pad_token", "word_delimiter_token", "cleanup"}},
      {"Sequence",
       [](const Json& j, Decoder& to) {
         for_each_part(j, "decoders", [&](const Json& part) { parse_decoder(part, to); });
       }},
      {"Replace",
       [](const Json& j, Decoder& to) {
         to.add(ReplaceDecode{pattern_field(j), text_field(j, "content")});
       },
       {"pattern", "content"}},
      {"Fuse", [](const Json&, Decoder& to) { to.add(FuseDecode{}); }},
      {"Strip",
       [](const Json& j, Decoder& to) {
         to.add(StripDecode{character_field(j, "content"), size_field(j, "start"),
                            size_field(j, "stop")});
       },
       {"content", "start", "stop"}},
      {"ByteFallback", [](const Json&, Decoder& to) { to.add(ByteFallbackDecode{}); }}};
  if (!json.is_null()) row_of(json, rows, "decoder").read(json, decoder);
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

// Reads a post-processor. As in the reference its kind follows from its fields; only one without
// such fields goes by its type.
void parse_post_processor(const Json& json, PostProcessor& post_processor) {
  if (json.is_null()) return;
  const std::string type = type_of(json);
  if (present(json, "sep") && present(json, "cls")) {
    const bool roberta = present(json, "trim_offsets") && present(json, "add_prefix_space");
    post_processor.add(ClsSepStep{paired_id(json, "cls"), paired_id(json, "sep"), roberta});
  } else if (type == "ByteLevel") {  // which moves offsets only
  } else if (present(json, "single") && present(json, "pair")) {
    post_processor.add(
        TemplateStep{template_pieces(json, "single"), template_pieces(json, "pair")});
  } else if (type == "Sequence") {
    for_each_part(json, "processors",
                  [&](const Json& part) { parse_post_processor(part, post_processor); });
  } else {
    throw ModelError(
        fmt::format("post-processor of unknown type '{}', or without its fields", type));
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
