# The page and the description of the API as part of the library: any file of web/, taken when the
# build runs.
file(GLOB embedded CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/web/*)
list(FILTER embedded INCLUDE REGEX "\\.(html|css|js|mjs|svg|png|ico|json|woff2|txt|webmanifest)$")
list(APPEND embedded ${CMAKE_SOURCE_DIR}/src/serve/openapi.json)
banyan_embed(banyan_serve kWebFiles ${embedded})
# Nothing here is hot: the engine is. It compiles in three quarters of the time.
target_compile_options(banyan_serve PRIVATE -O1)
# Headers of these sources alone: who links the library needs none of them.
target_include_directories(banyan_serve SYSTEM PRIVATE ${Boost_INCLUDE_DIRS})
target_compile_definitions(banyan_serve PRIVATE BOOST_ALL_NO_LIB)
# Asio's fences, which ThreadSanitizer does not know; what they order is ordered by mutexes, too.
if(BANYAN_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(banyan_serve PRIVATE -Wno-tsan)
endif()
