# make install: the binary, the public headers, the libraries and a CMake package, so that a program
# says find_package(banyan) and links banyan::banyan.
include(CMakePackageConfigHelpers)

add_library(banyan_all INTERFACE)
target_link_libraries(banyan_all INTERFACE banyan_tasks)
set_target_properties(banyan_all PROPERTIES EXPORT_NAME banyan)
add_library(banyan::banyan ALIAS banyan_all)

set(layer_targets "")
foreach(layer ${BANYAN_LAYERS})
  list(APPEND layer_targets banyan_${layer})
endforeach()
install(TARGETS banyan_all banyan_options ${layer_targets}
        EXPORT banyanTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/banyan)
install(TARGETS banyan RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/banyan DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/banyan)
install(EXPORT banyanTargets NAMESPACE banyan:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/banyanConfig.cmake.in
                              ${CMAKE_BINARY_DIR}/banyanConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/banyanConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/banyanConfig.cmake ${CMAKE_BINARY_DIR}/banyanConfigVersion.cmake
        DESTINATION ${package_dir})
