#include "batch/prompt_survey.h"

#include <algorithm>
#include <unordered_set>

#include "batch/digest.h"
#include "batch/id_register.h"
#include "batch/line_error.h"
#include "batch/order/block_hashes.h"

namespace plimsoll::batch {
namespace {

// Some 80 MiB of hashes; 32 million tokens in blocks of 16.
constexpr size_t kMostBlocks = size_t{1} << 21;
// A context longer than any prompt: lengths are counted as they are.
constexpr int64_t kAnyContext = int64_t{1} << 40;

/// Which whole blocks of prompts were seen, each known by all tokens before its end.
class PrefixBlocks {
 public:
  explicit PrefixBlocks(int64_t block_size)
      : block_size_(static_cast<size_t>(std::max<int64_t>(1, block_size))) {}

  /// Tokens of the prompt in blocks seen before; remembers the others. The last token is computed
  /// anew in any case, as the engine does.
  int64_t share(const TokenIds& ids, const engine::Images* images) {
    size_t shared = 0;
    size_t end = 0;
    for (const uint64_t hash : hash_blocks(ids, images, block_size_)) {
      end += block_size_;
      if (seen_.contains(hash)) {
        shared += end < ids.size() ? block_size_ : 0;
      } else if (seen_.size() < kMostBlocks) {
        seen_.insert(hash);
      } else {
        full_ = true;
      }
    }
    return static_cast<int64_t>(shared);
  }
  [[nodiscard]] bool full() const { return full_; }

 private:
  size_t block_size_;
  std::unordered_set<uint64_t> seen_;
  bool full_ = false;
};

PromptOptions without_context(PromptOptions options) {
  options.max_model_len = kAnyContext;
  return options;
}

class Survey {
 public:
  explicit Survey(SurveyOptions options)
      : options_(std::move(options)),
        builder_(options_.prompts, options_.chat),
        any_length_(without_context(options_.prompts), options_.chat),
        blocks_(options_.block_size) {}

  [[nodiscard]] bool is_behind(const Line& line) const {
    return line.ordinal >= options_.slice.first &&
           line.ordinal - options_.slice.first >= options_.slice.count;
  }

  void take(Line& line) {
    const bool ours = line.ordinal >= options_.slice.first;
    if (ours) ++result_.lines;
    SurveyedLine seen{.place = line, .usual = usual_};
    const auto unknown = [&](std::string_view name, std::string_view reason) {
      on_unknown(options_.unknown_fields)(name, reason);
      if (options_.unknown) options_.unknown(line.number, name, reason);
    };
    if (ours && options_.each) seen.text = digest(line.text).low;
    std::optional<BuiltRequest> request;
    LineHead head;
    try {
      OrderedJson body = read_envelope(line, usual_, head);
      usual_ = head.envelope;
      seen.same_id = ids_.take(head).before;
      if (ours && seen.same_id != 0) ++result_.duplicate_ids;
      if (ours && seen.same_id == 0 && !is_done(seen)) {
        request = count(
            head, read_request(head, std::move(body), options_.defaults, options_.limits, unknown));
      }
    } catch (const LineError& error) {
      usual_ = head.envelope;
      ids_.take_failed(head);
      seen.fault = error.what();
      if (ours && result_.bad_lines++ == 0) {
        result_.first_bad_line = line.number;
        result_.first_bad_reason = error.what();
      }
    }
    if (!ours || !options_.each) return;
    seen.request = request ? &*request : nullptr;
    options_.each(seen);
  }

  PromptSurvey finish() {
    result_.sharing_cut_off = blocks_.full();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_done(const SurveyedLine& line) const {
    return options_.is_done && options_.is_done(line.place.ordinal - options_.slice.first);
  }

  /// Counts a request; nothing where its prompt does not fit the context.
  std::optional<BuiltRequest> count(const LineHead& head, const LineRequest& request) {
    if (head.endpoint == Endpoint::chat) ++result_.chats;
    BuiltRequest built;
    try {
      built = builder_.build(head, request);
    } catch (const LineError& error) {
      if (error.code() != code::context_too_long) throw;
      count_over_context(head, any_length_.build(head, request));
      return std::nullopt;
    }
    for (const Prompt& prompt : built.prompts) check_images(prompt);
    if (built.dropped_tokens > 0) ++result_.cut_lines;
    result_.dropped_tokens += built.dropped_tokens;
    const auto is_split = [](const Prompt& prompt) { return prompt.parts.size() > 1; };
    if (std::ranges::any_of(built.prompts, is_split)) ++result_.split_lines;
    // The rest of the context is theirs; OpenAI's completions end after 16 tokens.
    const bool ends_early = head.envelope == Envelope::batch && head.endpoint != Endpoint::chat;
    if (!request.fields.max_tokens && !options_.prompts.max_tokens_cap && !ends_early) {
      ++result_.open_ended;
    }
    size_t index = 0;
    for (const Prompt& prompt : built.prompts) {
      for (const TokenIds& ids : prompt.parts) {
        const engine::SamplingParams& sampling = built.sampling[index++];
        const auto length = static_cast<int64_t>(ids.size());
        result_.prompt_tokens += length;
        result_.shared_tokens += blocks_.share(ids, prompt.images.get());
        if (!options_.keeps_sequences) continue;
        result_.sequences.insert(result_.sequences.end(), static_cast<size_t>(sampling.n),
                                 {length, sampling.max_tokens});
      }
    }
    return built;
  }

  void check_images(const Prompt& prompt) const {
    if (!prompt.images || !options_.image_fault) return;
    const auto fault = options_.image_fault(*prompt.images);
    if (fault) throw LineError(fault->code, fault->message);
  }

  void count_over_context(const LineHead& head, const BuiltRequest& built) {
    if (result_.over_context++ == 0) result_.first_over_context = head.number;
    for (const Prompt& prompt : built.prompts) {
      for (const TokenIds& ids : prompt.parts) {
        result_.longest_over_context =
            std::max(result_.longest_over_context, static_cast<int64_t>(ids.size()));
      }
    }
  }

  SurveyOptions options_;
  PromptBuilder builder_;
  PromptBuilder any_length_;
  PrefixBlocks blocks_;
  IdRegister ids_;
  Envelope usual_ = Envelope::plain;
  PromptSurvey result_;
};

}  // namespace

PromptSurvey survey_prompts(files::InputFile& input, const SurveyOptions& options) {
  LineReader reader(input, options.max_line_bytes);
  Survey survey(options);
  Line line;
  while (true) {
    const LineReader::Got got = reader.next(line, -1);
    const bool end = got == LineReader::Got::end || reader.bytes_read() > options.most_bytes;
    if (end || (got == LineReader::Got::line && survey.is_behind(line))) return survey.finish();
    if (got == LineReader::Got::line) survey.take(line);
  }
}

}  // namespace plimsoll::batch
