// Lets copies arrive that go on beside the threads.
#pragma once

#include "ptx/state.h"

namespace plimsoll::ptx {

/// Bulk copies begin and end at multiples of so many bytes.
inline constexpr uint32_t kBulkUnit = 16;

/// Those of a lane, but for its youngest `others` groups.
void bring(Context& c, unsigned lane, size_t others);
/// Those of a lane, of the open group too.
void bring_all(Context& c, unsigned lane);
/// The oldest bulk copy of a barrier, of `bytes`; false: there is none.
bool bring_bulk(Context& c, const void* barrier, uint32_t& bytes);

}  // namespace plimsoll::ptx
