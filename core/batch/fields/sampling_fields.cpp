#include "batch/fields/sampling_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "batch/line_error.h"

namespace plimsoll::batch {
namespace {

using Context = Field::Context;

// vLLM's clamp: between 0 and this, probabilities would overflow.
constexpr double kLeastTemperature = 0.01;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void set_logprobs(const FieldValue& value, const Context& context, RequestFields& fields) {
  if (!value.json().is_boolean()) {
    fields.sampling.logprobs = checked_logprobs(value, context);
  } else if (value.boolean()) {
    fields.sampling.logprobs = 0;
  } else {
    fields.sampling.logprobs.reset();
  }
}

}  // namespace

int64_t checked_logprobs(const FieldValue& value, const Context& context) {
  const int64_t limit = context.limits.max_logprobs;
  return limit < 0 ? value.integer(-1) : value.integer(0, limit);
}

void set_temperature(const FieldValue& value, const Context&, RequestFields& fields) {
  const double asked = value.number(0, kInfinity);
  if (std::isinf(asked)) value.refuse("a finite number");
  fields.sampling.temperature = asked > 0 ? std::max(asked, kLeastTemperature) : 0;
}

void set_top_p(const FieldValue& value, const Context&, RequestFields& fields) {
  fields.sampling.top_p = value.number(0, 1);
  if (fields.sampling.top_p == 0) value.refuse("a number above 0, up to 1");
}

void set_repetition_penalty(const FieldValue& value, const Context&, RequestFields& fields) {
  const double asked = value.number(-kInfinity, kInfinity);
  // Beyond these a logit divided by it, or multiplied, may be no finite float.
  if (!(asked >= 1e-6 && asked <= 1e6)) value.refuse("a number from 0.000001 to 1000000");
  fields.sampling.repetition_penalty = asked;
}

void set_seed(const FieldValue& value, const Context&, RequestFields& fields) {
  const int64_t seed = value.integer(FieldValue::kLeast);
  // -1 asks for no seed of its own, as in vLLM.
  if (seed == -1) {
    fields.sampling.seed.reset();
  } else {
    fields.sampling.seed = seed;
  }
}

void set_logit_bias(const FieldValue& value, const Context& context, RequestFields& fields) {
  fields.sampling.logit_bias.clear();
  for (const auto& [key, bias] : value.object().items()) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 ||
        id >= context.limits.vocab_size) {
      throw LineError(code::bad_field,
                      fmt::format("logit_bias: expected token ids from 0 to {} as keys, found {}",
                                  context.limits.vocab_size - 1, excerpt(OrderedJson(key))),
                      "logit_bias");
    }
    fields.sampling.logit_bias[id] =
        FieldValue(fmt::format("logit_bias[{}]", id), bias).number(-100, 100);
  }
}

// OpenAI's chat schema takes true or false, its completions schema a number; a plain line either.
void set_chat_logprobs(const FieldValue& value, const Context& context, RequestFields& fields) {
  if (context.envelope == Envelope::batch && !value.json().is_boolean()) {
    value.refuse("true or false (top_logprobs takes the number)");
  }
  set_logprobs(value, context, fields);
}

void set_completion_logprobs(const FieldValue& value, const Context& context,
                             RequestFields& fields) {
  if (context.envelope == Envelope::batch && value.json().is_boolean()) {
    value.refuse("a whole number");
  }
  set_logprobs(value, context, fields);
}

}  // namespace plimsoll::batch
