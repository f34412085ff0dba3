// Reads tokenizer.json in one pass: the vocabulary and the merges, most of the file, go straight
// into their tables.
#include <algorithm>

#include "base/error.h"
#include "text/tokenizer/files.h"

namespace plimsoll::text {
namespace {

constexpr size_t kMaxDepth = 128;
constexpr size_t kMaxMerges = 5'000'000;
constexpr size_t kMaxFile = size_t{512} << 20;

// Place of the parser in the document.
enum class Place { document, vocabulary, pieces, merges };

class Reader {
 public:
  Reader(TokenizerDocument& document, Place place) : out_(document), place_(place) {}

  bool null() { return value(nullptr); }
  bool boolean(bool v) { return value(v); }
  bool number_integer(int64_t v) { return number(v); }
  bool number_unsigned(uint64_t v) { return number(v); }
  bool number_float(double v, const std::string&) { return number(v); }
  bool binary(Json::binary_t&) { return false; }

  bool string(std::string& v) {
    if (place_ == Place::document) return value(std::move(v));
    if (place_ == Place::pieces && inner_ && !has_text_) {
      token_ = std::move(v);
      return has_text_ = true;
    }
    if (place_ == Place::merges) return merge_text(v);
    refuse("a text stands where none belongs");
  }

  bool key(std::string& name) {
    if (place_ == Place::vocabulary) {
      token_ = std::move(name);
      return true;
    }
    if (open_.size() == 1) part_ = name;
    // The last of two equal keys counts, but the reference refuses them in these parts.
    const bool strict = part_ == "added_tokens" || part_ == "post_processor";
    if (strict && open_.size() > 1 && open_.back()->contains(name))
      throw ModelError(fmt::format("{}: duplicate key \"{}\"", part_, name));
    key_ = std::move(name);
    return true;
  }

  bool start_object(size_t) {
    if (place_ == Place::document && at_model() && key_ == "vocab") {
      claim_vocabulary(Place::vocabulary);
      return true;
    }
    if (place_ == Place::vocabulary && !started_) return started_ = true;
    if (place_ != Place::document) refuse("an object stands where none belongs");
    return open(Json::object());
  }
  bool end_object() {
    if (place_ != Place::document) return leave();
    open_.pop_back();
    return true;
  }
  bool start_array(size_t) {
    if (place_ == Place::document && at_model() && key_ == "vocab") {
      claim_vocabulary(Place::pieces);
      return true;
    }
    if (place_ == Place::document && at_model() && key_ == "merges") {
      out_.merges.clear();
      out_.has_merges = true;
      enter(Place::merges);
      return true;
    }
    if (place_ == Place::document) return open(Json::array());
    if (place_ == Place::vocabulary || inner_) refuse("an array stands where none belongs");
    has_text_ = has_number_ = has_left_ = has_right_ = false;
    return inner_ = true;
  }
  bool end_array() {
    if (place_ == Place::document) {
      open_.pop_back();
      return true;
    }
    if (!inner_) return leave();
    inner_ = false;
    return place_ == Place::pieces ? end_piece() : end_pair();
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& cause) {
    problem = cause.what();
    if (const size_t at = problem.find(": "); at != std::string::npos) problem.erase(0, at + 2);
    offset = position == 0 ? 0 : position - 1;
    return false;
  }

  std::string problem;
  size_t offset = 0;

 private:
  [[nodiscard]] bool at_model() const { return open_.size() == 2 && in_model_; }
  [[noreturn]] void refuse(std::string_view why) const {
    const char* table = place_ == Place::merges ? "merges" : "vocab";
    throw ModelError(fmt::format("{}[{}]: {}", table, index_, why));
  }

  void claim_vocabulary(Place place) {
    out_.vocabulary = {};
    out_.pieces.clear();
    out_.has_vocabulary = true;
    enter(place);
  }
  void enter(Place place) {
    started_ = true;
    place_ = place;
    inner_ = false;
    index_ = 0;
  }
  bool leave() {
    place_ = Place::document;
    return true;
  }

