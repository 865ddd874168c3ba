# Instruction sets of the cpu backend: each file of inner loops is compiled with its own flags.
set(cpu ${CMAKE_SOURCE_DIR}/src/kernels/cpu)
set_source_files_properties(${cpu}/vector_base.cc PROPERTIES COMPILE_OPTIONS "-O3")
# GCC 12 warns about its own AVX-512 header (-Wmaybe-uninitialized): silenced for that file alone.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${cpu}/vector_avx2.cc PROPERTIES
    COMPILE_OPTIONS "-O3;-mavx2;-mfma;-mf16c")
  set_source_files_properties(${cpu}/vector_avx512.cc PROPERTIES
    COMPILE_OPTIONS "-O3;-Wno-maybe-uninitialized;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mfma;-mf16c;-mprefer-vector-width=512")
else()
  set_source_files_properties(${cpu}/vector_avx2.cc ${cpu}/vector_avx512.cc PROPERTIES
    HEADER_FILE_ONLY ON)
endif()
