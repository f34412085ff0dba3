// Functions of this folder that the rest of the program calls (backend/device.h).
#include <algorithm>
#include <memory>
#include <vector>

#include "backend/cuda/step_nodes.h"
#include "backend/device.h"
#include "kernels/backend/cuda_backend.h"
#include "memory/device_overheads.h"

namespace plimsoll::backend {
namespace {

const kernels::CudaBackend& cuda_backend(const Backend& backend) {
  return dynamic_cast<const kernels::CudaBackend&>(backend);
}

}  // namespace

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> devices;
  const int count = kernels::driver_state().devices;
  for (int index = 0; index < count; ++index) {
    DeviceInfo info = kernels::describe_device(index);
    if (info.compute_capability < kernels::kLeastCapability) continue;
    // Without a context on each, which would cost every card half a gigabyte.
    const uint64_t used = kernels::device_bytes_in_use(index).value_or(0);
    info.free_bytes = info.total_bytes - std::min(info.total_bytes, used);
    for (int other = 0; other < count; ++other) {
      if (other != index && kernels::can_read(index, other)) info.peers.push_back(other);
    }
    devices.push_back(info);
  }
  return devices;
}

DriverState driver_state() {
  return kernels::driver_state();
}

std::unique_ptr<Backend> make_device_backend(const DeviceOptions& options) {
  return std::make_unique<kernels::CudaBackend>(options);
}

std::vector<std::string> device_notes(const Backend& backend) {
  return cuda_backend(backend).notes();
}

DeviceMemory device_memory(const Backend& backend, const model::ModelSpec& spec, int64_t graphs,
                           const memory::NcclShape& nccl) {
  const DeviceInfo& device = cuda_backend(backend).device();
  backend.use_here();
  const kernels::ProcessMemory process = kernels::process_memory(device.index);
  const kernels::DeviceMemoryInfo now = kernels::device_memory_info();
  const auto& sizes = dynamic_cast<const CudaFootprint&>(backend.footprint());
  const memory::OverheadShape shape = overhead_shape(spec, sizes.card(), graphs, nccl);
  return {.total = now.total,
          .free = now.free,
          .outside = memory::overhead_bytes(shape),
          .process = process.bytes,
          .source = process.source};
}

}  // namespace plimsoll::backend
