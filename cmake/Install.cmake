# make install: the binary with its model and documents (component program), and the public headers,
# the libraries and a CMake package (component development), so that a program says
# find_package(banyan) and links banyan::banyan.
include(CMakePackageConfigHelpers)

add_library(banyan_all INTERFACE)
if(TARGET banyan_serve)
  target_link_libraries(banyan_all INTERFACE banyan_serve)
else()
  target_link_libraries(banyan_all INTERFACE banyan_tasks)
endif()
set_target_properties(banyan_all PROPERTIES EXPORT_NAME banyan)
add_library(banyan::banyan ALIAS banyan_all)

set(layer_targets "")
foreach(layer ${BANYAN_LAYERS})
  list(APPEND layer_targets banyan_${layer})
endforeach()
install(TARGETS banyan_all banyan_options ${layer_targets}
        EXPORT banyanTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/banyan COMPONENT development)
install(DIRECTORY include/banyan DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/banyan)
install(EXPORT banyanTargets NAMESPACE banyan:: DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/banyanConfig.cmake.in
                              ${CMAKE_BINARY_DIR}/banyanConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/banyanConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/banyanConfig.cmake ${CMAKE_BINARY_DIR}/banyanConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT development)

# src/hub/locate.cc looks for the model there.
set(programs banyan)
if(TARGET banyan_bench)
  list(APPEND programs banyan_bench)
endif()
install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(FILES models/banyan-reader-34m.gguf models/README.md models/SHA256SUMS
        DESTINATION ${CMAKE_INSTALL_DATADIR}/banyan/models COMPONENT program)
install(DIRECTORY models/smollm2-reader models/smollm2-extract
                  models/qwen2.5-coder-0.5b-reader models/qwen2.5-coder-1.5b-reader
        DESTINATION ${CMAKE_INSTALL_DATADIR}/banyan/models COMPONENT program)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(FILES cmake/debian_copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright
        COMPONENT program)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png")

# The program itself writes its manual pages and completions, so they say what --help says. Run at
# installation: nothing of it is built or kept.
if(NOT CMAKE_CROSSCOMPILING)
  install(CODE "
    set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
    set(built \"$<TARGET_FILE:banyan>\")
    file(MAKE_DIRECTORY \${share}/man/man1)
    execute_process(COMMAND \${built} man --all \${share}/man/man1 COMMAND_ERROR_IS_FATAL ANY)
    file(GLOB pages \${share}/man/man1/banyan*.1)
    find_program(GZIP gzip)
    if(GZIP)
      execute_process(COMMAND \${GZIP} -9nf \${pages} COMMAND_ERROR_IS_FATAL ANY)
    endif()
    foreach(target bash:bash-completion/completions/banyan
                   zsh:zsh/site-functions/_banyan
                   fish:fish/vendor_completions.d/banyan.fish)
      string(REPLACE \":\" \";\" target \${target})
      list(GET target 0 shell)
      list(GET target 1 file)
      cmake_path(GET file PARENT_PATH folder)
      file(MAKE_DIRECTORY \${share}/\${folder})
      message(STATUS \"Installing: \${share}/\${file}\")
      execute_process(COMMAND \${built} completion \${shell} OUTPUT_FILE \${share}/\${file}
                      COMMAND_ERROR_IS_FATAL ANY)
    endforeach()" COMPONENT program)
endif()
