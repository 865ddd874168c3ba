# cmake -D SOURCE=… -D OUTPUT=… -P Commit.cmake: a header with BANYAN_COMMIT, the commit that is built: git's in a
# checkout (with "+" when files differ from it), in a source tarball what `git archive` wrote into cmake/commit.txt, else
# "unknown". The header is written only when it changes.
cmake_minimum_required(VERSION 3.25)
set(commit "")
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git rev-parse --short=12 HEAD WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE commit
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND git --no-optional-locks diff --quiet HEAD WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE differs ERROR_QUIET)
  if(commit AND NOT differs EQUAL 0)
    string(APPEND commit "+")
  endif()
endif()
if(NOT commit)
  file(READ ${SOURCE}/cmake/commit.txt commit)
  string(REGEX MATCH "^[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]"
         commit "${commit}")
endif()
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "#define BANYAN_COMMIT \"@commit@\"\n")
