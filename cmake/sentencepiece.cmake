# SentencePiece from its source distribution on PyPI, at a pinned address and checksum, as a static library: Debian's package has the
# shared one alone. PLIMSOLL_SENTENCEPIECE_DIR names a folder with the file where there is no net.
set(PLIMSOLL_SENTENCEPIECE_DIR "" CACHE PATH "Folder with sentencepiece-0.2.1.tar.gz")
set(SENTENCEPIECE_VERSION 0.2.1)
set(sentencepiece_name sentencepiece-${SENTENCEPIECE_VERSION})
set(sentencepiece_url https://files.pythonhosted.org/packages/15/15/2e7a025fc62d764b151ae6d0f2a92f8081755ebe8d4a64099accc6f77ba6)
set(sentencepiece_sha256 8138cec27c2f2282f4a34d9a016e3374cd40e5c6e9cb335063db66a0a3b71fad)

include(cmake/source_distribution.cmake)
plimsoll_source_distribution(${sentencepiece_name}.tar.gz ${sentencepiece_url} ${sentencepiece_sha256} PLIMSOLL_SENTENCEPIECE_DIR
  sentencepiece_file)
file(ARCHIVE_EXTRACT INPUT ${sentencepiece_file} DESTINATION ${CMAKE_BINARY_DIR})
set(sentencepiece_source ${CMAKE_BINARY_DIR}/${sentencepiece_name}/sentencepiece)

set(SPM_ENABLE_SHARED OFF CACHE BOOL "" FORCE)
set(SPM_ENABLE_TCMALLOC OFF CACHE BOOL "" FORCE)
add_subdirectory(${sentencepiece_source} ${CMAKE_BINARY_DIR}/sentencepiece EXCLUDE_FROM_ALL)
target_include_directories(sentencepiece-static SYSTEM INTERFACE ${sentencepiece_source}/src)
set(PLIMSOLL_SENTENCEPIECE sentencepiece-static)
