#include "cli/doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "backend/device.h"
#include "base/error.h"
#include "engine/engine.h"

namespace plimsoll::cli {
namespace {

/// Log probabilities of the prompt's tokens, and the tokens that a model answers.
struct Answer {
  std::vector<float> logprobs;  // of the prompt's tokens, from the second on
  std::map<uint64_t, std::vector<engine::TokenId>> tokens;  // by request
};

constexpr engine::TokenId kVocabulary = 1000;  // of all tiny models

engine::Request request_of(uint64_t tag, int64_t max_tokens, int prompt) {
  engine::Request request;
  request.tag = tag;
  request.key = fmt::format("doctor {}", tag);
  for (engine::TokenId i = 0; i < prompt; ++i) {
    request.prompt.push_back(3 + i * 13 % (kVocabulary - 6));
  }
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  request.sampling.detokenize = false;
  return request;
}

/// Greedy ones, of which one wants the log probabilities of its prompt, and, where tokens are the
/// same to the last one, a greedy one with penalties and masks and one that is drawn.
std::vector<engine::Request> requests_of(const Question& question) {
  std::vector<engine::Request> requests{request_of(0, 8, question.prompt),
                                        request_of(1, 1, question.prompt)};
  requests[1].sampling.prompt_logprobs = 0;
  if (!question.model->has_penalties || question.dtype != DType::f32) return requests;
  engine::Request& penalised = requests.emplace_back(request_of(2, 8, question.prompt));
  penalised.sampling.repetition_penalty = 1.2;
  penalised.sampling.presence_penalty = 0.7;
  penalised.sampling.frequency_penalty = 0.3;
  penalised.sampling.logit_bias = {{11, -4.5}, {42, 3}};
  penalised.sampling.bad_words = {{7}};
  engine::Request& drawn = requests.emplace_back(request_of(3, 8, question.prompt));
  drawn.sampling.temperature = 0.8;
  drawn.sampling.top_k = 50;
  drawn.sampling.top_p = 0.9;
  drawn.sampling.min_p = 0.01;
  drawn.sampling.seed = 5;
  return requests;
}

engine::EngineOptions options_of(const Question& question) {
  engine::EngineOptions options;
  options.dtype = question.dtype;
  options.kv_dtype = question.kv_dtype;
  options.max_num_seqs = 4;
  // So that the usual prompt is computed in two pieces, and a long one in one.
  options.max_num_batched_tokens = question.prompt > kLongPrompt / 2 ? 2 * kLongPrompt : 64;
  options.max_model_len = 2 * question.prompt;
  options.num_kv_blocks = 4 * (options.max_model_len / options.block_size + 1);
  options.capture_sizes = std::vector<int64_t>{1, 2, 4};
  options.prefix_caching = false;
  return options;
}

Answer ask(const Question& question, const model::ModelSpec& spec, backend::Backend& backend) {
  engine::Engine engine(spec, NamedWeights(), backend, nullptr, options_of(question));
  for (engine::Request& request : requests_of(question)) engine.add(std::move(request));
  std::vector<engine::RequestOutput> finished;
  while (!engine.idle()) engine.step(finished);
  Answer answer;
  for (const engine::RequestOutput& output : finished) {
    if (output.failure) fail(ExitCode::bug, "{}", output.failure->message);
    answer.tokens[output.tag] = output.completions.at(0).token_ids;
    for (const auto& position : output.prompt_logprobs) {
      if (position) answer.logprobs.push_back(position->at(0).logprob);
    }
  }
  return answer;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size() || a.empty()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                     : std::max(largest, difference);
  }
  return largest;
}

std::string name_of(const Question& question) {
  std::string name = fmt::format("{}, {}", question.model->name, torch_name(question.dtype));
  if (question.kv_dtype) name += fmt::format(", KV cache {}", torch_name(*question.kv_dtype));
  return name;
}

}  // namespace

std::vector<Question> usual_questions() {
  std::vector<Question> questions;
  for (const TinyModel& model : tiny_models()) questions.push_back({&model, DType::f32});
  for (const TinyModel& model : tiny_models()) {
    if (model.in_half) questions.push_back({&model, DType::bf16});
  }
  questions.push_back({&tiny_models().front(), DType::bf16, DType::f8_e4m3});
  return questions;
}

std::vector<Question> questions_of_hopper() {
  std::vector<Question> questions;
  for (const TinyModel& model : wide_models()) {
    questions.push_back({.model = &model, .dtype = DType::bf16, .prompt = kLongPrompt});
  }
  return questions;
}

Check ask_both(const Question& question, const MakeBackend& make_subject,
               const MakeBackend& make_twin) {
  Check check;
  check.what = name_of(question);
  check.covers = question.covers.empty() ? question.model->covers : question.covers;
  // Sums of up to 512 products in float32, through two layers.
  check.allowed = question.dtype == DType::f32 ? 1e-4 : question.model->allowed_in_half;
  try {
    const model::ModelSpec spec = spec_of(*question.model);
    const auto subject = make_subject(), twin = make_twin();
    const Answer found = ask(question, spec, *subject), expected = ask(question, spec, *twin);
    check.largest = largest_difference(found.logprobs, expected.logprobs);
    // In sixteen bits two tokens may be near enough to change places.
    check.same_tokens = question.dtype != DType::f32 || found.tokens == expected.tokens;
    if (!subject->footprint().shares_memory()) check.notes = backend::device_notes(*subject);
  } catch (const std::exception& error) {
    check.trouble = error.what();
  }
  return check;
}

}  // namespace plimsoll::cli
