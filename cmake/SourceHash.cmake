# cmake -D FOLDER=… -D BESIDE=… -D OUTPUT=… -P SourceHash.cmake: a header with kSourceHash, a hash of
# the names and contents of the folder's sources (tests aside) and of the text BESIDE. The header is
# written only when it changes, so that whoever includes it is compiled only then.
file(GLOB_RECURSE sources RELATIVE ${FOLDER} ${FOLDER}/*.cc ${FOLDER}/*.h ${FOLDER}/*.cu ${FOLDER}/*.cuh)
list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
list(SORT sources)
set(text "${BESIDE}\n")
foreach(source ${sources})
  file(SHA256 ${FOLDER}/${source} hash)
  string(APPEND text "${source} ${hash}\n")
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING ${hash} 0 32 hash)
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#pragma once

namespace banyan::cuda {

// Of the sources of this folder and of what compiled them.
inline constexpr const char* kSourceHash = "@hash@";

}  // namespace banyan::cuda
]])
