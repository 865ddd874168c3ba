# The CUDA backend, when BANYAN_CUDA asks for it and nvcc and cuBLASLt are found; otherwise the
# summary says what is missing. Sets BANYAN_WITH_CUDA. Included at file scope: a language cannot be enabled in a
# function.
set(BANYAN_WITH_CUDA OFF)
if(BANYAN_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  find_package(CUDAToolkit QUIET)
  if(NOT CMAKE_CUDA_COMPILER)
    list(APPEND BANYAN_OFF "device cuda (no nvcc)")
  elseif(NOT TARGET CUDA::cublasLt)
    list(APPEND BANYAN_OFF "device cuda (no cuBLASLt)")
  else()
    # Machine code for Hopper (90a: with warpgroup matrix instructions), and PTX that the driver
    # compiles for other devices from sm_80 on.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-virtual 90a-real)
    endif()
    enable_language(CUDA)
    # CMake 3.25 does not know this flag for nvcc 13.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    set(BANYAN_WITH_CUDA ON)
    message(STATUS "Banyan: device cuda with nvcc ${CMAKE_CUDA_COMPILER_VERSION}, "
                   "architectures ${CMAKE_CUDA_ARCHITECTURES}")
  endif()
endif()
