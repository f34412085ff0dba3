# xgrammar's C++ core from its source distribution on PyPI (Apache-2.0), at a pinned address and checksum, as the static library
# `xgrammar`. PLIMSOLL_XGRAMMAR_DIR names a folder with the file where there is no net.
set(PLIMSOLL_XGRAMMAR_DIR "" CACHE PATH "Folder with xgrammar-0.2.8.tar.gz")
set(XGRAMMAR_VERSION 0.2.8)
set(xgrammar_name xgrammar-${XGRAMMAR_VERSION})
set(xgrammar_url https://files.pythonhosted.org/packages/03/0f/29f521535729be740779c2c98b630ef6607cf28be9b669895dd2b821ff63)
set(xgrammar_sha256 8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80)

include(cmake/source_distribution.cmake)
plimsoll_source_distribution(${xgrammar_name}.tar.gz ${xgrammar_url} ${xgrammar_sha256} PLIMSOLL_XGRAMMAR_DIR xgrammar_file)
set(xgrammar_source ${CMAKE_BINARY_DIR}/${xgrammar_name})
if(NOT EXISTS ${xgrammar_source}/3rdparty/dlpack/include/dlpack/dlpack.h)
  file(ARCHIVE_EXTRACT INPUT ${xgrammar_file} DESTINATION ${CMAKE_BINARY_DIR} PATTERNS
    ${xgrammar_name}/cpp/* ${xgrammar_name}/include/* ${xgrammar_name}/3rdparty/picojson/* ${xgrammar_name}/3rdparty/dlpack/include/*
    ${xgrammar_name}/LICENSE ${xgrammar_name}/NOTICE)
endif()

# Its own CMakeLists.txt sets flags of the whole project. These are the sources that it compiles without Python bindings, less three
# compilers that plimsoll does not call.
file(GLOB xgrammar_sources ${xgrammar_source}/cpp/*.cc ${xgrammar_source}/cpp/support/*.cc)
list(FILTER xgrammar_sources EXCLUDE REGEX "/(json_schema_converter|lark_converter|structural_tag)\\.cc$")
add_library(xgrammar STATIC EXCLUDE_FROM_ALL ${xgrammar_sources} ${CMAKE_SOURCE_DIR}/cmake/xgrammar_left_out.cpp)
# As a few units, which halves the compiler's work.
set_target_properties(xgrammar PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
target_include_directories(xgrammar SYSTEM PUBLIC ${xgrammar_source}/include ${xgrammar_source}/3rdparty/dlpack/include)
target_include_directories(xgrammar SYSTEM PRIVATE ${xgrammar_source}/3rdparty/picojson ${xgrammar_source}/cpp)
target_compile_definitions(xgrammar PUBLIC XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
target_compile_options(xgrammar PRIVATE -w $<$<CONFIG:Release>:-O2>)
target_link_libraries(xgrammar PUBLIC Threads::Threads)
