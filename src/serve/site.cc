#include "serve/site.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <ctime>
#include <utility>

#include "base/json_row.h"
#include "base/work_budget.h"
#include "serve/api_error.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// What a request of this size and more leaves behind is handed back to the system.
constexpr size_t kLargeBody = 256u << 10;

// The allocator keeps freed memory for a thread that may never need it again.
void GiveMemoryBack() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

// "/v1/files/*/content" and "/v1/files/file-1/content" → "file-1". False: another path.
bool Matches(std::string_view pattern, std::string_view path, std::string& id) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == path;
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  if (path.size() <= before.size() + after.size()) return false;
  if (!path.starts_with(before) || !path.ends_with(after)) return false;
  path = path.substr(before.size(), path.size() - before.size() - after.size());
  // The name of a model may have slashes; others are refused where they are looked up.
  id = std::string(path);
  return true;
}

}  // namespace

Site::Site(ServeContext& context) : context_(context), access_(context.options) {
  if (!context.options.state_directory.empty()) {
    files_ =
        std::make_unique<FileStore>(context.options.state_directory, context.options.max_files);
    batches_ = std::make_unique<Batches>(context, *files_);
  }
  AddOwn();
  AddOpenAi();
  AddFiles();
}

void Site::Add(const char* method, const char* path, Action action, bool open) {
  routes_.push_back({method, path, std::move(action), open});
}

// HEAD is GET without a body, which the connection leaves out.
const Site::Route* Site::Find(const HttpRequest& request, std::string& id, bool& path_known) const {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  path_known = false;
  for (const Route& route : routes_) {
    if (!Matches(route.path, request.path, id)) continue;
    path_known = true;
    if (route.method == method) return &route;
  }
  return nullptr;
}

std::string Site::AllowedMethods(const std::string& path) const {
  std::string methods = "OPTIONS", ignored;
  for (const Route& route : routes_) {
    if (Matches(route.path, path, ignored)) methods += ", " + route.method;
  }
  return methods;
}

std::optional<HttpResponse> Site::Admit(HttpRequest& request, std::uint64_t) {
  std::string id;
  bool path_known;
  const Route* route = Find(request, id, path_known);
  const bool page = !path_known && page_.Has(request.path);
  const bool open = page || (route != nullptr && route->open);
  if (std::optional<ApiError> refused = access_.Check(request, open)) {
    HttpResponse response = refused->ToResponse();
    if (refused->status() == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return response;
  }
  if (route != nullptr || page) return std::nullopt;
  if (!path_known) return ApiError(404, "there is nothing at this path").ToResponse();
  if (request.method == "OPTIONS") return std::nullopt;
  HttpResponse response = ApiError(405, "this path has other methods").ToResponse();
  response.headers.emplace_back("Allow", AllowedMethods(request.path));
  return response;
}

void Site::Serve(HttpRequest request, HttpReply& reply) {
  // One budget from the request's first byte, for everything that is done on this thread.
  WorkBudget budget;
  budget.deadline =
      request.began + std::chrono::duration_cast<std::chrono::milliseconds>(
                          std::chrono::duration<double>(context_.options.request_seconds));
  budget.unwanted = [&reply] { return reply.gone(); };
  budget.take_room = [&reply](size_t bytes) { return reply.TakeRoom(bytes); };
  const BudgetScope scope(budget);
  ServeWithin(request, reply);
  if (request.body_bytes < kLargeBody) return;
  request = HttpRequest();
  GiveMemoryBack();
}

void Site::ServeWithin(const HttpRequest& request, HttpReply& reply) {
  std::string id;
  bool path_known;
  const Route* route = Find(request, id, path_known);
  try {
    if (request.method == "OPTIONS") {
      HttpResponse response;
      response.status = 204;
      response.content_type = "";
      const std::string methods = AllowedMethods(request.path);
      response.headers = {{"Allow", methods}};
      if (!request.allow_origin.empty()) {
        response.headers.emplace_back("Access-Control-Allow-Methods", methods);
        response.headers.emplace_back("Access-Control-Allow-Headers",
                                      "Authorization, Content-Type");
        response.headers.emplace_back("Access-Control-Max-Age", "600");
      }
      return reply.Send(std::move(response));
    }
    if (route != nullptr) return route->action(request, id, reply);
    if (std::optional<HttpResponse> file = page_.Find(request)) {
      const bool reads = request.method == "GET" || request.method == "HEAD";
      if (!reads) {
        HttpResponse response = ApiError(405, "this path has other methods").ToResponse();
        response.headers.emplace_back("Allow", "OPTIONS, GET, HEAD");
        return reply.Send(std::move(response));
      }
      return reply.Send(std::move(*file));
    }
    throw ApiError(404, "there is nothing at this path");
  } catch (const std::exception& error) {
    reply.Send(AsApiError(error).ToResponse());
  }
}

HttpResponse Site::Refusal(int status, const std::string& message) {
  return ApiError(status, status == 500 ? "internal error" : message).ToResponse();
}

// The path as the table has it: what people ask for besides says nothing, and may say too much.
void Site::Served(const HttpRequest& request, int status, std::uint64_t bytes, double seconds,
                  bool gone) {
  std::string id;
  bool path_known;
  const Route* route = Find(request, id, path_known);
  std::string path = route != nullptr ? route->path : "other";
  if (route == nullptr && page_.Has(request.path)) path = request.path;
  context_.metrics.CountRequest(path, status, seconds, gone);
  if (!context_.options.log) return;
  OrderedJson line;
  line["time"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  line["request"] = request.number;
  line["peer"] = request.peer;
  if (!request.tenant.empty()) line["tenant"] = request.tenant;
  line["method"] = request.method.substr(0, 16);
  line["path"] = path;
  line["status"] = status;
  line["bytes_in"] = request.body_bytes;
  line["bytes_out"] = bytes;
  line["seconds"] = std::stod(fmt::format("{:.4f}", seconds));
  if (gone) line["gone"] = true;
  context_.options.log(DumpJson(line));
}

}  // namespace banyan
