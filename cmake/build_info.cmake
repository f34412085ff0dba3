# What --version tells. Compiler, CUDA and libraries are known when configuring (build_info.cpp, in plimsoll_cli); the commit is asked
# for in every build (commit.cpp, in the program alone).
set(PLIMSOLL_BUILD_CUDA "none")
if(PLIMSOLL_HAS_CUDA)
  string(REPLACE ";" ", " architectures "${CMAKE_CUDA_ARCHITECTURES}")
  set(PLIMSOLL_BUILD_CUDA "${CMAKE_CUDA_COMPILER_VERSION} for ${architectures}; plain attention kernels alone")
  if(flash_sources)
    set(PLIMSOLL_BUILD_CUDA "${CMAKE_CUDA_COMPILER_VERSION} for ${architectures}; FlashInfer 0.6.9")
  endif()
endif()

# xxHash has no version in a CMake variable; its header has.
file(STRINGS ${plimsoll_xxhash_INCLUDE_DIR}/xxhash.h lines REGEX "#define XXH_VERSION_(MAJOR|MINOR|RELEASE) +[0-9]+")
string(REGEX REPLACE "[^0-9;]" "" XXHASH_VERSION "${lines}")
string(REPLACE ";" "." XXHASH_VERSION "${XXHASH_VERSION}")

set(PLIMSOLL_BUILD_LIBRARIES "")
foreach(library "fmt ${fmt_VERSION}" "nlohmann/json ${nlohmann_json_VERSION}" "CLI11 ${CLI11_VERSION}" "PCRE2 ${PCRE2_VERSION}"
    "utf8proc ${UTF8PROC_VERSION}" "SentencePiece ${SENTENCEPIECE_VERSION}" "OpenSSL ${OPENSSL_VERSION}"
    "xxHash ${XXHASH_VERSION}" "zlib ${ZLIB_VERSION_STRING}" "zstd ${ZSTD_VERSION}" "libjpeg ${JPEG_VERSION}" "libpng ${PNG_VERSION_STRING}" "libwebp ${WEBP_libwebp_VERSION}"
    "giflib ${GIF_VERSION}" "xgrammar ${XGRAMMAR_VERSION}")
  list(APPEND PLIMSOLL_BUILD_LIBRARIES ${library})
endforeach()
string(REPLACE ";" ", " PLIMSOLL_BUILD_LIBRARIES "${PLIMSOLL_BUILD_LIBRARIES}")
configure_file(${CMAKE_SOURCE_DIR}/cmake/build_info.cpp.in ${CMAKE_BINARY_DIR}/build_info.cpp @ONLY)

add_custom_target(plimsoll_commit BYPRODUCTS ${CMAKE_BINARY_DIR}/commit.cpp
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${CMAKE_SOURCE_DIR} -D OUTPUT=${CMAKE_BINARY_DIR}/commit.cpp -P ${CMAKE_SOURCE_DIR}/cmake/commit.cmake
  COMMENT "Asking for the commit")
