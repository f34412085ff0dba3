// `plan -i`: what a prompt file asks of the cache.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "plan_parts.h"
#include "text/tokenizer.h"

namespace plimsoll::cli {
namespace {

struct PromptFacts {
  std::vector<int64_t> lengths;
  int64_t bad_lines = 0;
  int64_t first_bad = 0;
  int64_t duplicates = 0;
  int64_t chats = 0;
  int64_t generated = 0;
  int64_t shared_tokens = 0;  // in whole blocks of a prefix seen before
  std::unordered_set<std::string> ids;
  std::unordered_set<uint64_t> blocks;
};

/// Text of a line's prompt, or its token ids; chat messages are joined as they stand.
struct LinePrompt {
  std::string text;
  std::vector<text::TokenId> ids;
  int64_t max_tokens = 0;
  std::string id;
  bool chat = false;
};

void read_request(const Json& request, LinePrompt& prompt) {
  const auto number = [&](const char* key) {
    const auto at = request.find(key);
    return at != request.end() && at->is_number_integer() ? at->get<int64_t>() : int64_t{0};
  };
  prompt.max_tokens = std::max(number("max_tokens"), number("max_completion_tokens"));
  const auto ids_at = request.find("prompt_token_ids");
  const auto text_at = request.find("prompt");
  const auto messages = request.find("messages");
  if (ids_at != request.end() && ids_at->is_array()) {
    for (const Json& id : *ids_at) prompt.ids.push_back(id.get<text::TokenId>());
  } else if (text_at != request.end() && text_at->is_string()) {
    prompt.text = text_at->get<std::string>();
  } else if (text_at != request.end() && text_at->is_array()) {
    for (const Json& id : *text_at) prompt.ids.push_back(id.get<text::TokenId>());
  } else if (messages != request.end() && messages->is_array()) {
    prompt.chat = true;
    for (const Json& message : *messages) {
      const auto content = message.find("content");
      if (content != message.end() && content->is_string())
        prompt.text += content->get<std::string>() + "\n";
    }
  } else {
    throw std::runtime_error("no prompt");
  }
}

LinePrompt read_line(const std::string& line) {
  LinePrompt prompt;
  const Json json = parse_json<Json>(line);
  if (json.is_string()) {
    prompt.text = json.get<std::string>();
    return prompt;
  }
  const bool batch = json.contains("body") && json["body"].is_object();
  for (const char* key : {"custom_id", "id"}) {
    const auto at = json.find(key);
    if (at != json.end() && at->is_string()) prompt.id = at->get<std::string>();
  }
  read_request(batch ? json["body"] : json, prompt);
  return prompt;
}

/// Hashes whole blocks of the prompt; a block seen before is shared.
int64_t count_shared(const std::vector<text::TokenId>& ids, int64_t block,
                     std::unordered_set<uint64_t>& seen) {
  constexpr uint64_t kPrime = 1099511628211u;
  uint64_t hash = 14695981039346656037u;
  int64_t shared = 0;
  const auto size = static_cast<size_t>(block);
  for (size_t at = 0; at + size <= ids.size(); at += size) {
    for (size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<uint64_t>(ids[at + i])) * kPrime;
    if (!seen.insert(hash).second) shared += block;
  }
  return shared;
}

PromptFacts read_prompts(const std::string& file, const text::Tokenizer& tokenizer, int64_t block) {
  std::ifstream stream(file);
  if (!stream) fail(ExitCode::input_unusable, "-i {}: cannot be read", file);
  PromptFacts facts;
  int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      LinePrompt prompt = read_line(line);
      if (prompt.ids.empty()) prompt.ids = tokenizer.encode(prompt.text, text::AddSpecials::yes);
      facts.lengths.push_back(static_cast<int64_t>(prompt.ids.size()));
      facts.generated += prompt.max_tokens;
      facts.chats += prompt.chat ? 1 : 0;
      if (!prompt.id.empty() && !facts.ids.insert(prompt.id).second) ++facts.duplicates;
      facts.shared_tokens += count_shared(prompt.ids, block, facts.blocks);
    } catch (const std::exception&) {
      if (facts.bad_lines++ == 0) facts.first_bad = number;
    }
  }
  return facts;
}

}  // namespace

void add_prompts(plan::PlanResult& result, const PlanOptions& options,
                 const std::filesystem::path& folder) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder);
  PromptFacts facts =
      read_prompts(options.prompts, tokenizer, std::max<int64_t>(1, result.block_size));
  std::sort(facts.lengths.begin(), facts.lengths.end());
  const auto count = static_cast<int64_t>(facts.lengths.size());
  const auto note = [&](std::string text) { result.notes.push_back(std::move(text)); };
  if (facts.bad_lines > 0)
    note(fmt::format("{}: {} unreadable lines, the first is line {}", options.prompts,
                     facts.bad_lines, facts.first_bad));
  if (facts.duplicates > 0)
    note(fmt::format("{}: {} ids occur again", options.prompts, facts.duplicates));
  if (count == 0) {
    note(fmt::format("{}: no prompts", options.prompts));
    return;
  }
  int64_t total = 0;
  for (const int64_t length : facts.lengths) total += length;
  const auto at = [&](double share) {
    return facts.lengths[static_cast<size_t>(share * static_cast<double>(count - 1))];
  };
  note(fmt::format(
      "{}: {} prompts, {} tokens; lengths {} to {}, half up to {}, nine in ten up to {}{}",
      options.prompts, count, total, facts.lengths.front(), facts.lengths.back(), at(0.5), at(0.9),
      facts.chats > 0 ? fmt::format(" ({} chats counted without their template)", facts.chats)
                      : ""));
  const auto over =
      facts.lengths.end() -
      std::upper_bound(facts.lengths.begin(), facts.lengths.end(), result.max_model_len - 1);
  if (over > 0)
    note(fmt::format("{} prompts leave no room for an answer in a context of {}", over,
                     result.max_model_len));
  if (facts.shared_tokens > 0)
    note(fmt::format("{} tokens are prefixes seen before, in whole blocks", facts.shared_tokens));
  const int64_t mean = (total + facts.generated) / count;
  const double together = mean > 0 && result.kv_bytes_per_token > 0
                              ? static_cast<double>(result.kv_cache_bytes) /
                                    static_cast<double>(result.kv_bytes_per_token) /
                                    static_cast<double>(mean)
                              : 0;
  if (result.has_kv && together > 0) {
    note(fmt::format(
        "about {:.0f} of these requests find room at once (mean {} tokens with the answer)",
        std::min(together, static_cast<double>(std::min(count, result.max_num_seqs))), mean));
  }
  const double peak =
      static_cast<double>(facts.lengths.back()) * static_cast<double>(result.kv_bytes_per_token);
  note(fmt::format("the longest prompt alone takes {:.2f} GiB of cache",
                   peak / static_cast<double>(int64_t{1} << 30)));
  if (options.rate > 0) {
    note(fmt::format("{:.2f} hours at {} tokens per second",
                     static_cast<double>(total + facts.generated) / options.rate / 3600.0,
                     options.rate));
  }
}

}  // namespace plimsoll::cli
