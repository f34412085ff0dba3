// tokenizer.model through the sentencepiece library.
#include <sentencepiece_processor.h>

#include <algorithm>

#include "base/error.h"
#include "text/text_error.h"
#include "text/tokenizer/config.h"
#include "text/tokenizer/files.h"

namespace plimsoll::text {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxModel = size_t{128} << 20;

class SentencePieceModel final : public Model {
 public:
  SentencePieceModel(Vocabulary vocabulary,
                     std::unique_ptr<sentencepiece::SentencePieceProcessor> processor)
      : Model(std::move(vocabulary)), processor_(std::move(processor)) {
    // Since sentencepiece 0.2 a piece that is the NUL character gives way to the byte; older
    // libraries use it.
    null_byte_ = vocabulary_.find("<0x00>").value_or(-1);
    if (null_byte_ >= 0) null_piece_ = vocabulary_.find(std::string_view("\0", 1)).value_or(-1);
  }

  void tokenize(std::string_view text, std::vector<TokenId>& ids) const override {
    std::vector<int> pieces;
    // Older libraries have a string_view of their own.
    const auto status = processor_->Encode({text.data(), text.size()}, &pieces);
    if (!status.ok()) refuse_text("sentencepiece: {}", status.ToString());
    if (null_piece_ >= 0) std::ranges::replace(pieces, null_piece_, null_byte_);
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }

 private:
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  TokenId null_piece_ = -1;
  TokenId null_byte_ = -1;
};

// Settings of the normaliser that the library does not report, read from the file (a protocol
// buffer).
struct NormalizerSpec {
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
};

// A cursor over protocol buffer fields; stops at anything malformed.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  bool next() {
    uint64_t tag = 0;
    if (rest_.empty() || !varint(tag)) return false;
    number = tag >> 3;
    switch (tag & 7) {
      case 0:
        return varint(value);
      case 1:
        return skip(8);
      case 2: {
        uint64_t length = 0;
        if (!varint(length) || length > rest_.size()) return false;
        bytes = rest_.substr(0, length);
        return skip(length);
      }
      case 5:
        return skip(4);
      default:
        return false;
    }
  }

  uint64_t number = 0;
  uint64_t value = 0;
  std::string_view bytes;

 private:
  bool varint(uint64_t& out) {
    out = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      out |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool skip(uint64_t count) {
    if (count > rest_.size()) return false;
    rest_.remove_prefix(count);
    return true;
  }
  std::string_view rest_;
};

NormalizerSpec read_normalizer_spec(std::string_view model) {
  NormalizerSpec spec;
  for (Fields fields(model); fields.next();) {
    if (fields.number != 3) continue;  // ModelProto.normalizer_spec
    for (Fields inner(fields.bytes); inner.next();) {
      if (inner.number == 3) spec.add_dummy_prefix = inner.value != 0;
      if (inner.number == 4) spec.remove_extra_whitespaces = inner.value != 0;
    }
  }
  return spec;
}

// A message that is repeated is merged by protocol buffers: the appended setting wins.
void turn_dummy_prefix_off(std::string& model) {
  model += std::string("\x1A\x02\x18\x00", 4);
}

// Classes whose ids are not the model's own, or that put more around a text than BOS and EOS.
void refuse_other_classes(const fs::path& file, const std::string& tokenizer_class) {
  for (const char* name :
       {"XLMRobertaTokenizer", "MBartTokenizer", "MBart50Tokenizer", "CamembertTokenizer",
        "NllbTokenizer", "ChatGLMTokenizer", "ChatGLM4Tokenizer", "T5Tokenizer", "XLNetTokenizer",
        "AlbertTokenizer", "DebertaV2Tokenizer", "PegasusTokenizer"}) {
    if (tokenizer_class != name) continue;
    fail(ExitCode::checkpoint_unusable,
         "{}: a {} cannot be built from tokenizer.model; save the tokenizer as tokenizer.json",
         file.string(), name);
  }
}

Vocabulary read_pieces(const sentencepiece::SentencePieceProcessor& processor,
                       SentencePieceDecode& decode) {
  const int count = processor.GetPieceSize();
  if (count > kMaxTokens)
    throw ModelError(fmt::format("{} pieces, more than {}", count, kMaxTokens));
  Vocabulary vocabulary;
  for (int id = 0; id < count; ++id) {
    const std::string& piece = processor.IdToPiece(id);
    vocabulary.add(piece, id);
    if (processor.IsControl(id)) decode.controls.insert(piece);
    if (processor.IsUnknown(id)) decode.unknown = piece;
  }
  return vocabulary;
}

void add_special_tokens(const sentencepiece::SentencePieceProcessor& processor,
                        TokenizerConfig config, Pipeline& tokenizer) {
  const auto set = [&](const char* name, int id) {
    if (id < 0 || config.named.contains(name)) return;
    AddedToken token;
    token.content = processor.IdToPiece(id);
    token.special = true;
    token.normalized = false;
    config.named[name] = std::move(token);
  };
  set("bos_token", processor.bos_id());
  set("eos_token", processor.eos_id());
  set("unk_token", processor.unk_id());
  add_config_tokens(config, AddedIds::as_listed, tokenizer);
  set_bos_eos(config, config.add_bos_token.value_or(true), config.add_eos_token.value_or(false),
              tokenizer);
}

// "aGVsbG8= 31373": Llama 3's tokenizer.model is tiktoken's list of ranked byte strings.
bool looks_like_tiktoken(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const size_t space = line.find(' ');
  return space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
         std::ranges::all_of(line.substr(space + 1),
                             [](char c) { return (c >= '0' && c <= '9') || c == '\r'; });
}

}  // namespace

void load_tokenizer_model(const fs::path& file, const TokenizerConfig* config,
                          Pipeline& tokenizer) {
  std::string bytes = read_text_file(file, kMaxModel);
  if (looks_like_tiktoken(bytes)) {
    load_tiktoken(file, bytes, config, tokenizer);
    return;
  }
  if (config) refuse_other_classes(file, config->tokenizer_class);
  NormalizerSpec spec = read_normalizer_spec(bytes);
  if (config && config->legacy == false && spec.add_dummy_prefix) {
    // A word starts at the text's own start, but not behind a special token.
    turn_dummy_prefix_off(bytes);
    tokenizer.pre_tokenizer = make_metaspace({.scheme = PrependScheme::first, .split = false});
  }
  auto processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto(bytes);
  if (!status.ok()) {
    fail(ExitCode::checkpoint_unusable, "{}: no sentencepiece model: {}", file.string(),
         status.ToString());
  }
  const sentencepiece::SentencePieceProcessor& pieces = *processor;
  SentencePieceDecode decode{spec.add_dummy_prefix || spec.remove_extra_whitespaces,
                             spec.remove_extra_whitespaces,
                             {},
                             {}};
  Vocabulary vocabulary = read_pieces(pieces, decode);
  tokenizer.decoder.add(std::move(decode));
  tokenizer.model =
      std::make_unique<SentencePieceModel>(std::move(vocabulary), std::move(processor));
  if (config) add_special_tokens(pieces, *config, tokenizer);
}

}  // namespace plimsoll::text
