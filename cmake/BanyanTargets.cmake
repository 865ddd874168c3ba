# banyan_add_layers(TABLE): one static library per folder named in src/layers.txt, one test program
# per folder that has *_test.cc files. Third-party libraries are attached below, folder by folder.
set(BANYAN_LAYERS "")

# Newer compilers than those that we build with warn of more, some of it wrongly: they tell, and do not refuse.
set(BANYAN_STRICT ${BANYAN_WERROR})
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13) OR
   (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 17))
  set(BANYAN_STRICT OFF)
endif()

add_library(banyan_options INTERFACE)
# How our own code is compiled. What a program that links the installed library needs is the
# include path alone, hence BUILD_INTERFACE. -Wrestrict: GCC 12 reports its own std::string (bug 105651).
target_compile_options(banyan_options INTERFACE
  $<BUILD_INTERFACE:-Wall;-Wextra;$<$<BOOL:${BANYAN_STRICT}>:-Werror>;-Wno-psabi;-ffp-contract=off>
  $<BUILD_INTERFACE:$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>>
  $<BUILD_INTERFACE:$<$<AND:$<BOOL:${BANYAN_LINES}>,$<CONFIG:Release>>:-g1>>)
target_include_directories(banyan_options INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(banyan_options INTERFACE cxx_std_20)
if(BANYAN_SANITIZE)
  target_compile_options(banyan_options INTERFACE -fsanitize=${BANYAN_SANITIZE}
                                                  -fno-omit-frame-pointer
                                                  -fno-sanitize-recover=all)
  target_link_options(banyan_options INTERFACE -fsanitize=${BANYAN_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND BANYAN_SANITIZE MATCHES "thread")
    target_compile_options(banyan_options INTERFACE -Wno-tsan)  # Boost.Asio's fences, which GCC warns of
  endif()
endif()
if(BANYAN_FUZZ)  # coverage feedback in the parsers themselves, not only in the targets
  target_compile_options(banyan_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(banyan_options INTERFACE -fsanitize=fuzzer-no-link)
  # Layers that compute and parse nothing go without: watched, they take most of the time of the build.
  set(BANYAN_UNWATCHED plan kv engine decode)
  add_library(banyan_unwatched INTERFACE)
  target_compile_options(banyan_unwatched INTERFACE -fno-sanitize=all)
endif()

# What each folder needs from outside, beyond the standard library and threads.
set(BANYAN_LINK_base nlohmann_json::nlohmann_json fmt::fmt OpenSSL::Crypto Threads::Threads)
if(ZLIB_FOUND)
  list(APPEND BANYAN_LINK_base ZLIB::ZLIB)
  set(BANYAN_DEFINE_base BANYAN_WITH_ZLIB=1)
endif()
if(ZSTD_FOUND)
  list(APPEND BANYAN_LINK_base PkgConfig::ZSTD)
  list(APPEND BANYAN_DEFINE_base BANYAN_WITH_ZSTD=1)
endif()
set(BANYAN_LINK_text PkgConfig::PCRE2 PkgConfig::UTF8PROC)
if(LIBXML2_FOUND)
  set(BANYAN_LINK_documents PkgConfig::LIBXML2)
  set(BANYAN_DEFINE_documents BANYAN_WITH_LIBXML2=1)
endif()
if(CURL_FOUND)  # its headers alone: the library is opened by the first transfer (src/hub/curl_library.cc)
  set(BANYAN_LINK_hub ${CMAKE_DL_LIBS})
  set(BANYAN_DEFINE_hub BANYAN_WITH_CURL=1)
endif()
if(SQLITE_FOUND)
  set(BANYAN_LINK_store PkgConfig::SQLITE)
  set(BANYAN_DEFINE_store BANYAN_WITH_SQLITE=1)
endif()
if(faiss_FOUND)
  set(BANYAN_LINK_retrieve faiss)  # the one file that uses it: src/retrieve/layer.cmake
endif()

# Unit tests that take minutes are divided among this many tests.
set(BANYAN_SHARDS_kernels 6)
set(BANYAN_SHARDS_engine 3)

# Several files a compilation: what parses in seconds is the headers of JSON, formatting and tests,
# and a build from nothing takes half the time. Off (-D BANYAN_UNITY=OFF), an edit recompiles
# one file alone. src/kernels/layer.cmake says what is united of the kernels, whose loops stay apart.
function(banyan_unite target files)
  if(BANYAN_UNITY AND NOT ${target} MATCHES "kernels")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
    # What GCC 12 and 13 say of std::vector once more of it is inlined (bugs 105329, 107852); without
    # BANYAN_UNITY these warnings are on.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
                             -Wno-subobject-linkage)  # of classes that are one file's own
    endif()
  endif()
endfunction()

# Files as part of `target`: the span `list` of EmbeddedFile, written anew when one of them changes.
function(banyan_embed target list)
  string(REPLACE ";" "|" names "${ARGN}")
  set(source ${CMAKE_BINARY_DIR}/${target}_files.cc)
  set(script ${CMAKE_SOURCE_DIR}/cmake/EmbedFiles.cmake)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -D "FILES=${names}" -D LIST=${list} -D OUTPUT=${source} -P ${script}
    DEPENDS ${ARGN} ${script}
    VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()

function(banyan_add_layers table)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})
  file(STRINGS ${table} lines REGEX "^[a-z]+:")
  set(layers "")
  foreach(line ${lines})
    string(REGEX MATCH "^([a-z]+):(.*)$" _ "${line}")
    set(name ${CMAKE_MATCH_1})
    if(name STREQUAL "serve" AND NOT Boost_FOUND)
      continue()
    endif()
    separate_arguments(below UNIX_COMMAND "${CMAKE_MATCH_2}")
    banyan_add_layer(${name} "${below}")
    list(APPEND layers ${name})
  endforeach()
  set(BANYAN_LAYERS ${layers} PARENT_SCOPE)
