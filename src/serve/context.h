// What all requests of a server have in common.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "banyan/constrain.h"
#include "banyan/engine.h"
#include "banyan/model.h"
#include "banyan/serve.h"
#include "serve/metrics.h"

namespace banyan {

// Constraints that were used lately, compiled; for several threads.
class ConstraintCache {
 public:
  explicit ConstraintCache(std::shared_ptr<const Model> model) : model_(std::move(model)) {}

  // Throws ApiError 400 naming the parameter.
  std::shared_ptr<const Constraint> OfSchema(const std::string& schema, const std::string& param);
  std::shared_ptr<const Constraint> OfRegex(const std::string& pattern, const std::string& param);
  std::shared_ptr<const TokenTrie> Trie();

 private:
  std::shared_ptr<const Constraint> Get(bool regex, const std::string& source,
                                        const std::string& param);

  const std::shared_ptr<const Model> model_;
  std::mutex mutex_;  // guards what follows
  std::shared_ptr<const TokenTrie> trie_;
  std::list<std::pair<std::string, std::shared_ptr<const Constraint>>> recent_;  // latest first
};

struct ServeContext {
  ServeContext(std::shared_ptr<Model> model, const EngineOptions& engine_options,
               const ServeOptions& options);

  // What a request's "model" stands for: the model itself (nothing), or one of its adapters. Throws
  // ApiError 404 for another name.
  std::string AdapterOf(const std::string& name) const;

  const std::shared_ptr<Model> model;
  const std::shared_ptr<const Text> text;
  const ServeOptions options;
  const std::int64_t started;  // seconds since 1970
  Engine engine;
  Metrics metrics;
  ConstraintCache constraints;
};

// "chatcmpl-" and 24 digits that nobody can guess.
std::string NewId(const std::string& prefix);
std::uint64_t RandomNumber();
std::int64_t SecondsNow();  // since 1970

}  // namespace banyan
