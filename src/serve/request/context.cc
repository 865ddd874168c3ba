// The state that all requests share; ids and times.
#include "serve/request/context.h"

#include <fmt/format.h>
#include <chrono>
#include <random>

#include "base/error.h"
#include "serve/request/api_error.h"

namespace banyan {
namespace {

EngineOptions ForServing(EngineOptions options, const ServeOptions& serve) {
  options.max_waiting = serve.max_waiting;
  return options;
}

}  // namespace

ServeContext::ServeContext(std::shared_ptr<Model> model_, const EngineOptions& engine_options,
                           const ServeOptions& options_)
    : model(model_),
      text(model_->text()),
      options(options_),
      started(SecondsNow()),
      engine(model_, ForServing(engine_options, options_)),
      constraints(model_) {
  if (!text) Throw(ErrorKind::kUnsupported, "serve: the model's files have no tokenizer");
}

std::string ServeContext::AdapterOf(const std::string& name) const {
  if (name == options.model_name) return "";
  std::string served = "'" + options.model_name + "'";
  for (const std::string& adapter : model->adapters()) {
    if (name == adapter) return adapter;
    served += ", '" + adapter + "'";
  }
  throw ApiError(404,
                 fmt::format("the model '{}' is not served here; this server has {}", name, served),
                 "model", "model_not_found");
}

std::uint64_t RandomNumber() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::string NewId(const std::string& prefix) {
  return fmt::format("{}{:016x}{:08x}", prefix, RandomNumber(), RandomNumber() >> 32);
}

std::int64_t SecondsNow() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace banyan
