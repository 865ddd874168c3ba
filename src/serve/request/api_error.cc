// Errors as OpenAI's JSON, and which status an exception becomes.
#include "serve/request/api_error.h"

#include <new>
#include <utility>

#include "banyan/error.h"
#include "base/json.h"
#include "base/work_budget.h"

namespace banyan {
namespace {

const char* TypeOf(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

ApiError::ApiError(int status, std::string message, std::string param, std::string code)
    : status_(status),
      message_(std::move(message)),
      param_(std::move(param)),
      code_(std::move(code)) {}

std::string ApiError::ToJson() const {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  nlohmann::ordered_json error;
  error["message"] = message_;
  error["type"] = TypeOf(status_);
  error["param"] = text_or_null(param_);
  error["code"] = text_or_null(code_);
  return DumpJson(nlohmann::ordered_json{{"error", std::move(error)}});
}

HttpResponse ApiError::ToResponse() const {
  HttpResponse response;
  response.status = status_;
  response.body = ToJson();
  if (status_ == 429 || status_ == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

ApiError AsApiError(const std::exception& thrown) {
  if (const auto* api = dynamic_cast<const ApiError*>(&thrown)) return *api;
  if (const auto* stopped = dynamic_cast<const WorkStopped*>(&thrown)) {
    // 499: the client has left; only the log shows it.
    constexpr int kStatus[] = {504, 499, 429, 413};
    return {kStatus[static_cast<int>(stopped->why())], stopped->what()};
  }
  if (const auto* error = dynamic_cast<const Error*>(&thrown)) {
    switch (error->kind()) {
      case ErrorKind::kUsage:
      case ErrorKind::kInput:
      case ErrorKind::kFormat:
      case ErrorKind::kUnsupported:
      case ErrorKind::kLimit:
        return {400, error->what()};
      case ErrorKind::kNotFound:
        return {404, error->what()};
      case ErrorKind::kIo:
        return {500, "the server's disk or network refused"};
    }
  }
  if (dynamic_cast<const std::bad_alloc*>(&thrown)) return {503, "out of memory"};
  return {500, "internal error"};
}

}  // namespace banyan
