# Writes OUTPUT, a C++ file with the commit of SOURCE, when it changed. Of a release's tarball `git archive` filled in the name below.
set(commit "$Format:%h$")
if(commit MATCHES "Format")
  set(commit unknown)
  execute_process(COMMAND git -C ${SOURCE} rev-parse --show-toplevel OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(top STREQUAL SOURCE)  # not a checkout that this folder happens to lie in
    execute_process(COMMAND git -C ${SOURCE} describe --always --dirty=+ --abbrev=12 --exclude=*
      OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
set(text "#include \"cli/build_info.h\"\nconst char* const plimsoll::cli::kCommit = \"${commit}\";\n")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
