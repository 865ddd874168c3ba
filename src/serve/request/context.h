// What all requests of a server have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "banyan/engine.h"
#include "banyan/model.h"
#include "program/serve.h"
#include "serve/request/constraint_cache.h"
#include "serve/request/metrics.h"

namespace banyan {

// Memory that requests and batches share: HttpLimits::max_bodies_bytes.
struct SharedRoom {
  std::function<bool(size_t)> take;  // false: there is none now
  std::function<void(size_t)> give_back;
  size_t most = 0;
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
  SharedRoom room;  // set before anything runs
};

// The prefix and 24 random hex digits.
std::string NewId(const std::string& prefix);
std::uint64_t RandomNumber();
std::int64_t SecondsNow();  // since 1970

}  // namespace banyan
