# Instruction sets of the cpu backend: each file of inner loops is compiled with its own flags.
set(loops_folder ${CMAKE_SOURCE_DIR}/src/kernels/cpu/loops)
set(any_processor vector_base integer_portable)
set(x86_64_only vector_avx2 vector_avx512 integer_avx2 integer_avxvnni
    integer_avx512vnni)
set(aarch64_only integer_neon integer_dotprod integer_i8mm)
set(loops -O3)
if(BANYAN_FUZZ)  # no parser: watched by Clang's sanitizers they take minutes to compile, each
  set(loops -O1 -fno-sanitize=all)
endif()
function(banyan_compile_loops flags)
  foreach(name ${ARGN})
    set_source_files_properties(${loops_folder}/${name}.cc PROPERTIES COMPILE_OPTIONS "${loops};${flags}")
  endforeach()
endfunction()
function(banyan_leave_out)
  foreach(name ${ARGN})
    set_source_files_properties(${loops_folder}/${name}.cc PROPERTIES HEADER_FILE_ONLY ON)
  endforeach()
endfunction()
banyan_compile_loops("" ${any_processor})
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # GCC 12 warns about its own AVX-512 header (-Wmaybe-uninitialized): silenced for those files.
  set(avx2 -mavx2 -mfma -mf16c)
  set(avx512 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> -mavx512f -mavx512bw -mavx512vl -mavx512dq
      -mfma -mf16c -mprefer-vector-width=512)
  banyan_compile_loops("${avx2}" vector_avx2 integer_avx2)
  banyan_compile_loops("${avx2};-mavxvnni" integer_avxvnni)
  banyan_compile_loops("${avx512}" vector_avx512)
  banyan_compile_loops("${avx512};-mavx512vnni" integer_avx512vnni)
else()
  banyan_leave_out(${x86_64_only})
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  banyan_compile_loops("" integer_neon)
  banyan_compile_loops("-march=armv8.2-a+dotprod" integer_dotprod)
  banyan_compile_loops("-march=armv8.2-a+dotprod+i8mm" integer_i8mm)
else()
  banyan_leave_out(${aarch64_only})
endif()

# United where that changes nothing that is hot: the files around the loops, by folder, as their names repeat.
if(BANYAN_UNITY)
  set_target_properties(banyan_kernels PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  function(banyan_group_kernels group)
    list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/src/kernels/)
    list(TRANSFORM ARGN APPEND .cc)
    set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${group})
  endfunction()
  banyan_group_kernels(cpu cpu/cpu_kernels cpu/cpu_path cpu/expert_mixer cpu/kv_pages cpu/machine_rates
    cpu/packed_matrix cpu/product_tiles cpu/state_layers cpu/token_chooser)
  banyan_group_kernels(reference reference/reference_kernels reference/reference_network
    reference/reference_states)
  banyan_group_kernels(shared experts fusion host_choices host_states low_rank page_form probe_costs units/work_units)
endif()

# The cuda backend: kernels and the host code that goes with them in *.cu, the rest in *.cc (fmt does not
# compile with nvcc). Without it no file is compiled; the
# layers above do not see CUDA at all.
if(BANYAN_WITH_CUDA)
  set(cuda ${CMAKE_SOURCE_DIR}/src/kernels/cuda)
  file(GLOB_RECURSE cuda_host CONFIGURE_DEPENDS ${cuda}/*.cc)
  list(FILTER cuda_host EXCLUDE REGEX "_test\\.cc$")
  file(GLOB_RECURSE cuda_kernels CONFIGURE_DEPENDS ${cuda}/*.cu)
  add_library(banyan_cuda_kernels OBJECT ${cuda_kernels})
  target_include_directories(banyan_cuda_kernels PRIVATE ${CMAKE_SOURCE_DIR}/include
                                                         ${CMAKE_SOURCE_DIR}/src)
  # Fused multiply-adds only where the code says so, as on the host.
  target_compile_options(banyan_cuda_kernels PRIVATE -fmad=false
    -Xcompiler=-Wall,-Wextra$<$<BOOL:${BANYAN_WERROR}>:,-Werror>)
  target_sources(banyan_kernels PRIVATE ${cuda_host} $<TARGET_OBJECTS:banyan_cuda_kernels>)
  target_compile_definitions(banyan_kernels PRIVATE BANYAN_WITH_CUDA=1)
  # Decisions about products that were measured on known devices (cuda_times --decisions).
  file(GLOB cuda_decisions CONFIGURE_DEPENDS ${cuda}/products/decisions/*.txt)
  banyan_embed(banyan_kernels kDecisionTables ${cuda_decisions})
  target_link_libraries(banyan_kernels PRIVATE CUDA::cudart_static CUDA::cublasLt)
  # What is measured and kept in a file holds for the code that was measured.
  set(cuda_hash ${CMAKE_BINARY_DIR}/generated/kernels/cuda/source_hash.h)
  file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${cuda}/*.cc ${cuda}/*.h ${cuda}/*.cu ${cuda}/*.cuh)
  add_custom_command(OUTPUT ${cuda_hash}
    COMMAND ${CMAKE_COMMAND} -D FOLDER=${cuda} -D OUTPUT=${cuda_hash}
            -D "BESIDE=nvcc ${CMAKE_CUDA_COMPILER_VERSION}, ${CMAKE_CUDA_ARCHITECTURES}, ${CMAKE_BUILD_TYPE}"
            -P ${CMAKE_SOURCE_DIR}/cmake/SourceHash.cmake
    DEPENDS ${cuda_sources} ${CMAKE_SOURCE_DIR}/cmake/SourceHash.cmake VERBATIM)
  target_sources(banyan_kernels PRIVATE ${cuda_hash})
  target_include_directories(banyan_kernels PRIVATE ${CMAKE_BINARY_DIR}/generated)
  # A tool for measuring, built on demand.
  add_executable(cuda_times EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/cuda/cuda_times.cc)
  target_link_libraries(cuda_times PRIVATE banyan_kernels CUDA::cudart_static CUDA::cublasLt)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/kernels_test.cc PROPERTIES
    COMPILE_DEFINITIONS BANYAN_WITH_CUDA=1)
  # The tests that look behind Kernels.
  list(TRANSFORM CUDAToolkit_INCLUDE_DIRS PREPEND "-isystem" OUTPUT_VARIABLE cuda_headers)
  set_source_files_properties(${cuda}/products/product_trial_test.cc ${cuda}/products/decisions_test.cc
    ${cuda}/products/int8_products_test.cc PROPERTIES COMPILE_OPTIONS "${cuda_headers}")
else()
  set(cuda_products ${CMAKE_SOURCE_DIR}/src/kernels/cuda/products)
  set_source_files_properties(${cuda_products}/product_trial_test.cc ${cuda_products}/decisions_test.cc
    ${cuda_products}/int8_products_test.cc PROPERTIES HEADER_FILE_ONLY ON)
endif()
