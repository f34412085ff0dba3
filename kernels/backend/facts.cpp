// backend/device_facts.h
#include "backend/device_facts.h"

#include <dlfcn.h>

#include "base/error.h"
#include "kernels/attention/flash_kernel.h"
#include "kernels/attention/hopper_kernel.h"
#include "kernels/products/cublaslt.h"
#include "kernels/runtime/code.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/nvml.h"

namespace plimsoll::backend {

DeviceFacts device_facts(int index) {
  kernels::use_device(index);
  kernels::require_code(kernels::describe_device(index));
  DeviceFacts facts;
  facts.code = kernels::code_capability();
  facts.overlaps = kernels::code_overlaps();
  facts.attention = kernels::flash_units().empty() ? "plain kernels alone" : "FlashInfer 0.6.9";
  if (!kernels::hopper_units().empty()) facts.attention += ", with kernels for prefill on Hopper";
  facts.has_nvml = kernels::Nvml::installed().is_there();
  try {
    const kernels::CublasLt& products = kernels::cublaslt();
    facts.products_version = products.version;
    Dl_info where{};
    if (dladdr(reinterpret_cast<const void*>(products.create), &where) != 0 &&
        where.dli_fname != nullptr) {
      facts.products = where.dli_fname;
    }
  } catch (const Error& error) {
    facts.products_trouble = error.what();
  }
  return facts;
}

}  // namespace plimsoll::backend
