# The page and the description of the API as part of the library: any file of web/, taken when the
# build runs.
file(GLOB embedded CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/web/*)
list(FILTER embedded INCLUDE REGEX "\\.(html|css|js|mjs|svg|png|ico|json|woff2|txt|webmanifest)$")
list(APPEND embedded ${CMAKE_SOURCE_DIR}/src/serve/openapi.json)
string(REPLACE ";" "|" embedded_names "${embedded}")
set(embedded_source ${CMAKE_BINARY_DIR}/embedded_files.cc)
add_custom_command(
  OUTPUT ${embedded_source}
  COMMAND ${CMAKE_COMMAND} -D "FILES=${embedded_names}" -D OUTPUT=${embedded_source}
          -P ${CMAKE_SOURCE_DIR}/cmake/EmbedFiles.cmake
  DEPENDS ${embedded} ${CMAKE_SOURCE_DIR}/cmake/EmbedFiles.cmake
  VERBATIM)
target_sources(banyan_serve PRIVATE ${embedded_source})
# Nothing here is hot: the engine is. It compiles in three quarters of the time.
target_compile_options(banyan_serve PRIVATE -O1)
# Headers of these sources alone: who links the library needs none of them.
target_include_directories(banyan_serve SYSTEM PRIVATE ${Boost_INCLUDE_DIRS})
target_compile_definitions(banyan_serve PRIVATE BOOST_ALL_NO_LIB)
# Asio's fences, which ThreadSanitizer does not know; what they order is ordered by mutexes, too.
if(BANYAN_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(banyan_serve PRIVATE -Wno-tsan)
endif()