  bool open(Json container) {
    if (open_.size() >= kMaxDepth)
      throw ModelError(fmt::format("nested deeper than {} levels", kMaxDepth));
    const bool model = open_.size() == 1 && key_ == "model" && container.is_object();
    if (model) {
      out_.vocabulary = {};
      out_.pieces.clear();
      out_.merges.clear();
      out_.has_vocabulary = out_.has_merges = false;
    }
    open_.push_back(put(std::move(container)));
    if (open_.size() == 2) in_model_ = model;
    return true;
  }
  bool value(Json v) {
    if (place_ != Place::document) refuse("a value of this kind does not belong here");
    put(std::move(v));
    return true;
  }
  Json* put(Json v) {
    if (open_.empty()) {
      out_.root = std::move(v);
      return &out_.root;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    return &(parent[key_] = std::move(v));
  }

  template <typename Number>
  bool number(Number v) {
    if (place_ == Place::document) return value(v);
    if (place_ == Place::pieces && inner_ && has_text_ && !has_number_) {
      score_ = static_cast<double>(v);
      return has_number_ = true;
    }
    if (place_ != Place::vocabulary) refuse("a number stands where none belongs");
    if constexpr (std::is_integral_v<Number>) {
      if (v >= 0 && v < static_cast<Number>(kMaxTokens)) {
        out_.vocabulary.add(token_, static_cast<TokenId>(v));
        ++index_;
        return true;
      }
    }
    throw ModelError(fmt::format("vocab: token '{}' has the id {}; ids are whole numbers below {}",
                                 token_, v, kMaxTokens));
  }

  bool end_piece() {
    if (!has_text_ || !has_number_) refuse("a piece is a text and a score");
    out_.pieces.emplace_back(std::move(token_), score_);
    if (out_.pieces.size() > static_cast<size_t>(kMaxTokens)) refuse("too many pieces");
    ++index_;
    return true;
  }

  bool merge_text(std::string& text) {
    if (!inner_) {
      // The old spelling: both parts in one text.
      if (text.starts_with("#version")) return true;
      const size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
        refuse(fmt::format("'{}' is not two tokens with a space between", text));
      }
      return add_merge(std::string_view(text).substr(0, space),
                       std::string_view(text).substr(space + 1));
    }
    if (has_right_) refuse("a merge has more than two parts");
    (has_left_ ? right_ : token_) = std::move(text);
    (has_left_ ? has_right_ : has_left_) = true;
    return true;
  }
  bool end_pair() {
    if (!has_right_) refuse("a merge has two parts");
    return add_merge(token_, right_);
  }
  bool add_merge(std::string_view left, std::string_view right) {
    if (out_.merges.size() == kMaxMerges) refuse(fmt::format("more than {} merges", kMaxMerges));
    out_.merges.add(left, right);
    ++index_;
    return true;
  }

  TokenizerDocument& out_;
  Place place_;
  std::vector<Json*> open_;
  std::string key_;
  std::string part_;  // the key at the top that the place is below
  bool in_model_ = false;
  // Within the tables:
  bool started_ = false;
  bool inner_ = false;
  size_t index_ = 0;
  std::string token_;
  std::string right_;
  double score_ = 0;
  bool has_text_ = false;
  bool has_number_ = false;
  bool has_left_ = false;
  bool has_right_ = false;
};

void parse(const std::string& text, const std::string& name, TokenizerDocument& document,
           Place place) {
  Reader reader(document, place);
  const size_t null = text.find('\0');  // where the parser would take the text to end
  if (Json::sax_parse(text, &reader) && null == std::string::npos) return;
  if (reader.problem.empty()) {
    reader.offset = null;
    reader.problem = "a NUL character";
  }
  const std::string_view before =
      std::string_view(text).substr(0, std::min(reader.offset, text.size()));
  const size_t line_start =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  fail(ExitCode::checkpoint_unusable, "{}, line {}, column {}: {}", name,
       1 + std::ranges::count(before, '\n'), before.size() - line_start + 1, reader.problem);
}

void read(const std::filesystem::path& file, TokenizerDocument& document, Place place) {
  parse(read_text_file(file, kMaxFile), file.string(), document, place);
}

}  // namespace

void with_file_name(const std::filesystem::path& file, const std::function<void()>& run) {
  try {
    run();
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    fail(ExitCode::checkpoint_unusable, "{}: {}", file.string(), error.what());
  }
}

TokenizerDocument read_tokenizer_document(const std::filesystem::path& file) {
  TokenizerDocument document;
  with_file_name(file, [&] { read(file, document, Place::document); });
  return document;
}

TokenizerDocument parse_tokenizer_document(const std::string& text, const std::string& name) {
  TokenizerDocument document;
  with_file_name(name, [&] { parse(text, name, document, Place::document); });
  return document;
}

Vocabulary read_vocabulary(const std::filesystem::path& file) {
  TokenizerDocument document;
  with_file_name(file, [&] { read(file, document, Place::vocabulary); });
  return std::move(document.vocabulary);
}

MergeList read_merges(const std::filesystem::path& file) {
  const std::string text = read_text_file(file, kMaxFile);
  MergeList merges;
  std::string_view rest = text;
  for (size_t line = 1; !rest.empty(); ++line) {
    std::string_view entry = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    if (entry.ends_with('\r')) entry.remove_suffix(1);
    if (entry.empty() || entry.starts_with("#version")) continue;
    const size_t space = entry.find(' ');
    if (space == std::string_view::npos || entry.find(' ', space + 1) != std::string_view::npos) {
      fail(ExitCode::checkpoint_unusable, "{}, line {}: not two tokens with a space between",
           file.string(), line);
    }
    if (merges.size() == kMaxMerges) {
      fail(ExitCode::checkpoint_unusable, "{}: more than {} merges", file.string(), kMaxMerges);
    }
    merges.add(entry.substr(0, space), entry.substr(space + 1));
  }
  return merges;
}

}  // namespace plimsoll::text
