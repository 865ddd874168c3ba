#include "serve/context.h"

#include <fmt/format.h>

#include <chrono>
#include <random>

#include "base/error.h"
#include "serve/api_error.h"

namespace banyan {
namespace {

constexpr size_t kConstraintsKept = 32;

EngineOptions ForServing(EngineOptions options, const ServeOptions& serve) {
  options.max_waiting = serve.max_waiting;
  return options;
}

}  // namespace

std::shared_ptr<const Constraint> ConstraintCache::OfSchema(const std::string& schema,
                                                            const std::string& param) {
  return Get(false, schema, param);
}

std::shared_ptr<const Constraint> ConstraintCache::OfRegex(const std::string& pattern,
                                                           const std::string& param) {
  return Get(true, pattern, param);
}

std::shared_ptr<const TokenTrie> ConstraintCache::Trie() {
  const std::lock_guard lock(mutex_);
  if (!trie_) trie_ = MakeTokenTrie(*model_->text());
  return trie_;
}

// Compiled under the lock: two that ask for the same compile it once.
std::shared_ptr<const Constraint> ConstraintCache::Get(bool regex, const std::string& source,
                                                       const std::string& param) {
  const std::string key = (regex ? "r" : "s") + source;
  const std::lock_guard lock(mutex_);
  for (auto it = recent_.begin(); it != recent_.end(); ++it) {
    if (it->first != key) continue;
    recent_.splice(recent_.begin(), recent_, it);
    return recent_.front().second;
  }
  ConstraintOptions options;
  options.end_tokens = model_->end_tokens();
  try {
    if (!trie_) trie_ = MakeTokenTrie(*model_->text());
    recent_.emplace_front(key, regex ? Constraint::FromRegex(source, trie_, options)
                                     : Constraint::FromJsonSchema(source, trie_, options));
  } catch (const Error& error) {
    throw ApiError(400, fmt::format("'{}': {}", param, error.what()), param);
  }
  if (recent_.size() > kConstraintsKept) recent_.pop_back();
  return recent_.front().second;
}

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
  thread_local std::random_device device;
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
