// Metrics for Prometheus: requests, answers, tokens and latencies. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "banyan/answer.h"
#include "banyan/engine.h"
#include "serve/http/http.h"

namespace banyan {

class Metrics {
 public:
  void CountRequest(const std::string& path, int status, double seconds, bool gone);
  void CountAnswer(const Answer& answer);

  // The text that GET /metrics gives.
  std::string ToText(const Engine& engine, const HttpCounts& http, const std::string& model) const;

 private:
  // Seconds, in buckets from a millisecond to a minute.
  struct Histogram {
    static constexpr std::array kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                           0.5,   1.0,    2.5,   5.0,  10.0,  30.0, 60.0};
    std::array<std::int64_t, kBounds.size() + 1> counts{};
    double sum = 0.0;
    void Add(double seconds);
    void Write(const char* name, const char* help, std::string& text) const;
  };

  mutable std::mutex mutex_;                                      // guards what follows
  std::map<std::pair<std::string, int>, std::int64_t> requests_;  // by path and status
  std::int64_t gone_ = 0;
  std::map<std::string, std::int64_t> answers_;  // by how they ended
  std::int64_t prompt_tokens_ = 0, cached_tokens_ = 0, completion_tokens_ = 0;
  Histogram first_token_, between_tokens_, request_seconds_;
};

}  // namespace banyan
