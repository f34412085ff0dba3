// Checks that the ops share: what disagrees is a bug of ours, said with its op and its shapes.
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

/// `view` is [rows, columns], its rows not closer together than they are wide.
void check_shape(const char* op, const char* what, View view, int64_t rows, int64_t columns);

/// Two views of one shape and type.
void check_same(const char* op, const char* what_a, View a, const char* what_b, View b);

/// A bias or norm weight of as many elements as `view` has columns; may be empty.
void check_vector(const char* op, const Weight& vector, const char* what, View view);

/// `out` has `count` rows.
void check_rows(const char* op, View out, const char* what, size_t count);

/// The batch has a block table of each of its sequences for the layer's group.
void check_tables(const char* op, const KvLayer& cache, const BatchMeta& batch);

/// Of a batch.
int64_t sequences(const BatchMeta& batch);

}  // namespace plimsoll::backend
