// Loads, stores and atomics.
#include <atomic>
#include <cstring>

#include "ptx/instructions.h"
#include "ptx/operands.h"

namespace plimsoll::ptx {
namespace {

bool is_watched(const Context& c, const std::byte* at) {
  const std::span<std::byte> shared = c.block.shared;
  return c.block.races != nullptr && at >= shared.data() && at < shared.data() + shared.size();
}
size_t offset_of(const Context& c, const std::byte* at) {
  return static_cast<size_t>(at - c.block.shared.data());
}

uint64_t address_of(const Context& c, const Instruction& i, size_t operand, unsigned lane) {
  return get_bits(c, i, operand, lane) + static_cast<uint64_t>(i.offset);
}

uint64_t extend(uint64_t value, unsigned bytes) {
  const unsigned unused = 64 - 8 * bytes;
  return static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused);
}

}  // namespace

std::byte* place(Context& c, const Instruction& i, Space space, uint64_t address, size_t bytes) {
  if ((address & (bytes - 1)) != 0) fault(c, i, "misaligned address");  // sizes are powers of two
  if (space == Space::parameter) return reinterpret_cast<std::byte*>(address);
  if (space == Space::shared) {
    const uint64_t offset = address - kSharedBase;
    if (offset > c.block.shared.size() || bytes > c.block.shared.size() - offset)
      fault(c, i,
            "shared memory past the end: byte " + std::to_string(offset) + " of " +
                std::to_string(c.block.shared.size()));
    return c.block.shared.data() + offset;
  }
  std::byte* const at = c.block.find(address, bytes);
  if (at == nullptr) fault(c, i, "an address outside all memory of the device");
  return at;
}

void note_read(Context& c, const Instruction& i, const std::byte* at, size_t bytes) {
  if (!is_watched(c, at)) return;
  const auto other = c.block.races->read(offset_of(c, at), bytes, c.warp.number);
  if (other)
    fault(c, i,
          "reads byte " + std::to_string(offset_of(c, at)) + " of shared memory that warp " +
              std::to_string(*other) + " writes, without a barrier");
}

void note_write(Context& c, const Instruction& i, const std::byte* at, size_t bytes, Write how) {
  if (!is_watched(c, at)) return;
  const auto other = c.block.races->write(offset_of(c, at), bytes, c.warp.number, how);
  if (other)
    fault(c, i,
          "writes byte " + std::to_string(offset_of(c, at)) + " of shared memory that warp " +
              std::to_string(*other) + " uses, without a barrier");
}

void do_nothing(Context&, const Instruction&, Mask) {}

namespace {

template <typename T>
void load_as(Context& c, const Instruction& i, Mask lanes) {
  const size_t bytes = sizeof(T) * i.elements;
  for_lanes(lanes, [&](unsigned lane) {
    const std::byte* at = place(c, i, i.space, address_of(c, i, i.elements, lane), bytes);
    note_read(c, i, at, bytes);
    for (size_t element = 0; element < i.elements; ++element, at += sizeof(T)) {
      T value;
      std::memcpy(&value, at, sizeof value);
      put_bits(c, i, element, lane, i.is_signed ? extend(value, sizeof(T)) : value);
    }
  });
}

template <typename T>
void store_as(Context& c, const Instruction& i, Mask lanes) {
  const size_t bytes = sizeof(T) * i.elements;
  for_lanes(lanes, [&](unsigned lane) {
    std::byte* at = place(c, i, i.space, address_of(c, i, i.elements, lane), bytes);
    for (size_t element = 0; element < i.elements; ++element, at += sizeof(T)) {
      const auto value = static_cast<T>(get_bits(c, i, element, lane));
      note_write(c, i, at, sizeof(T), {.same = std::memcmp(at, &value, sizeof value) == 0});
      std::memcpy(at, &value, sizeof value);
    }
  });
}

}  // namespace

Function find_load(size_t bytes) {
  if (bytes == 1) return load_as<uint8_t>;
  if (bytes == 2) return load_as<uint16_t>;
  return bytes == 4 ? load_as<uint32_t> : load_as<uint64_t>;
}

