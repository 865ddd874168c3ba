// What is wrong with a request, as its sender is told: OpenAI's form.
#pragma once

#include <exception>
#include <string>

#include "serve/http/http.h"

namespace banyan {

class ApiError : public std::exception {
 public:
  // `param`: the parameter that is wrong; `code`: a word for programs. Both may be empty.
  ApiError(int status, std::string message, std::string param = "", std::string code = "");

  const char* what() const noexcept override { return message_.c_str(); }
  int status() const { return status_; }
  const std::string& param() const { return param_; }
  const std::string& code() const { return code_; }
  // {"error":{"message","type","param","code"}}
  std::string ToJson() const;
  HttpResponse ToResponse() const;  // 429 and 503 with Retry-After

 private:
  int status_;
  std::string message_, param_, code_;
};

// Of anything that was thrown: the library's errors about a request are 400, others 500 without
// their text.
ApiError AsApiError(const std::exception& thrown);

}  // namespace banyan
