// The system's libcurl, opened when the first transfer begins: a program that transfers nothing
// starts without it, and runs where there is none. A bundle's own libraries are found first.
#pragma once

#ifdef BANYAN_WITH_CURL
// The checks of argument types are macros of the functions' names, which are fields here.
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

namespace banyan {

struct CurlLibrary {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_version_info) version_info;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_setopt) setopt;
  decltype(&::curl_easy_perform) perform;
  decltype(&::curl_easy_getinfo) getinfo;
  decltype(&::curl_easy_reset) reset;
  decltype(&::curl_easy_cleanup) cleanup;
  decltype(&::curl_easy_strerror) strerror;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
};

// Throws kUnsupported, with what to install, where there is none.
const CurlLibrary& Curl();

}  // namespace banyan
#endif
