# FlashInfer's header-only attention kernels (Apache-2.0), for the CUDA backend's fast path.
#
# The headers come from the wheel on PyPI, at a pinned address and checksum: PLIMSOLL_FLASHINFER_DIR (an unpacked wheel, or a
# folder with the wheel in it), else downloaded to the build folder once. Without them the build has the plain kernels alone.
# No other version fits: from 0.6.10 on the headers need a newer CCCL than the toolkit's, and the changes below are made to
# these files.
set(PLIMSOLL_FLASHINFER_DIR "" CACHE PATH "Folder with flashinfer_python-0.6.9-py3-none-any.whl, or with the wheel unpacked")
option(PLIMSOLL_FLASHINFER "Use FlashInfer's attention kernels" ON)
option(PLIMSOLL_FLASH_SAMPLE "Of their units build each type and head size once: for tests where there is no card" OFF)

set(flashinfer_wheel flashinfer_python-0.6.9-py3-none-any.whl)
set(flashinfer_url https://files.pythonhosted.org/packages/fa/fd/1d1b03d696cee94b387b2e3ee58c23a00fc74bb34b77a7bbdaf63012c530/${flashinfer_wheel})
set(flashinfer_sha256 46d013119ecd039a5844c4847325b3571f99cdd8fd9e00839bf008c67b15811a)
set(flashinfer_licence_path flashinfer_python-0.6.9.dist-info/licenses/LICENSE)
set(flashinfer_prefill_sha256 30375ad157ffd9532256f60c6c9a487fc8553a40cbab4dbf409d3b7759172c8f)

# plimsoll_find_flashinfer(RESULT): the folder of unpacked headers, or nothing.
function(plimsoll_find_flashinfer result)
  set(${result} "" PARENT_SCOPE)
  set(cache ${CMAKE_BINARY_DIR}/flashinfer)
  set(headers flashinfer/data/include)
  if(PLIMSOLL_FLASHINFER_DIR AND EXISTS ${PLIMSOLL_FLASHINFER_DIR}/${headers}/flashinfer/page.cuh)
    set(${result} ${PLIMSOLL_FLASHINFER_DIR}/${headers} PARENT_SCOPE)
    return()
  endif()
  set(wheel ${cache}/${flashinfer_wheel})
  if(PLIMSOLL_FLASHINFER_DIR)
    set(wheel ${PLIMSOLL_FLASHINFER_DIR}/${flashinfer_wheel})
  endif()
  set(found "")
  if(EXISTS ${wheel})
    file(SHA256 ${wheel} found)
  endif()
  if(NOT found STREQUAL flashinfer_sha256 AND NOT PLIMSOLL_FLASHINFER_DIR)
    message(STATUS "Downloading ${flashinfer_wheel} (9.5 MB)")
    file(DOWNLOAD ${flashinfer_url} ${wheel} TLS_VERIFY ON TIMEOUT 300 INACTIVITY_TIMEOUT 30 STATUS status)
    file(SHA256 ${wheel} found)
  endif()
  if(NOT found STREQUAL flashinfer_sha256)
    message(STATUS "FlashInfer: ${wheel} is not there or not the pinned one ${status}; PLIMSOLL_FLASHINFER_DIR may name its folder")
    return()
  endif()
  if(NOT EXISTS ${cache}/${headers}/flashinfer/page.cuh)
    file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${cache} PATTERNS ${headers}/flashinfer/* ${flashinfer_licence_path})
  endif()
  if(PLIMSOLL_HAS_CUDA AND NOT EXISTS ${cache}/flashinfer/data/cutlass/include/cutlass/version.h)  # flashinfer_hopper.cmake, 28 MB
    file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${cache} PATTERNS flashinfer/data/cutlass/include/*)
  endif()
  set(${result} ${cache}/${headers} PARENT_SCOPE)
endfunction()

# replace_exactly(VARIABLE COUNT FROM TO): FROM must be in the text COUNT times.
function(replace_exactly variable count from to)
  set(text "${${variable}}")
  string(LENGTH "${text}" before)
  string(LENGTH "${from}" from_length)
  string(REPLACE "${from}" "" without "${text}")
  string(LENGTH "${without}" after)
  math(EXPR found "(${before} - ${after}) / ${from_length}")
  if(NOT found EQUAL count)
    message(FATAL_ERROR "FlashInfer's header has '${from}' ${found} times, not ${count}")
  endif()
  string(REPLACE "${from}" "${to}" text "${text}")
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

# read_header(VARIABLE FILE SHA256): its text, which must be the pinned one.
function(read_header variable file expected)
  file(READ ${file} text)
  string(SHA256 sum "${text}")
  if(NOT sum STREQUAL expected)
    message(FATAL_ERROR "${file} is not of FlashInfer 0.6.9")
  endif()
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

# plimsoll_adapt_flashinfer(FROM TO): copies attention/prefill.cuh with these changes: columns_of() (kernels/attention/flash_kernel.cuh)
# says how many columns a head has; loads of columns beyond give zeros, stores leave them out, and rows of the output are that
# much apart. With as many columns as the tile has, nothing changes. Rows may see what is behind them (images).
function(plimsoll_adapt_flashinfer from to)
  read_header(text ${from} ${flashinfer_prefill_sha256})
  # The C++ that other compilers than nvcc ask for (tests/flash).
  replace_exactly(text 2 "qo_smem.get_permuted_offset<" "qo_smem.template get_permuted_offset<")
  replace_exactly(text 4 ">::cast<8>(" ">::template cast<8>(")
  # Columns go to the functions that load and store as their first argument.
  foreach(function load_q_global_smem page_produce_kv write_o_reg_gmem)
    if(function STREQUAL page_produce_kv)
      replace_exactly(text 1 "void page_produce_kv(typename" "void page_produce_kv(const uint32_t columns, typename")
      replace_exactly(text 2 "page_produce_kv<false, KTraits>(" "page_produce_kv<false, KTraits>(columns_of<KTraits>(params), ")
      replace_exactly(text 2 "page_produce_kv<true, KTraits>(" "page_produce_kv<true, KTraits>(columns_of<KTraits>(params), ")
    else()
      replace_exactly(text 1 "void ${function}(\n" "void ${function}(const uint32_t columns,\n")
      replace_exactly(text 3 "${function}<KTraits>(" "${function}<KTraits>(columns_of<KTraits>(params), ")
    endif()
  endforeach()
  # Queries.
  replace_exactly(text 1
    "load_128b_async<SharedMemFillMode::kNoFill>(q_smem_offset_w, q_ptr,
                                                                       q_idx < qo_upper_bound)"
    "load_128b_async<SharedMemFillMode::kFillZero>(
              q_smem_offset_w, q_ptr,
              q_idx < qo_upper_bound && (mma_do * 8 + lane_idx % 8) * upcast_size<DTypeQ>() < columns)")
  # Keys and values, in rows of 128 bytes and of 64.
  replace_exactly(text 1
    "  constexpr SharedMemFillMode fill_mode =
      produce_v ? SharedMemFillMode"
    "  constexpr SharedMemFillMode fill_mode =
      produce_v || KTraits::AttentionVariant::kGeneral ? SharedMemFillMode")
  replace_exactly(text 1
    "        smem.load_128b_async<fill_mode>(*smem_offset, gptr, kv_idx < kv_len);
        *smem_offset"
    "        smem.template load_128b_async<fill_mode>(
            *smem_offset, gptr,
            kv_idx < kv_len && (j * 8 + lane_idx % 8) * upcast_size<DType>() < columns);
        *smem_offset")
  replace_exactly(text 1
    "      smem.load_128b_async<fill_mode>(*smem_offset, gptr, kv_idx < kv_len);
      kv_idx"
    "      smem.template load_128b_async<fill_mode>(
          *smem_offset, gptr, kv_idx < kv_len && (lane_idx % 4) * upcast_size<DType>() < columns);
      kv_idx")
  # Results in f32 and in 16 bits.
  replace_exactly(text 1
    "          if (o_idx < qo_upper_bound) {
            *reinterpret_cast<float2*>"
    "          if (o_idx < qo_upper_bound && mma_d * 16 < columns) {
            *reinterpret_cast<float2*>")
  replace_exactly(text 1
    "            *reinterpret_cast<float2*>(o_ptr_base + q * o_stride_n + r * o_stride_h + mma_d * 16 +
                                       8 +"
    "            if (mma_d * 16 + 8 < columns) *reinterpret_cast<float2*>(o_ptr_base + q * o_stride_n + r * o_stride_h + mma_d * 16 +
                                       8 +")
  replace_exactly(text 1
    "            if (o_idx < qo_upper_bound) {
              o_smem->store_128b"
    "            if (o_idx < qo_upper_bound &&
                (mma_do * 8 + lane_idx % 8) * upcast_size<DTypeO>() < columns) {
              o_smem->store_128b")
  replace_exactly(text 3
    "o_stride_n = num_qo_heads * HEAD_DIM_VO, o_stride_h = HEAD_DIM_VO;"
    "o_stride_n = num_qo_heads * columns_of<KTraits>(params),
                   o_stride_h = columns_of<KTraits>(params);")
  # What rows see beyond their own positions: is_causal() and sees_all() of flash_kernel.cuh.
  replace_exactly(text 1
    "? (kv_idx + qo_len > kv_len + q_idx || (kv_idx >= chunk_end))"
    "? ((is_causal<KTraits>(params) && kv_idx + qo_len > kv_len + q_idx) || (kv_idx >= chunk_end))")
  replace_exactly(text 1
    "      num_iterations = ceil_div(
          (MASK_MODE == MaskMode::kCausal
"
    "      num_iterations = ceil_div(
          (MASK_MODE == MaskMode::kCausal && is_causal<KTraits>(params)
")
  replace_exactly(text 1
    "        (MASK_MODE == MaskMode::kCausal || MASK_MODE == MaskMode::kMultiItemScoring
             ? min(chunk_size,"
    "        ((MASK_MODE == MaskMode::kCausal || MASK_MODE == MaskMode::kMultiItemScoring) && !sees_all<KTraits>(params)
             ? min(chunk_size,")
  file(CONFIGURE OUTPUT ${to} CONTENT "${text}" @ONLY NEWLINE_STYLE UNIX)
endfunction()

# plimsoll_flash_unit(Q KV HEAD_DIM GENERAL): writes the translation unit of one combination and adds it to the lists
# `flash_sources`, `flash_names`. bf16 and f16 compute, e4m3 is stored only; GENERAL as in FlashUnit.
function(plimsoll_flash_unit q kv head_dim general)
  set(type_bf16 __nv_bfloat16)
  set(type_f16 __half)
  set(type_f8_e4m3 __nv_fp8_e4m3)
  set(kind_true general)
  set(kind_false exact)
  set(UNIT_NAME flash_${q}_${kv}_${head_dim}_${kind_${general}})
  if(PLIMSOLL_FLASH_SAMPLE AND NOT UNIT_NAME IN_LIST flash_sample)
    return()
  endif()
  set(UNIT_Q ${type_${q}})
  set(UNIT_KV ${type_${kv}})
  set(UNIT_Q_DTYPE ${q})
  set(UNIT_KV_DTYPE ${kv})
  set(UNIT_HEAD_DIM ${head_dim})
  set(UNIT_GENERAL ${general})
  configure_file(${CMAKE_SOURCE_DIR}/kernels/attention/flash_unit.cu.in ${CMAKE_BINARY_DIR}/flash/${UNIT_NAME}.cu @ONLY)
  set(flash_sources ${flash_sources} ${CMAKE_BINARY_DIR}/flash/${UNIT_NAME}.cu PARENT_SCOPE)
  set(flash_names ${flash_names} ${UNIT_NAME} PARENT_SCOPE)
endfunction()

# The units. Exact ones are for what most models are; the general ones cover everything else.
set(flash_sample flash_bf16_bf16_64_general flash_bf16_bf16_128_general flash_bf16_bf16_256_general flash_bf16_bf16_128_exact
  flash_bf16_f8_e4m3_128_general flash_f16_f16_128_general flash_f16_f8_e4m3_64_general)
set(flash_sources "")
set(flash_names "")
set(flashinfer_include "")
if(PLIMSOLL_FLASHINFER)
  plimsoll_find_flashinfer(flashinfer_include)
endif()
if(flashinfer_include)
  file(GLOB flashinfer_licence ${flashinfer_include}/../../../${flashinfer_licence_path})
  plimsoll_adapt_flashinfer(${flashinfer_include}/flashinfer/attention/prefill.cuh
    ${CMAKE_BINARY_DIR}/flash/flashinfer_prefill.cuh)
  foreach(head_dim 64 128 256)
    foreach(kv bf16 f8_e4m3)
      plimsoll_flash_unit(bf16 ${kv} ${head_dim} true)
    endforeach()
    foreach(kv f16 f8_e4m3)
      plimsoll_flash_unit(f16 ${kv} ${head_dim} true)
    endforeach()
  endforeach()
  foreach(head_dim 64 128)
    plimsoll_flash_unit(bf16 bf16 ${head_dim} false)
  endforeach()
  plimsoll_flash_unit(bf16 f8_e4m3 128 false)
  message(STATUS "Attention: FlashInfer 0.6.9's kernels")
elseif(PLIMSOLL_HAS_CUDA)
  message(STATUS "Attention: plain kernels alone, a fraction as fast")
endif()

# plimsoll_table_of_units(KERNEL TYPE NAME ...): KERNEL_units.cpp, the table of units, empty without names.
function(plimsoll_table_of_units UNIT_KERNEL UNIT_TYPE)
  set(UNIT_DECLARATIONS "")
  set(UNIT_CALLS "")
  foreach(name ${ARGN})
    string(APPEND UNIT_DECLARATIONS "${UNIT_TYPE} ${name}();\n")
    string(APPEND UNIT_CALLS "      ${name}(),\n")
  endforeach()
  configure_file(${CMAKE_SOURCE_DIR}/kernels/attention/units.cpp.in ${CMAKE_BINARY_DIR}/flash/${UNIT_KERNEL}_units.cpp @ONLY)
endfunction()

plimsoll_table_of_units(flash FlashUnit ${flash_names})

# plimsoll_add_flash(TARGET): adds table and units to the library of kernels.
function(plimsoll_add_flash target)
  target_sources(${target} PRIVATE ${CMAKE_BINARY_DIR}/flash/flash_units.cpp ${flash_sources})
  if(flash_sources)
    # The adapted header includes its neighbours by paths relative to the folder that it comes from.
    set_source_files_properties(${flash_sources} PROPERTIES COMPILE_DEFINITIONS NDEBUG
      INCLUDE_DIRECTORIES "${CMAKE_BINARY_DIR}/flash;${flashinfer_include}/flashinfer/attention")
  endif()
endfunction()
