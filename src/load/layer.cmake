# What the bits of keys and values depend on, for the names of KV on disk (kv_identity.cc).
set(arithmetic_hash ${CMAKE_BINARY_DIR}/generated/load/arithmetic_hash.h)
file(GLOB_RECURSE arithmetic_sources CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/src/tensor/* ${CMAKE_SOURCE_DIR}/src/plan/*
     ${CMAKE_SOURCE_DIR}/src/kernels/* ${CMAKE_SOURCE_DIR}/src/model/*)
add_custom_command(OUTPUT ${arithmetic_hash}
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${CMAKE_SOURCE_DIR}/src -D OUTPUT=${arithmetic_hash}
          -D "BESIDE=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_SYSTEM_PROCESSOR}"
          -P ${CMAKE_SOURCE_DIR}/cmake/ArithmeticHash.cmake
  DEPENDS ${arithmetic_sources} ${CMAKE_SOURCE_DIR}/cmake/ArithmeticHash.cmake VERBATIM)
target_sources(banyan_load PRIVATE ${arithmetic_hash})
set_source_files_properties(${dir}/kv_identity.cc PROPERTIES
  INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/generated OBJECT_DEPENDS ${arithmetic_hash})
