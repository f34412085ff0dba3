// Special registers: where a thread stands in its block and grid.
#include <map>

#include "ptx/names.h"
#include "ptx/state.h"

namespace plimsoll::ptx {
namespace {

unsigned thread_of(unsigned warp, unsigned lane) {
  return warp * kLanes + lane;
}
template <unsigned emulation::Size3::*member>
uint32_t thread_index(const BlockState& block, unsigned warp, unsigned lane) {
  const emulation::Size3 size = block.threads;
  const unsigned thread = thread_of(warp, lane);
  const emulation::Size3 index{thread % size.x, thread / size.x % size.y,
                               thread / (size.x * size.y)};
  return index.*member;
}
template <emulation::Size3 BlockState::*of, unsigned emulation::Size3::*member>
uint32_t of_block(const BlockState& block, unsigned, unsigned) {
  return block.*of.*member;
}
uint32_t lane_number(const BlockState&, unsigned, unsigned lane) {
  return lane;
}
uint32_t warp_number(const BlockState&, unsigned warp, unsigned) {
  return warp;
}
uint32_t lanes_below(const BlockState&, unsigned, unsigned lane) {
  return (Mask{1} << lane) - 1;
}
uint32_t lanes_equal(const BlockState&, unsigned, unsigned lane) {
  return Mask{1} << lane;
}
uint32_t lanes_above(const BlockState& block, unsigned warp, unsigned lane) {
  return ~(lanes_below(block, warp, lane) | lanes_equal(block, warp, lane));
}
uint32_t zero(const BlockState&, unsigned, unsigned) {
  return 0;
}

const std::map<std::string, Special> kSpecials = {
    {"%tid.x", thread_index<&emulation::Size3::x>},
    {"%tid.y", thread_index<&emulation::Size3::y>},
    {"%tid.z", thread_index<&emulation::Size3::z>},
    {"%ntid.x", of_block<&BlockState::threads, &emulation::Size3::x>},
    {"%ntid.y", of_block<&BlockState::threads, &emulation::Size3::y>},
    {"%ntid.z", of_block<&BlockState::threads, &emulation::Size3::z>},
    {"%ctaid.x", of_block<&BlockState::index, &emulation::Size3::x>},
    {"%ctaid.y", of_block<&BlockState::index, &emulation::Size3::y>},
    {"%ctaid.z", of_block<&BlockState::index, &emulation::Size3::z>},
    {"%nctaid.x", of_block<&BlockState::grid, &emulation::Size3::x>},
    {"%nctaid.y", of_block<&BlockState::grid, &emulation::Size3::y>},
    {"%nctaid.z", of_block<&BlockState::grid, &emulation::Size3::z>},
    {"%laneid", lane_number},
    {"%warpid", warp_number},
    {"%lanemask_lt", lanes_below},
    {"%lanemask_eq", lanes_equal},
    {"%lanemask_gt", lanes_above},
    {"%smid", zero},
};

}  // namespace

Special find_special_register(const std::string& name) {
  const auto found = kSpecials.find(name);
  return found == kSpecials.end() ? nullptr : found->second;
}

}  // namespace plimsoll::ptx
