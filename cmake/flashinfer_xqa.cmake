# XQA, TensorRT-LLM's kernel of decode attention (Apache-2.0), as FlashInfer's wheel ships it (cmake/flashinfer.cmake has fetched it).
# Compiled for all architectures of the build: a unit takes 9 to 17 seconds of two, and 0.6 GB.
option(PLIMSOLL_XQA "Use TensorRT-LLM's XQA kernels for decode attention where they are faster" ON)

set(xqa_mha_sha256 796cad1a2f4539f5dce1c141e9148e6d8b324442815e1b86e918e222b6f23766)

# plimsoll_adapt_xqa(FROM TO): copies mha.cu without what launches it and with these changes (kernels/attention/xqa_kernel.cuh):
# the heads of a group are an argument, q lies in rows of q, k and v, warps' results are summed in float32, a sequence without
# tokens gives zeros, and memory is read behind the wait for the kernels ahead, whatever the compiler likes better.
function(plimsoll_adapt_xqa from to)
  read_header(text ${from} ${xqa_mha_sha256})
  string(FIND "${text}" "#ifndef GENERATE_CUBIN\nvoid launchMHA(" end)
  if(end EQUAL -1)
    message(FATAL_ERROR "FlashInfer's mha.cu has no launchMHA")
  endif()
  string(SUBSTRING "${text}" 0 ${end} text)
  string(APPEND text "#endif\n")
  replace_exactly(text 2 "    uint32_t const nbKHeads,\n#endif" "    uint32_t const nbKHeads, uint32_t const group,\n#endif")
  replace_exactly(text 1 "kernel_mha_impl(nbKHeads," "kernel_mha_impl(nbKHeads, group,")
  replace_exactly(text 1
    "uint32_t const nbQHeads = nbKHeads * headGrpSize;\n\n  uint32_t const idxHeadGrp = blockIdx.y;"
    "uint32_t const nbQHeads = nbKHeads * group;\n\n  uint32_t const idxHeadGrp = blockIdx.y;")
  # Queries.
  replace_exactly(text 1
    "uint32_t const idxHeadBeg = nbQHeads * beamWidth * idxReq + headGrpSize * idxHeadGrp;"
    "uint32_t const idxHeadBeg = (nbQHeads + 2 * nbKHeads) * idxReq + group * idxHeadGrp;")
  replace_exactly(text 1 "constexpr bool isFullTile = (nbValidRows == warpTile.y);" "constexpr bool isFullTile = false;")
  replace_exactly(text 1 "nbValidRows, localQHeadIdxMap" "group, localQHeadIdxMap")
  # Results.
  replace_exactly(text 1
    "                                             uint32_t idxHeadGrp,\n#endif\n"
    "                                             uint32_t idxHeadGrp, uint32_t group,\n#endif\n")
  replace_exactly(text 1
    "if (nbValidRows * SharedMem::XSmemBuffer::cols % warp_size != 0 && m >= nbValidRows) {"
    "if (m >= group) {")
  replace_exactly(text 1
    "uint32_t const idxHead = headGrpSize * idxHeadGrp + idxInGrp;"
    "uint32_t const idxHead = group * idxHeadGrp + idxInGrp;")
  replace_exactly(text 1
    "nbQHeads, idxHeadGrp,\n                            uint2"
    "nbQHeads, idxHeadGrp, group,\n                            uint2")
  # Sums: as published, this branch does not compile for bf16.
  replace_exactly(text 1 "smemFp16ArraySum<false," "smemFp16ArraySum<true,")
  replace_exactly(text 1
    "      dstGrain = __floats2bfloat162_rn(result);\n"
    "      for (uint32_t e = 0; e < LdGrain::size; e++) dstGrain[e] = float2ToInputElem2(result[e]);\n")
  replace_exactly(text 1
    "rescaleAcc(warp, sumAcc, fullRescaleMask, __frcp_rn(mergedRowSum));"
    "rescaleAcc(warp, sumAcc, fullRescaleMask,
                   cacheSeqLen == 0 ? ThrdRegRowMax::filled(1.F) : __frcp_rn(mergedRowSum));")
  foreach(scale qScale kvScale)  # read before the wait otherwise
    string(REPLACE Scale CacheScale value ${scale})
    string(REPLACE qCache q value ${value})
    replace_exactly(text 1 "${scale}Ptr != nullptr ? ${scale}Ptr[0] : ${value}" "${value}")
  endforeach()
  replace_exactly(text 1
    "  preExit();\n  acqBulk();\n"
    "  preExit();\n  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n")
  # Registers for one block a multiprocessor, where shared memory has no room for two anyway.
  replace_exactly(text 1
    "#else\n#if __CUDA_ARCH__ == 900\nconstexpr uint32_t nbCtaPerSM = 2;"
    "#else\n#if __CUDA_ARCH__ == 900\nconstexpr uint32_t nbCtaPerSM = headElems <= 128 && cacheElemSize == 1 ? 2 : 1;")
  # The flag and the merged maxima of rows lie at one place of shared memory: all read the one before any writes the other.
  replace_exactly(text 1
    "      bool const isLastCta = mbsmem.isLastCta;\n"
    "      bool const isLastCta = mbsmem.isLastCta;\n      __syncthreads();\n")
  file(CONFIGURE OUTPUT ${to} CONTENT "${text}" @ONLY NEWLINE_STYLE UNIX)
