# FlashInfer's attention kernels for prefill on Hopper (wgmma; cmake/flashinfer.cmake has fetched them, with the CUTLASS headers
# that they are written over). They are compiled for sm_90a alone, so a build without code for 9.0 has none of them: steps are
# then prefilled by the other kernels. A unit takes 3.2 GB to compile.
option(PLIMSOLL_HOPPER "Use FlashInfer's attention kernels for prefill on Hopper" ON)

set(hopper_utils_sha256 51d1bd1b9cf4c9160c94df802ec236b77bdfaeb751934d40ad878a60389d8631)
set(hopper_mainloop_sha256 f8221219d00124385d13fec69283e6c8cbcc3942c5724e5f95f793b5fe383471)

# plimsoll_adapt_hopper(HEADERS TO): copies utils.cuh and sparse_mainloop.cuh with these changes: nothing is read of what lies
# before the first position that a query tile sees, whose blocks may be somebody else's or nobody's (kernels/attention/
# hopper_kernel.cuh). Without a window nothing changes.
function(plimsoll_adapt_hopper headers to)
  read_header(text ${headers}/utils.cuh ${hopper_utils_sha256})
  replace_exactly(text 1
    "return std::max((q_tile_idx * CTA_Q + kv_len - qo_len - window_left) / CTA_KV - 1, 0);"
    "return std::max(q_tile_idx * CTA_Q + kv_len - qo_len - window_left, 0) / CTA_KV;")
  file(CONFIGURE OUTPUT ${to}/flashinfer_hopper_utils.cuh CONTENT "${text}" @ONLY NEWLINE_STYLE UNIX)

  read_header(text ${headers}/sparse_mainloop.cuh ${hopper_mainloop_sha256})
  replace_exactly(text 1
    "    constexpr int HEAD_DIM_QK = get<2>(TileShape_QKD{});
    constexpr int HEAD_DIM_VO"
    "    // The first position that is read.
    const int kv_first =
        LEFT_SLIDING_WINDOW
            ? std::max(q_tile_idx * CTA_Q + kv_len - qo_len - mainloop_params.window_left, 0)
            : 0;
    constexpr int HEAD_DIM_QK = get<2>(TileShape_QKD{});
    constexpr int HEAD_DIM_VO")
  replace_exactly(text 1
    "(!use_predicate || kv_idx_read < kv_len);"
    "(!use_predicate || kv_idx_read < kv_len) &&
          (!LEFT_SLIDING_WINDOW || kv_idx_read >= kv_first);")
  replace_exactly(text 1
    "bool guard = !use_predicate || kv_idx < kv_len;"
    "bool guard = (!use_predicate || kv_idx < kv_len) &&
                     (!LEFT_SLIDING_WINDOW || kv_idx >= kv_first);")
  replace_exactly(text 1 "prefetch_kv_offset(0, false);" "prefetch_kv_offset(swa_begin_kv_tile_idx, false);")
  replace_exactly(text 1
    "load_kv_with_gather(tVsV, tVcV, V_ptr_base, 0, smem_pipe_write_v.index(), false);"
    "load_kv_with_gather(tVsV, tVcV, V_ptr_base, swa_begin_kv_tile_idx,
                            smem_pipe_write_v.index(), false);")
  file(CONFIGURE OUTPUT ${to}/flashinfer_hopper_sparse_mainloop.cuh CONTENT "${text}" @ONLY NEWLINE_STYLE UNIX)
endfunction()

# plimsoll_hopper_unit(TYPE HEAD_DIM): writes the translation unit and adds it to the lists `hopper_sources`, `hopper_names`.
function(plimsoll_hopper_unit dtype head_dim)
  set(type_bf16 cutlass::bfloat16_t)
  set(type_f16 cutlass::half_t)
  set(UNIT_NAME hopper_${dtype}_${head_dim})
  if(PLIMSOLL_FLASH_SAMPLE AND NOT UNIT_NAME STREQUAL hopper_bf16_128)
    return()
  endif()
  set(UNIT_TYPE ${type_${dtype}})
  set(UNIT_DTYPE ${dtype})
  set(UNIT_HEAD_DIM ${head_dim})
  configure_file(${CMAKE_SOURCE_DIR}/kernels/attention/hopper_unit.cu.in ${CMAKE_BINARY_DIR}/flash/${UNIT_NAME}.cu @ONLY)
  set(hopper_sources ${hopper_sources} ${CMAKE_BINARY_DIR}/flash/${UNIT_NAME}.cu PARENT_SCOPE)
  set(hopper_names ${hopper_names} ${UNIT_NAME} PARENT_SCOPE)
endfunction()

set(hopper_sources "")
set(hopper_names "")
if(flashinfer_include AND PLIMSOLL_HOPPER AND CMAKE_CUDA_ARCHITECTURES MATCHES "(^|;)90a?(-real|-virtual)?(;|$)")
  set(cutlass_include ${flashinfer_include}/../cutlass/include)
  if(EXISTS ${cutlass_include}/cutlass/version.h)
    plimsoll_adapt_hopper(${flashinfer_include}/flashinfer/attention/hopper ${CMAKE_BINARY_DIR}/flash)
    foreach(dtype bf16 f16)
      foreach(head_dim 64 128 256)
        plimsoll_hopper_unit(${dtype} ${head_dim})
      endforeach()
    endforeach()
    message(STATUS "Attention on Hopper: FlashInfer 0.6.9's kernels for prefill")
  else()
    message(STATUS "Attention on Hopper: no CUTLASS headers beside FlashInfer's; prefill takes the other kernels")
  endif()
endif()

plimsoll_table_of_units(hopper HopperUnit ${hopper_names})

# plimsoll_add_hopper(TARGET): adds table and units to the library of kernels. The units are objects of their own, because no
# source of a target can be for another architecture than the others.
function(plimsoll_add_hopper target)
  target_sources(${target} PRIVATE ${CMAKE_BINARY_DIR}/flash/hopper_units.cpp)
  if(NOT hopper_sources)
    return()
  endif()
  add_library(${target}_hopper OBJECT ${hopper_sources})
  set(kind real)
  if(PLIMSOLL_PTX_ALONE)
    set(kind virtual)
  endif()
  set_target_properties(${target}_hopper PROPERTIES CUDA_ARCHITECTURES 90a-${kind})
  target_include_directories(${target}_hopper PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/core)
  target_include_directories(${target}_hopper SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/flash ${flashinfer_include}
    ${flashinfer_include}/flashinfer/attention/hopper ${cutlass_include} ${CUDAToolkit_INCLUDE_DIRS})
  # Without NDEBUG assertions keep the products of a warp group from running side by side.
  target_compile_definitions(${target}_hopper PRIVATE NDEBUG PLIMSOLL_HAS_CUDA=1)
  target_link_libraries(${target}_hopper PRIVATE plimsoll_backend)
  target_compile_options(${target}_hopper PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -w>)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_hopper>)
endfunction()
