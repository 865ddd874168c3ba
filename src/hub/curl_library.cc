// Opening libcurl.
#include "hub/curl_library.h"

#ifdef BANYAN_WITH_CURL
#include <dlfcn.h>

#include "base/error.h"

#undef curl_easy_setopt
#undef curl_easy_getinfo

namespace banyan {
namespace {

template <typename Function>
void FindFunction(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) {
    Throw(ErrorKind::kUnsupported, "libcurl has no function '{}': expected version 7.62 or newer",
          name);
  }
}

CurlLibrary OpenCurl() {
  void* library = nullptr;
  std::string reason;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr && reason.empty()) reason = ::dlerror();
  }
  if (library == nullptr) {
    Throw(ErrorKind::kUnsupported,
          "downloads need libcurl ({}); on Debian: sudo apt-get install libcurl4", reason);
  }
  CurlLibrary curl{};
  FindFunction(library, "curl_global_init", curl.global_init);
  FindFunction(library, "curl_version_info", curl.version_info);
  FindFunction(library, "curl_easy_init", curl.easy_init);
  FindFunction(library, "curl_easy_setopt", curl.setopt);
  FindFunction(library, "curl_easy_perform", curl.perform);
  FindFunction(library, "curl_easy_getinfo", curl.getinfo);
  FindFunction(library, "curl_easy_reset", curl.reset);
  FindFunction(library, "curl_easy_cleanup", curl.cleanup);
  FindFunction(library, "curl_easy_strerror", curl.strerror);
  FindFunction(library, "curl_slist_append", curl.slist_append);
  FindFunction(library, "curl_slist_free_all", curl.slist_free_all);
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    Throw(ErrorKind::kUnsupported, "libcurl cannot be initialised");
  }
  return curl;
}

}  // namespace

const CurlLibrary& Curl() {
  static const CurlLibrary curl = OpenCurl();
  return curl;
}

}  // namespace banyan
#endif
