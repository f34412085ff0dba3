// Speculation by prompt lookup: where an answer has begun to repeat the tokens before it, the
// tokens that followed there are proposed, and one step computes as many of them as pays.
//
// A proposed token is kept where it equals the token that is drawn for its place, and the draw is
// the one of a run without proposals: logits of a row do not depend on the rows beside it, and each
// draw has a random number of its own. So answers have the same bytes with it and without it.
#pragma once

#include "engine/sequence.h"
#include "engine/speculation/ngram_options.h"
#include "text/tokenizer.h"

namespace plimsoll::engine {

/// Rows whose arithmetic takes as long as reading the weights on the CPU: 4.6 to 5.8 by steps of 1
/// and of 32 rows of a model of 135 M parameters in bfloat16 on a processor with AVX2, 9 of one of
/// 35 M with AVX-512.
inline constexpr double kWeightRows = 6;

/// Sets Sequence::draft for a sequence all of whose tokens are known: the tokens behind the
/// longest earlier occurrence of its last tokens, of equally long ones behind the last. Empty where
/// fewer than prompt_lookup_min are repeated. Never more than the answer may have before its last
/// token.
void propose(Sequence& sequence, const NgramOptions& options);

/// Jump ahead: sets Sequence::draft, for a sequence all of whose tokens are known and that has a
/// choice, to the tokens that must come next by its grammar (Choice::foresee). A forced draft that
/// it has stays. False, and no change: there are none.
bool propose_forced(Sequence& sequence, const text::Tokenizer& tokenizer);

/// How many of `most` tokens pay beside `sequences` that get a token each in the same step, where
/// each is kept with the chance `acceptance` (Sequence::draft_acceptance). A row of its own costs
/// each of them, and one token fewer is to be computed if it is kept. `cost`: of proposing a token
/// for each of `sequences`, as a part of what the step takes without drafts.
int64_t worthwhile_length(double acceptance, int64_t most, int64_t sequences, double cost = 0);

/// How many tokens of the sequence's draft pay, now that they are there.
inline int64_t worthwhile_draft(const Sequence& sequence, int64_t sequences) {
  return worthwhile_length(sequence.draft_acceptance(), std::ssize(sequence.draft), sequences);
}

/// Notes the token that was drawn behind the known ones: keeps the rest of the draft where the
/// draft began with it; else drops the draft and all that is computed from it. `sequence` has the
/// token already. True when the step had computed it as proposed.
bool verify_draft(Sequence& sequence, TokenId token);

}  // namespace plimsoll::engine
