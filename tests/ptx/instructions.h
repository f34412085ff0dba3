// Instructions that are more than arithmetic. Operands stand in the order of PTX's text, addresses
// in the place of theirs.
#pragma once

#include <string>

#include "ptx/state.h"

namespace plimsoll::ptx {

void do_nothing(Context&, const Instruction&, Mask);

// ---- memory.cpp: `elements` registers, then the address ----
/// Of elements of so many bytes.
Function find_load(size_t bytes);
Function find_store(size_t bytes);
/// A load of what another device may write: the others' kernels go on first.
void load_acquiring(Context&, const Instruction&, Mask);
void to_generic_shared(Context&, const Instruction&, Mask);
void from_generic_shared(Context&, const Instruction&, Mask);
/// `option` registers are written from those behind them.
void move_parts(Context&, const Instruction&, Mask);
void widen(Context&, const Instruction&, Mask);
void narrow(Context&, const Instruction&, Mask);
/// The function of an atomic ("add") on a type ("u32"), which adds to an address what a register
/// has; nullptr: not known.
Function find_atomic(const std::string& name, const std::string& type);

// ---- lanes.cpp ----
enum class Source : uint32_t { up, down, butterfly, index };
/// Result, value, lane, segment, mask, whether the lane was there; `option`: Source.
void shuffle(Context&, const Instruction&, Mask);
enum class Vote : uint32_t { ballot, any, all, uniform };
/// Result, predicate, mask; `option`: Vote.
void vote(Context&, const Instruction&, Mask);
/// Result, value, mask.
void match_any(Context&, const Instruction&, Mask);

// ---- matrices.cpp ----
/// d, c [16, 8] float32, a [16, 16], b [16, 8]: d 4 registers, a 4, b 2, c 4.
void multiply_bf16(Context&, const Instruction&, Mask);
void multiply_f16(Context&, const Instruction&, Mask);
/// `elements` matrices of 8 rows of 16 bytes; `option` 1: transposed.
void load_matrices(Context&, const Instruction&, Mask);
void store_matrices(Context&, const Instruction&, Mask);

// ---- copies.cpp: they arrive as late as the waits for them allow ----
/// Place, source, bytes of the source; `size`: bytes of the place.
void copy_async(Context&, const Instruction&, Mask);
void close_group(Context&, const Instruction&, Mask);
/// `option`: groups that need not have arrived.
void wait_for_groups(Context&, const Instruction&, Mask);
void wait_for_copies(Context&, const Instruction&, Mask);
/// Place, source, bytes, barrier.
void copy_bulk(Context&, const Instruction&, Mask);

// ---- barriers.cpp: barriers in shared memory (mbarrier) ----
void barrier_init(Context&, const Instruction&, Mask);
/// State, barrier, arrivals or (`option` 1) bytes.
void barrier_arrive(Context&, const Instruction&, Mask);
/// Barrier, bytes.
void barrier_expect(Context&, const Instruction&, Mask);
/// Result, barrier, state or (`option` 1) parity.
void barrier_test(Context&, const Instruction&, Mask);
/// The thread's copies arrive at the barrier; `option` 1: an arrival that was counted.
void barrier_arrive_after_copies(Context&, const Instruction&, Mask);

}  // namespace plimsoll::ptx