endfunction()

# plimsoll_xqa_unit(Q KV HEAD_DIM): writes the translation unit and adds it to the lists `xqa_sources`, `xqa_names`.
function(plimsoll_xqa_unit q kv head_dim)
  set(input_fp16_bf16 0)
  set(input_fp16_f16 1)
  set(cache_bf16 0)
  set(cache_f16 0)
  set(cache_f8_e4m3 2)
  set(UNIT_NAME xqa_${q}_${kv}_${head_dim})
  if(PLIMSOLL_FLASH_SAMPLE AND NOT UNIT_NAME STREQUAL xqa_bf16_bf16_128)
    return()
  endif()
  set(UNIT_INPUT_FP16 ${input_fp16_${q}})
  set(UNIT_CACHE ${cache_${kv}})
  set(UNIT_Q_DTYPE ${q})
  set(UNIT_KV_DTYPE ${kv})
  set(UNIT_HEAD_DIM ${head_dim})
  configure_file(${CMAKE_SOURCE_DIR}/kernels/attention/xqa_unit.cu.in ${CMAKE_BINARY_DIR}/flash/${UNIT_NAME}.cu @ONLY)
  set(xqa_sources ${xqa_sources} ${CMAKE_BINARY_DIR}/flash/${UNIT_NAME}.cu PARENT_SCOPE)
  set(xqa_names ${xqa_names} ${UNIT_NAME} PARENT_SCOPE)
endfunction()

set(xqa_sources "")
set(xqa_names "")
if(flashinfer_include AND PLIMSOLL_XQA)
  set(xqa_folder ${flashinfer_include}/../csrc/xqa)
  if(EXISTS ${xqa_folder}/mha.cu)
    plimsoll_adapt_xqa(${xqa_folder}/mha.cu ${CMAKE_BINARY_DIR}/flash/flashinfer_xqa_mha.cuh)
    foreach(head_dim 64 128 256)
      plimsoll_xqa_unit(bf16 bf16 ${head_dim})
      plimsoll_xqa_unit(bf16 f8_e4m3 ${head_dim})
      plimsoll_xqa_unit(f16 f16 ${head_dim})
    endforeach()
    message(STATUS "Decode attention: TensorRT-LLM's XQA beside FlashInfer's kernels")
  else()
    message(STATUS "Decode attention: no csrc/xqa beside FlashInfer's headers; FlashInfer's kernels alone")
  endif()
endif()

plimsoll_table_of_units(xqa XqaUnit ${xqa_names})

# plimsoll_add_xqa(TARGET): adds table and units to the library of kernels.
function(plimsoll_add_xqa target)
  target_sources(${target} PRIVATE ${CMAKE_BINARY_DIR}/flash/xqa_units.cpp ${xqa_sources})
  if(xqa_sources)
    set_source_files_properties(${xqa_sources} PROPERTIES COMPILE_DEFINITIONS NDEBUG COMPILE_OPTIONS -w
      INCLUDE_DIRECTORIES "${CMAKE_BINARY_DIR}/flash;${xqa_folder}")
  endif()
endfunction()