endfunction()

function(banyan_add_layer name below)
  set(dir ${CMAKE_SOURCE_DIR}/src/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${dir}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "/cuda/")  # cmake/Cuda.cmake adds them where the toolkit is found
  set(target banyan_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PUBLIC banyan_options)
    target_compile_definitions(${target} PUBLIC ${BANYAN_DEFINE_${name}})
    target_link_libraries(${target} PUBLIC ${BANYAN_LINK_${name}})
    banyan_unite(${target} 16)
    foreach(dep ${below})
      target_link_libraries(${target} PUBLIC banyan_${dep})
    endforeach()
    if(name IN_LIST BANYAN_UNWATCHED)
      set_property(TARGET ${target} APPEND PROPERTY LINK_LIBRARIES banyan_unwatched)
    endif()
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE banyan_options ${BANYAN_LINK_${name}})
    foreach(dep ${below})
      target_link_libraries(${target} INTERFACE banyan_${dep})
    endforeach()
  endif()
  if(EXISTS ${dir}/layer.cmake)
    include(${dir}/layer.cmake)
  endif()
  if(BANYAN_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${target} GTest::gmock GTest::gtest_main)
    banyan_unite(${name}_test 16)
    target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    # Without optimisation tests compile in half of the time; these compute much themselves.
    set(effort -O0)
    if(name MATCHES "^(kernels|plan|engine|text)$")
      set(effort -O1)
    endif()
    target_compile_options(${name}_test PRIVATE ${effort})
    # Test support under tests/support/ may use any layer at or below engine.
    target_compile_definitions(${name}_test PRIVATE
      BANYAN_SOURCE_DIR="${CMAKE_SOURCE_DIR}" BANYAN_GOLDEN_DIR="${CMAKE_SOURCE_DIR}/../shared/golden")
    # The longest are several tests, so that all cores share them.
    set(shards 1)
    if(DEFINED BANYAN_SHARDS_${name})
      set(shards ${BANYAN_SHARDS_${name}})
    endif()
    foreach(shard RANGE 1 ${shards})
      set(test ${name})
      if(shards GREATER 1)
        set(test ${name}_${shard})
      endif()
      math(EXPR index "${shard} - 1")
      add_test(NAME ${test} COMMAND ${name}_test WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
      # Tests ask for impossible amounts of memory and expect an error: ASan must not stop there.
      set_tests_properties(${test} PROPERTIES TIMEOUT 600 LABELS unit ENVIRONMENT
        "ASAN_OPTIONS=allocator_may_return_null=1;GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index}")
    endforeach()
  endif()
endfunction()

function(banyan_print_summary)
  if(BANYAN_OFF)
    list(JOIN BANYAN_OFF ", " off)
    message(STATUS "Banyan: off: ${off}")
  else()
    message(STATUS "Banyan: everything that this configuration asks for was found")
  endif()
endfunction()
