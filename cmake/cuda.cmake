# The CUDA backend: kernels/ as the library plimsoll_kernels, where there is nvcc. `plimsoll_devices` is what programs link: the
# kernels, or nothing but a list of no devices.
set(PLIMSOLL_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (where nvcc is found), ON, OFF")
set_property(CACHE PLIMSOLL_CUDA PROPERTY STRINGS AUTO ON OFF)

option(PLIMSOLL_LINEINFO "Keep in kernels which line they come from, for profilers" ON)

set(PLIMSOLL_HAS_CUDA OFF)
if(PLIMSOLL_CUDA)
  include(CheckLanguage)
  if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  # Machine code for Ampere (and Ada, of the same major version) and Hopper; PTX for what comes after them.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(PLIMSOLL_HAS_CUDA ON)
  elseif(NOT PLIMSOLL_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "PLIMSOLL_CUDA=${PLIMSOLL_CUDA}, but there is no nvcc; set CUDACXX to its path")
  endif()
endif()

if(PLIMSOLL_HAS_CUDA)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)  # it opens the driver by itself: the program starts without one
  find_package(CUDAToolkit REQUIRED)
  include(cmake/flashinfer.cmake)

  file(GLOB_RECURSE kernel_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*.cu ${CMAKE_SOURCE_DIR}/kernels/*.cpp)
  add_library(plimsoll_kernels STATIC ${kernel_sources})
  plimsoll_add_flash(plimsoll_kernels)
  target_include_directories(plimsoll_kernels PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_definitions(plimsoll_kernels PUBLIC PLIMSOLL_HAS_CUDA=1)
  target_include_directories(plimsoll_kernels SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
  # cuBLASLt is opened when the first product is set up (kernels/products/cublaslt.h), so it is not linked.
  target_link_libraries(plimsoll_kernels PUBLIC plimsoll_backend CUDA::cudart_static Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_options(plimsoll_kernels PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:
    --expt-relaxed-constexpr $<$<BOOL:${PLIMSOLL_LINEINFO}>:-lineinfo> -Xcompiler=-Wall,-Wextra,-Wno-unused-parameter --Wno-deprecated-gpu-targets>)
  if(PLIMSOLL_WERROR)
    target_compile_options(plimsoll_kernels PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
  add_library(plimsoll_devices INTERFACE)
  target_link_libraries(plimsoll_devices INTERFACE plimsoll_kernels)
else()
  add_library(plimsoll_devices INTERFACE)
  target_link_libraries(plimsoll_devices INTERFACE plimsoll_backend)
endif()
