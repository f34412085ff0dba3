# `cmake --install`, the .deb (cpack -G DEB) and what the wheel holds (pyproject.toml): program, man pages, completions, licences.
include(GNUInstallDirs)
if(SKBUILD)  # pip puts these below the environment's prefix
  set(CMAKE_INSTALL_BINDIR ${SKBUILD_SCRIPTS_DIR})
  set(CMAKE_INSTALL_DATADIR ${SKBUILD_DATA_DIR}/share)
  set(CMAKE_INSTALL_MANDIR ${SKBUILD_DATA_DIR}/share/man)
  set(CMAKE_INSTALL_DOCDIR ${SKBUILD_DATA_DIR}/share/doc/plimsoll)
  if(PLIMSOLL_HAS_CUDA)  # where pip's nvidia-cublas wheels lie beside it
    foreach(python RANGE 9 15)
      foreach(folder cu13 cublas)
        list(APPEND rpath "$ORIGIN/../lib/python3.${python}/site-packages/nvidia/${folder}/lib")
      endforeach()
    endforeach()
    set_target_properties(plimsoll PROPERTIES INSTALL_RPATH "${rpath}")
  endif()
endif()

set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # cpack packs what is built, without building every test first
install(TARGETS plimsoll RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(PLIMSOLL_MPI_PLUGINS AND NOT SKBUILD)  # found from the program (cli/run/fleet.cpp); a wheel would take MPI along
  install(TARGETS ${PLIMSOLL_MPI_PLUGINS} LIBRARY DESTINATION lib/plimsoll)
endif()
file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/man/*.1)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# The program prints its completions itself.
install(CODE "
  foreach(shell bash zsh fish)
    execute_process(COMMAND $<TARGET_FILE:plimsoll> --completion \${shell} OUTPUT_FILE ${CMAKE_BINARY_DIR}/completion.\${shell}
      RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR \"plimsoll --completion \${shell}: \${failed}\")
    endif()
  endforeach()")
install(FILES ${CMAKE_BINARY_DIR}/completion.bash RENAME plimsoll DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${CMAKE_BINARY_DIR}/completion.zsh RENAME _plimsoll DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${CMAKE_BINARY_DIR}/completion.fish RENAME plimsoll.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE RENAME copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Licences of what is linked, as Debian's packages carry them.
foreach(package libfmt-dev nlohmann-json3-dev libcli11-dev libpcre2-dev libutf8proc-dev libsentencepiece-dev libssl-dev libxxhash-dev
    libjpeg62-turbo-dev libjpeg-turbo8-dev libpng-dev zlib1g-dev libzstd-dev libwebp-dev libgif-dev libyaml-cpp-dev)
  if(EXISTS /usr/share/doc/${package}/copyright)
    install(FILES /usr/share/doc/${package}/copyright RENAME ${package} DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences)
  endif()
endforeach()
install(FILES ${xgrammar_source}/LICENSE RENAME xgrammar DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences)
if(PLIMSOLL_STATIC)
  install(FILES ${sentencepiece_source}/LICENSE RENAME sentencepiece DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences)
  install(FILES ${sentencepiece_source}/third_party/protobuf-lite/LICENSE RENAME protobuf DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences)
endif()
if(PLIMSOLL_HAS_CUDA)  # the runtime is linked statically; its licence lies where the toolkit's installer or package put it
  file(GLOB cuda_licences ${CUDAToolkit_BIN_DIR}/../EULA.txt ${CUDAToolkit_BIN_DIR}/../dist-info/nvidia_cuda_runtime-*/licenses/License.txt
    /usr/share/doc/cuda-cudart-dev-*/copyright)
  if(cuda_licences)
    list(GET cuda_licences 0 cuda_licence)
    install(FILES ${cuda_licence} RENAME cuda-runtime DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences)
  endif()
  if(flashinfer_licence)
    install(FILES ${flashinfer_licence} RENAME flashinfer DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences)
  endif()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The plimsoll authors <plimsoll@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "plan GPU memory for language models, answer prompts in batch, shard checkpoints")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # dependencies are those of the libraries that it was linked with
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "bash-completion, libcublas-12-8 | libcublas-13-0")
include(CPack)
