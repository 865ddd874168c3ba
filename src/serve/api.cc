// Routes: which path does what, who may ask, and the log line of each request.
#include "serve/api.h"

#include <malloc.h>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/byte_source.h"
#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"
#include "base/work_budget.h"
#include "documents/document_text.h"
#include "documents/foreign_format.h"
#include "serve/openai/completion.h"
#include "serve/openai/embeddings.h"
#include "serve/openai/responses.h"
#include "serve/request/api_error.h"
#include "serve/tasks/task_run.h"
#include "tasks/input/input_files.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// After a request of this size, freed memory is returned to the system.
constexpr size_t kLargeBody = 256u << 10;

// Of a request that reads none, or that needs no key.
constexpr size_t kNoBody = 4u << 10;

// The allocator keeps freed memory for threads that may never need it again.
void ReturnMemory() {
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

void SendJson(HttpReply& reply, std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  reply.Send(std::move(response));
}

DocumentKind KindOf(const std::string& name, std::string_view content_type,
                    std::string_view bytes) {
  const auto named = InputKindOfFile(name);
  if (named == InputKind::kHtml || content_type.starts_with("text/html"))
    return DocumentKind::kHtml;
  if (named == InputKind::kPdf || content_type.starts_with("application/pdf") ||
      (!named && InputKindOfBytes(bytes) == InputKind::kPdf)) {
    return DocumentKind::kPdf;
  }
  return DocumentKind::kPlain;
}

}  // namespace

Api::Api(ServeContext& context) : context_(context), access_(context.options) {
  if (!context.options.state_directory.empty()) {
    files_ =
        std::make_unique<FileStore>(context.options.state_directory, context.options.max_files);
    batches_ = std::make_unique<Batches>(context, *files_);
  }
  AddOwn();
  AddOpenAi();
  AddFiles();
}

void Api::Add(const char* method, const char* path, Action action, bool open) {
  routes_.push_back({method, path, std::move(action), open});
}

// HEAD is GET without a body, which the connection leaves out.
const Api::Route* Api::Find(const HttpRequest& request, std::string& id, bool& path_known) const {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  path_known = false;
  for (const Route& route : routes_) {
    if (!Matches(route.path, request.path, id)) continue;
    path_known = true;
    if (route.method == method) return &route;
  }
  return nullptr;
}

std::string Api::AllowedMethods(const std::string& path) const {
  std::string methods = "OPTIONS", ignored;
  for (const Route& route : routes_) {
    if (Matches(route.path, path, ignored)) methods += ", " + route.method;
  }
  return methods;
}

