// Ops of models with several residuals.
#include <fmt/format.h>

#include <stdexcept>

#include "backend/backend.h"

namespace plimsoll::backend {
namespace {

[[noreturn]] void refuse_op(std::string_view op, std::string_view what) {
  throw std::logic_error(fmt::format("{}: {}", op, what));
}

}  // namespace

void Backend::match_size(View x, View like) {
  if (x.rows != like.rows || x.columns != like.columns || x.dtype != like.dtype) {
    refuse_op("match_size", fmt::format("x [{}, {}] does not match [{}, {}]", x.rows, x.columns,
                                        like.rows, like.columns));
  }
  if (runs(x)) do_match_size(x, like);
}

void Backend::keep_above(View x, float deviations) {
  if (runs(x)) do_keep_above(x, deviations);
}

void Backend::do_match_size(View, View) {
  refuse_op("match_size", fmt::format("the {} backend has no such kernel", footprint_.name()));
}

void Backend::do_keep_above(View, float) {
  refuse_op("keep_above", fmt::format("the {} backend has no such kernel", footprint_.name()));
}

}  // namespace plimsoll::backend
