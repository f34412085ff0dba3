// A request while the engine has it.
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
  /// Choices have the serials from `serial` on.
  RequestState(Request asked, uint64_t serial, const ChoiceContext& context);
  RequestState(const RequestState&) = delete;
  RequestState& operator=(const RequestState&) = delete;

  [[nodiscard]] Choice& leader() { return *choices.front(); }
  /// Of the leader's next prompt position.
  void add_prompt_logprobs(PositionLogprobs logprobs);
  void fail(std::string code, std::string message);
  /// The answer; of the state only what has ended can be told afterwards.
  [[nodiscard]] RequestOutput take_output();

  Request request;
  StopStrings stop_strings;
  std::vector<std::unique_ptr<Choice>> choices;
  /// The leader's choice computes the prompt, and its logprobs; the others wait to share its
  /// blocks.
  bool followers_wait = false;
  bool admitted = false;
  int64_t unfinished = 0;  // choices
  int64_t cached_tokens = 0;
  std::vector<std::optional<PositionLogprobs>> prompt_logprobs;
  std::optional<RequestOutput::Failure> failure;
};

/// Why the request can never run, if so: fields outside the vocabulary, a prompt that leaves no
/// room.
std::optional<RequestOutput::Failure> find_fault(const Request& request, int64_t vocab_size,
                                                 int64_t max_model_len);

}  // namespace plimsoll::engine
