// The fields of a request that say how tokens are drawn, where more is checked than a range.
#pragma once

#include "batch/fields/request_fields.h"

namespace plimsoll::batch {

// Setters of the table's rows. Each throws LineError(bad_field).

void set_temperature(const FieldValue& value, const Field::Context& context, RequestFields& fields);
void set_top_p(const FieldValue& value, const Field::Context& context, RequestFields& fields);
void set_repetition_penalty(const FieldValue& value, const Field::Context& context,
                            RequestFields& fields);
void set_seed(const FieldValue& value, const Field::Context& context, RequestFields& fields);
void set_logit_bias(const FieldValue& value, const Field::Context& context, RequestFields& fields);
/// `logprobs` of a chat: true or false; a plain line may give a number.
void set_chat_logprobs(const FieldValue& value, const Field::Context& context,
                       RequestFields& fields);
/// `logprobs` of a completion: a number; a plain line may give true or false.
void set_completion_logprobs(const FieldValue& value, const Field::Context& context,
                             RequestFields& fields);

/// A number of log probabilities within the run's --max-logprobs. Throws LineError(bad_field).
int64_t checked_logprobs(const FieldValue& value, const Field::Context& context);

}  // namespace plimsoll::batch
