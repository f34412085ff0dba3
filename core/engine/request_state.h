// A request in the engine, from add() to its output.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/sampling/choice.h"
#include "engine/sampling/stop_strings.h"

namespace plimsoll::engine {

struct RequestState {
  /// `serial`: serial of the first choice; the others follow.
  RequestState(Request asked, uint64_t serial, const ChoiceContext& context);
  RequestState(const RequestState&) = delete;
  RequestState& operator=(const RequestState&) = delete;

  [[nodiscard]] Choice& leader() { return *choices.front(); }
  /// Adds the log probabilities of the leader's next prompt position.
  void add_prompt_logprobs(PositionLogprobs logprobs);
  void fail(std::string code, std::string message);
  /// The answer, moved out; only ended() may be asked afterwards.
  [[nodiscard]] RequestOutput take_output();

  Request request;
  StopStrings stop_strings;
  std::vector<std::unique_ptr<Choice>> choices;
  bool admitted = false;
  int64_t unfinished = 0;  // choices
  int64_t cached_tokens = 0;
  std::vector<std::optional<PositionLogprobs>> prompt_logprobs;
  std::optional<RequestOutput::Failure> failure;
};

/// Why the request can never run; none: it can. Fields outside the vocabulary, or a prompt that
/// leaves no room.
std::optional<RequestOutput::Failure> find_fault(const Request& request, int64_t vocab_size,
                                                 int64_t max_model_len);

}  // namespace plimsoll::engine