Function find_store(size_t bytes) {
  if (bytes == 1) return store_as<uint8_t>;
  if (bytes == 2) return store_as<uint16_t>;
  return bytes == 4 ? store_as<uint32_t> : store_as<uint64_t>;
}

void load_acquiring(Context& c, const Instruction& i, Mask lanes) {
  emulation::let_others_run();
  find_load(i.size)(c, i, lanes);
}

namespace {

uint64_t generic_base(const Context& c) {
  return reinterpret_cast<uint64_t>(c.block.shared.data()) - kSharedBase;
}

}  // namespace

void to_generic_shared(Context& c, const Instruction& i, Mask lanes) {
  for_lanes(lanes, [&](unsigned lane) {
    put_bits(c, i, 0, lane, get_bits(c, i, 1, lane) + generic_base(c));
  });
}

void from_generic_shared(Context& c, const Instruction& i, Mask lanes) {
  for_lanes(lanes, [&](unsigned lane) {
    put_bits(c, i, 0, lane, get_bits(c, i, 1, lane) - generic_base(c));
  });
}

void widen(Context& c, const Instruction& i, Mask lanes) {
  for_lanes(lanes,
            [&](unsigned lane) { put<uint64_t>(c, i, 0, lane, get<uint32_t>(c, i, 1, lane)); });
}

void narrow(Context& c, const Instruction& i, Mask lanes) {
  for_lanes(lanes, [&](unsigned lane) {
    put(c, i, 0, lane, static_cast<uint32_t>(get<uint64_t>(c, i, 1, lane)));
  });
}

namespace {

/// Bits of a part of a register that is cut into `parts`.
uint64_t part_of(uint64_t whole, unsigned bits, size_t part) {
  const uint64_t ones = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return whole >> (bits * part) & ones;
}
unsigned bits_of(const Instruction& i, size_t operand, size_t parts) {
  return (i.operands[operand].kind == Kind::wide ? 64 : 32) / static_cast<unsigned>(parts);
}

}  // namespace

void move_parts(Context& c, const Instruction& i, Mask lanes) {
  const size_t results = i.option, sources = i.count - results;
  for_lanes(lanes, [&](unsigned lane) {
    if (results == 1) {
      const unsigned bits = bits_of(i, 0, sources);
      uint64_t whole = 0;
      for (size_t part = 0; part < sources; ++part)
        whole |= part_of(get_bits(c, i, 1 + part, lane), bits, 0) << (bits * part);
      put_bits(c, i, 0, lane, whole);
      return;
    }
    const unsigned bits = bits_of(i, results, results);
    const uint64_t whole = get_bits(c, i, results, lane);
    for (size_t part = 0; part < results; ++part)
      put_bits(c, i, part, lane, part_of(whole, bits, part));
  });
}

namespace {

uint32_t sum(uint32_t old, uint32_t value) {
  return old + value;
}
uint32_t wrapped_increment(uint32_t old, uint32_t most) {
  return old >= most ? 0 : old + 1;
}

template <uint32_t (*F)(uint32_t, uint32_t)>
void change(Context& c, const Instruction& i, Mask lanes) {
  for_lanes(lanes, [&](unsigned lane) {
    std::byte* const at = place(c, i, i.space, address_of(c, i, 1, lane), sizeof(uint32_t));
    note_write(c, i, at, sizeof(uint32_t), {.atomic = true});
    const std::atomic_ref<uint32_t> word(*reinterpret_cast<uint32_t*>(at));
    uint32_t old = word.load();
    while (!word.compare_exchange_weak(old, F(old, get<uint32_t>(c, i, 2, lane)))) {
    }
    put_bits(c, i, 0, lane, old);
  });
}

}  // namespace

Function find_atomic(const std::string& name, const std::string& type) {
  if (type != "u32") return nullptr;
  if (name == "add") return change<sum>;
  if (name == "inc") return change<wrapped_increment>;
  return nullptr;
}

}  // namespace plimsoll::ptx
