// Input lines for runs on several ranks.
#pragma once

#include "cli/program.h"

namespace plimsoll::test {

/// Writes "in": a greedy line with log probabilities, two prompts drawn twice each, a long answer.
inline void write_rank_lines(const Scratch& scratch) {
  scratch.write("in", R"({"prompt":"To be, or not","max_tokens":20,"temperature":0,"logprobs":2})"
                      "\n"
                      R"({"prompt":["Enter","Exit, pursued"],"n":2,"seed":5,"max_tokens":9})"
                      "\n"
                      R"({"prompt":"O","max_tokens":30,"ignore_eos":true})"
                      "\n");
}

}  // namespace plimsoll::test