std::optional<HttpResponse> Api::Admit(HttpRequest& request, std::uint64_t) {
  std::string id;
  bool path_known;
  const Route* route = Find(request, id, path_known);
  const bool page = !path_known && page_.Has(request.path);
  const bool open = page || (route != nullptr && route->open);
  request.open = open || request.method == "OPTIONS";
  if (request.open || request.method != "POST") request.most_body = kNoBody;
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

void Api::Serve(HttpRequest request, HttpReply& reply) {
  // One budget from the request's first byte, for everything that is done on this thread.
  WorkBudget budget;
  budget.deadline =
      request.began + std::chrono::duration_cast<std::chrono::milliseconds>(
                          std::chrono::duration<double>(context_.options.request_seconds));
  budget.unwanted = [&reply] { return reply.gone(); };
  budget.memory = &reply.memory();
  try {
    const BudgetScope scope(budget);
    ServeWithin(request, reply);
  } catch (const std::exception& error) {
    const MemoryAccount::Room room = reply.refused();
    if (room == MemoryAccount::Room::kFits) {
      reply.Send(AsApiError(error).ToResponse());
    } else {  // whatever it was called on its way here
      const bool never = room == MemoryAccount::Room::kNever;
      const WorkStopped stopped(never ? WorkStopped::Why::kNever : WorkStopped::Why::kRoom);
      reply.Send(AsApiError(stopped).ToResponse());
    }
  }
  if (request.body_bytes < kLargeBody) return;
  request = HttpRequest();
  ReturnMemory();
}

void Api::ServeWithin(const HttpRequest& request, HttpReply& reply) {
  std::string id;
  bool path_known;
  const Route* route = Find(request, id, path_known);
  if (request.method == "OPTIONS") {
    HttpResponse response;
    response.status = 204;
    response.content_type = "";
    const std::string methods = AllowedMethods(request.path);
    response.headers = {{"Allow", methods}};
    if (!request.allow_origin.empty()) {
      response.headers.emplace_back("Access-Control-Allow-Methods", methods);
      response.headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type");
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
}

HttpResponse Api::Refusal(int status, const std::string& message) {
  return ApiError(status, status == 500 ? "internal error" : message).ToResponse();
}

// Logs the route's path instead of the request's: unknown paths carry no information, or too much.
void Api::Served(const HttpRequest& request, int status, std::uint64_t bytes, double seconds,
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

void Api::Health(HttpReply& reply) const {
  OrderedJson json;
  json["status"] = draining_ ? "draining" : "ok";
  json["model"] = context_.options.model_name;
  json["version"] = context_.options.version;
  json["context_length"] = context_.model->context_length();
  json["device"] = context_.model->backend_name();
  json["tasks"] = {"ask", "extract", "rag"};
  json["embeddings"] = context_.options.encoder != nullptr;
  json["index"] = context_.options.index != nullptr;
  json["batches"] = batches_ != nullptr;
  json["keys"] = has_keys();
  json["adapters"] = context_.model->adapters();
  json["task_adapters"] = context_.options.task_adapters;
  json["max_answers"] = context_.options.max_answers;
  json["max_body"] = context_.options.max_body;
  SendJson(reply, DumpJson(json));
}

void Api::Models(const std::string& id, HttpReply& reply) const {
  OrderedJson list = OrderedJson::array();
  const auto add = [&](const std::string& name, int context_length) {
    list.push_back({{"id", name},
                    {"object", "model"},
                    {"created", context_.started},
                    {"owned_by", "banyan"},
                    {"context_length", context_length}});
  };
  add(context_.options.model_name, context_.model->context_length());
  for (const std::string& adapter : context_.model->adapters()) {
    add(adapter, context_.model->context_length());
  }
  if (context_.options.encoder) {
    add(context_.options.encoder_name, context_.options.encoder->context_length());
  }
  if (id.empty()) {
    return SendJson(reply, DumpJson(OrderedJson{{"object", "list"}, {"data", std::move(list)}}));
  }
  for (const OrderedJson& model : list) {
    if (model.at("id") == id) return SendJson(reply, DumpJson(model));
  }
  throw ApiError(404, "there is no such model here", "model", "model_not_found");
}

void Api::Documents(const HttpRequest& request, HttpReply& reply) {
  const std::string name = request.query_value("name");
  if (const std::string advice = ForeignAdvice(name); !advice.empty()) throw ApiError(400, advice);
  const DocumentKind kind = KindOf(name, request.header("content-type"), request.body);
  const std::unique_ptr<ByteSource> source = ByteSourceOf(request.body, "the document");
  std::string text;
  try {
    text = ReadDocument(*source, kind, static_cast<size_t>(context_.options.max_body), nullptr);
  } catch (const NotUtf8& error) {
    throw ApiError(400, std::string(error.what()) + ": save it as UTF-8");
  } catch (const Error& error) {
    throw ApiError(error.kind() == ErrorKind::kLimit ? 413 : 400, error.what());
  }
  const std::int64_t characters = CountCharacters(text);
  static constexpr const char* kKinds[] = {"text", "html", "pdf"};
  SendJson(reply, DumpJson(OrderedJson{{"name", name},
                                       {"kind", kKinds[static_cast<int>(kind)]},
                                       {"characters", characters},
                                       {"text", std::move(text)}}));
}

void Api::AddOwn() {
  constexpr bool kOpen = true;
  Add(
      "GET", "/health", [this](const auto&, const auto&, HttpReply& reply) { Health(reply); },
      kOpen);
  Add("GET", "/metrics", [this](const HttpRequest& request, const auto&, HttpReply& reply) {
    if (!access_.MaySeeAll(request.tenant)) {
      throw ApiError(403, "these numbers are of all tenants: only the key of --admin may read them",
                     "", "not_admin");
    }
    HttpResponse response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = context_.metrics.ToText(context_.engine, *counts_, context_.options.model_name);
    reply.Send(std::move(response));
  });
  Add("POST", "/v1/documents", [this](const HttpRequest& request, const auto&, HttpReply& reply) {
    Documents(request, reply);
  });
  const auto add_task = [this](const char* path,
                               TaskRequest (*read)(ServeContext&, std::string_view)) {
    Add("POST", path, [this, read](const HttpRequest& request, const auto&, HttpReply& reply) {
      TaskRequest wanted = read(context_, request.body);
      const bool stream = wanted.stream;
      EngineCall call(context_, request.scope, /*priority=*/0, &reply);
      TaskRun run(context_, std::move(wanted), call);
      if (stream) return run.Stream(reply);
      SendJson(reply, run.Whole());
    });
  };
  add_task("/v1/ask", ReadAskRequest);
  add_task("/v1/extract", ReadExtractRequest);
  add_task("/v1/rag", ReadRagRequest);
}

void Api::AddOpenAi() {
  Add("GET", "/v1/models",
      [this](const auto&, const auto&, HttpReply& reply) { Models("", reply); });
  Add("GET", "/v1/models/*",
      [this](const auto&, const std::string& id, HttpReply& reply) { Models(id, reply); });
  const auto add_completion =
      [this](const char* path,
             CompletionRequest (*read)(ServeContext&, std::string_view, std::uint64_t)) {
        Add("POST", path, [this, read](const HttpRequest& request, const auto&, HttpReply& reply) {
          CompletionRequest wanted = read(context_, request.body, request.scope);
          const bool stream = wanted.stream;
          EngineCall call(context_, request.scope, /*priority=*/0, &reply);
          Completion completion(context_, std::move(wanted));
          if (stream) return completion.Stream(call, reply);
          SendJson(reply, completion.Whole(call));
        });
      };
  add_completion("/v1/chat/completions", ReadChatCompletion);
  add_completion("/v1/completions", ReadTextCompletion);
  Add("POST", "/v1/responses", [this](const HttpRequest& request, const auto&, HttpReply& reply) {
    ResponseRequest wanted = ReadResponse(context_, request.body, request.scope);
    const bool stream = wanted.completion.stream;
    EngineCall call(context_, request.scope, /*priority=*/0, &reply);
    Response response(context_, std::move(wanted));
    if (stream) return response.Stream(call, reply);
    SendJson(reply, response.Whole(call));
  });
  Add("POST", "/v1/embeddings", [this](const HttpRequest& request, const auto&, HttpReply& reply) {
    SendJson(reply, Embeddings(context_, request.body));
  });
}

void Api::AddFiles() {
  using Call = std::function<std::string(const HttpRequest&, const std::string&)>;
  const auto add = [this](const char* method, const char* path, const Call& call) {
    Add(method, path,
        [this, call](const HttpRequest& request, const std::string& id, HttpReply& reply) {
          if (!files_) throw ApiError(404, "this server keeps no files (--state)", "", "no_state");
          SendJson(reply, call(request, id));
        });
  };
  add("POST", "/v1/files",
      [this](const HttpRequest& request, const auto&) { return files_->Upload(request); });
  add("GET", "/v1/files",
      [this](const HttpRequest& request, const auto&) { return files_->List(request); });
  add("DELETE", "/v1/files/*", [this](const HttpRequest& request, const std::string& id) {
    return files_->Delete(request.tenant, id);
  });
  Add("GET", "/v1/files/*/content",
      [this](const HttpRequest& request, const std::string& id, HttpReply& reply) {
        if (!files_) throw ApiError(404, "this server keeps no files (--state)", "", "no_state");
        files_->Send(request.tenant, id, reply);
      });
  add("GET", "/v1/files/*", [this](const HttpRequest& request, const std::string& id) {
    return files_->Describe(request.tenant, id);
  });
  add("POST", "/v1/batches",
      [this](const HttpRequest& request, const auto&) { return batches_->Create(request); });
  add("GET", "/v1/batches",
      [this](const HttpRequest& request, const auto&) { return batches_->List(request); });
  add("POST", "/v1/batches/*/cancel", [this](const HttpRequest& request, const std::string& id) {
    return batches_->Cancel(request.tenant, id);
  });
  add("DELETE", "/v1/batches/*", [this](const HttpRequest& request, const std::string& id) {
    return batches_->Delete(request.tenant, id);
  });
  add("GET", "/v1/batches/*", [this](const HttpRequest& request, const std::string& id) {
    return batches_->Describe(request.tenant, id);
  });
}

}  // namespace banyan
