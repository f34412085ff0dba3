// Checks that the ops share. A disagreement is a bug of ours; the message has the op and its
// shapes.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "backend/backend.h"

namespace plimsoll::backend {

std::string show(View view);
std::string show(const Weight& weight);

/// Throws std::logic_error.
template <typename... Args>
[[noreturn]] void disagree(fmt::format_string<Args...> format, Args&&... args) {
  throw std::logic_error(fmt::format(format, std::forward<Args>(args)...));
}

/// Checks that `view` is [rows, columns], its rows at least as far apart as they are wide.
void check_shape(const char* op, const char* what, View view, int64_t rows, int64_t columns);

/// Checks that two views have one shape and type.
void check_same(const char* op, const char* what_a, View a, const char* what_b, View b);

/// Checks that a bias or norm weight has as many elements as `view` has columns; it may be empty.
void check_vector(const char* op, const Weight& vector, const char* what, View view);

/// Checks that logits are float32.
void check_logits(const char* op, View logits);

/// Checks that `out` has `count` rows.
void check_rows(const char* op, View out, const char* what, size_t count);

/// Checks that the batch has a block table of each of its sequences for the layer's group.
void check_tables(const char* op, const KvLayer& cache, const BatchMeta& batch);

/// Number of sequences of a batch.
int64_t sequences(const BatchMeta& batch);

}  // namespace plimsoll::backend
