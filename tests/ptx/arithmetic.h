// What instructions of registers compute.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ptx/operands.h"

namespace plimsoll::ptx {

/// A function of an instruction, and which of its registers have 64 bits: the result, and sources
/// by a bit each.
struct Arithmetic {
  Function function = nullptr;
  bool wide_result = false;
  unsigned wide_sources = 0;
};

/// Carries F out for each lane, with operand 0 as its result and those behind it as arguments.
template <auto F>
struct OfLanes;
template <typename R, typename... A, R (*F)(A...)>
struct OfLanes<F> {
  static void run(Context& c, const Instruction& i, Mask lanes) {
    run_with(c, i, lanes, std::index_sequence_for<A...>{});
  }
  static Arithmetic arithmetic() {
    unsigned wide = 0, bit = 0;
    ((wide |= static_cast<unsigned>(sizeof(A) == 8) << bit++), ...);
    return {&run, sizeof(R) == 8, wide};
  }

 private:
  template <size_t... operands>
  static void run_with(Context& c, const Instruction& i, Mask lanes,
                       std::index_sequence<operands...>) {
    for_lanes(lanes, [&](unsigned lane) {
      put<R>(c, i, 0, lane, F(get<A>(c, i, operands + 1, lane)...));
    });
  }
};

/// Rows of a table: an instruction without what changes nothing (`plain_name`), and its function.
using Rows = std::vector<std::pair<std::string, Arithmetic>>;
template <auto F>
void add_row(Rows& rows, const std::string& name) {
  rows.emplace_back(name, OfLanes<F>::arithmetic());
}
void add_integers(Rows& rows);
void add_floats(Rows& rows);
void add_logic(Rows& rows);
void add_conversions(Rows& rows);

/// The function of an instruction, given its parts ("add", "rn", "f32"); none: not known.
std::optional<Arithmetic> find_arithmetic(const std::vector<std::string>& parts);
/// The function of a comparison ("lt") of two numbers of a type ("s32"); nullptr: not known.
Function find_comparison(const std::string& comparison, const std::string& type);

/// How a comparison's result is joined with another predicate.
enum class Join : uint32_t { none, logical_and, logical_or, exclusive_or };

}  // namespace plimsoll::ptx
