# Instruction sets of the kernel files: the same sources, one file for each set.
function(plimsoll_kernel_flags)
  # No contraction: a product must be rounded alike wherever the compiler puts it.
  set(common -O3 -ffp-contract=off)
  if(PLIMSOLL_SANITIZE)  # takes four times as long at -O3
    set(common -O1 -ffp-contract=off)
  endif()
  set(avx2 ${common} -mavx2 -mfma -mf16c)
  # GCC 12 finds uninitialised values in its own header.
  set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512
      -Wno-uninitialized)
  if(PLIMSOLL_SANITIZE AND NOT PLIMSOLL_SANITIZE_ALL)  # made of AVX2's templates, and half of the time of tests that run models
    list(APPEND avx512 -fno-sanitize=all)
  endif()
  set(avx512bf16 ${avx512} -mavx512bf16)
  set(portable ${common})
  set(isas portable)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND isas avx2 avx512 avx512bf16)
  endif()
  foreach(isa ${isas})
    set_source_files_properties(${CMAKE_SOURCE_DIR}/core/backend/cpu/kernels/kernels_${isa}.cpp
      PROPERTIES COMPILE_OPTIONS "${${isa}}" SKIP_PRECOMPILE_HEADERS ON)
  endforeach()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    # Products that some processors have beside an instruction set: of int8, and in tiles.
    set(integer_vnni ${avx512} -mavx512vnni)
    set(PLIMSOLL_VNNI_FLAGS ${integer_vnni} PARENT_SCOPE)  # for a twin of tiles (tests/CMakeLists.txt)
    set(fixed_vnni ${integer_vnni})
    set(fixed_avx2 ${avx2})
    set(fixed_rows ${avx2})
    set(integer_amx ${integer_vnni} -mamx-tile -mamx-int8)
    set(bf16_amx ${avx512} -mamx-tile -mamx-bf16)
    foreach(product integer_vnni integer_amx fixed_vnni fixed_avx2 fixed_rows bf16_amx)
      set_source_files_properties(${CMAKE_SOURCE_DIR}/core/backend/cpu/kernels/dots/${product}.cpp
        PROPERTIES COMPILE_OPTIONS "${${product}}" SKIP_PRECOMPILE_HEADERS ON)
    endforeach()
  endif()
endfunction()
plimsoll_kernel_flags()
