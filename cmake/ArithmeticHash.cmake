# cmake -D SOURCE=… -D BESIDE=… -D OUTPUT=… -P ArithmeticHash.cmake: a header with kArithmeticHash, a hash of
# every source that the bits of keys and values depend on, and of the text BESIDE. KV that was kept on disk by
# other code is not found again. The header is written only when it changes.
set(sources "")
foreach(folder tensor plan kernels model)
  file(GLOB_RECURSE found RELATIVE ${SOURCE} ${SOURCE}/${folder}/*.cc ${SOURCE}/${folder}/*.h
       ${SOURCE}/${folder}/*.inc ${SOURCE}/${folder}/*.cu ${SOURCE}/${folder}/*.cuh)
  list(APPEND sources ${found})
endforeach()
list(FILTER sources EXCLUDE REGEX "_test\\.cc$|_fixture\\.h$|encoder")
list(SORT sources)
set(text "${BESIDE}\n")
foreach(source ${sources})
  file(SHA256 ${SOURCE}/${source} hash)
  string(APPEND text "${source} ${hash}\n")
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING ${hash} 0 32 hash)
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#pragma once

namespace banyan {

// Of the sources that keys and values are computed by, and of what compiled them.
inline constexpr const char* kArithmeticHash = "@hash@";

}  // namespace banyan
]])
