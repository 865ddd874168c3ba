// What stands behind each path.
#include <utility>

#include "base/byte_source.h"
#include "base/characters.h"
#include "base/error.h"
#include "base/json_row.h"
#include "base/work_budget.h"
#include "documents/document_text.h"
#include "serve/api_error.h"
#include "serve/completion.h"
#include "serve/embeddings.h"
#include "serve/responses.h"
#include "serve/site.h"
#include "serve/task_run.h"
#include "tasks/input/input_kind.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

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

void Site::Health(HttpReply& reply) const {
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

void Site::Models(const std::string& id, HttpReply& reply) const {
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

void Site::Documents(const HttpRequest& request, HttpReply& reply) {
  const std::string name = request.query_value("name");
  const DocumentKind kind = KindOf(name, request.header("content-type"), request.body);
  const std::unique_ptr<ByteSource> source = ByteSourceOf(request.body, "the document");
  std::string text;
  try {
    text = ReadDocument(*source, kind, static_cast<size_t>(context_.options.max_body), nullptr);
  } catch (const WorkStopped&) {
    throw;
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

void Site::AddOwn() {
  constexpr bool kOpen = true;
  Add(
      "GET", "/health", [this](const auto&, const auto&, HttpReply& reply) { Health(reply); },
      kOpen);
  Add("GET", "/metrics", [this](const auto&, const auto&, HttpReply& reply) {
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

void Site::AddOpenAi() {
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

void Site::AddFiles() {
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
