// tokenizer.json: its model, its components, its added tokens.
#include "base/error.h"
#include "text/tokenizer/files.h"
#include "text/tokenizer/json_fields.h"

namespace plimsoll::text {
namespace {

constexpr size_t kMaxComponents = 256;  // in a file

// Type of the model; files from before the models had types are recognised by their fields.
std::string model_type(const Json& model, const TokenizerDocument& document) {
  if (const std::string type = type_of(model); !type.empty()) return type;
  if (document.has_merges) return "BPE";
  if (present(model, "max_input_chars_per_word")) return "WordPiece";
  if (!document.pieces.empty()) return "Unigram";
  return "WordLevel";
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

size_t count_components(const Json& json) {
  size_t count = json.is_object() && json.contains("type") ? 1 : 0;
  if (json.is_structured()) {
    for (const Json& part : json) count += count_components(part);
  }
  return count;
}

void load_document(TokenizerDocument document, const std::filesystem::path& file,
                   Pipeline& tokenizer) {
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

}  // namespace

void load_tokenizer_json(const std::filesystem::path& file, Pipeline& tokenizer) {
  load_document(read_tokenizer_document(file), file, tokenizer);
}

void load_tokenizer_text(const std::string& text, const std::string& name, Pipeline& tokenizer) {
  load_document(parse_tokenizer_document(text, name), name, tokenizer);
}

}  // namespace plimsoll::text
