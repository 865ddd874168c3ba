// The text of GET /metrics.
#include "serve/request/metrics.h"

#include <fmt/format.h>
#include <algorithm>
#include <iterator>

namespace banyan {
namespace {

void Write(std::string& text, const char* name, const char* type, const char* help, double value) {
  fmt::format_to(std::back_inserter(text), "# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help,
                 type, value);
}

}  // namespace

void Metrics::Histogram::Add(double seconds) {
  const auto bucket = std::ranges::lower_bound(kBounds, seconds) - kBounds.begin();
  ++counts[static_cast<size_t>(bucket)];
  sum += seconds;
}

void Metrics::Histogram::Write(const char* name, const char* help, std::string& text) const {
  auto out = std::back_inserter(text);
  fmt::format_to(out, "# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
  std::int64_t total = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    total += counts[i];
    fmt::format_to(out, "{}_bucket{{le=\"{}\"}} {}\n", name, kBounds[i], total);
  }
  total += counts.back();
  fmt::format_to(out, "{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, total,
                 sum);
}

void Metrics::CountRequest(const std::string& path, int status, double seconds, bool gone) {
  const std::lock_guard lock(mutex_);
  ++requests_[{path, status}];
  if (gone) ++gone_;
  request_seconds_.Add(seconds);
}

void Metrics::CountAnswer(const Answer& answer) {
  const std::lock_guard lock(mutex_);
  ++answers_[FinishReasonName(answer.finish)];
  prompt_tokens_ += answer.prompt_tokens;
  cached_tokens_ += answer.cached_tokens;
  completion_tokens_ += static_cast<std::int64_t>(answer.tokens.size());
  if (answer.tokens.empty()) return;
  first_token_.Add(answer.first_token_seconds);
  const auto more = static_cast<double>(answer.tokens.size()) - 1.0;
  if (more > 0.0) between_tokens_.Add((answer.seconds - answer.first_token_seconds) / more);
}

std::string Metrics::ToText(const Engine& engine, const HttpCounts& http,
                            const std::string& model) const {
  const Receipt receipt = engine.receipt();
  std::string text;
  auto out = std::back_inserter(text);
  std::string label = model;
  std::erase_if(label, [](char c) { return c == '"' || c == '\\' || c == '\n'; });
  fmt::format_to(out,
                 "# HELP banyan_model The model that is served\n# TYPE banyan_model gauge\n"
                 "banyan_model{{name=\"{}\"}} 1\n",
                 label);
  const std::lock_guard lock(mutex_);
  fmt::format_to(out,
                 "# HELP banyan_http_requests_total Requests by path and status\n"
                 "# TYPE banyan_http_requests_total counter\n");
  for (const auto& [key, count] : requests_) {
    fmt::format_to(out, "banyan_http_requests_total{{path=\"{}\",status=\"{}\"}} {}\n", key.first,
                   key.second, count);
  }
  fmt::format_to(out,
                 "# HELP banyan_answers_total Answers by how they ended\n"
                 "# TYPE banyan_answers_total counter\n");
  for (const auto& [reason, count] : answers_) {
    fmt::format_to(out, "banyan_answers_total{{end=\"{}\"}} {}\n", reason, count);
  }
  const auto counter = [&](const char* name, const char* help, auto value) {
    Write(text, name, "counter", help, static_cast<double>(value));
  };
  const auto gauge = [&](const char* name, const char* help, auto value) {
    Write(text, name, "gauge", help, static_cast<double>(value));
  };
  counter("banyan_clients_gone_total", "Requests whose client went away or was too slow", gone_);
  counter("banyan_connections_total", "Connections accepted", http.accepted.load());
  counter("banyan_connections_evicted_total", "Connections closed to make room",
          http.evicted.load());
  counter("banyan_connections_timed_out_total", "Connections that were too slow",
          http.timed_out.load());
  counter("banyan_requests_refused_busy_total", "Requests that were told to come again",
          http.refused_busy.load());
  gauge("banyan_connections", "Connections now", http.connections.load());
  gauge("banyan_requests", "Requests being served now", http.requests.load());
  gauge("banyan_bodies_bytes", "Bytes of requests in memory, with what they became",
        http.bodies_bytes.load());
  gauge("banyan_waiting_answers", "Answers that wait in the engine", engine.waiting());
  gauge("banyan_running_answers", "Answers being written", engine.running());
  counter("banyan_prompt_tokens_total", "Tokens of prompts, as if each were alone", prompt_tokens_);
  counter("banyan_cached_tokens_total", "Of them, in memory when the answer began", cached_tokens_);
  counter("banyan_completion_tokens_total", "Tokens written", completion_tokens_);
  counter("banyan_computed_prompt_tokens_total", "Rows computed for prompts",
          receipt.prefilled_tokens);
  counter("banyan_shared_tokens_total", "Prompt tokens that sharing saved",
          std::max<std::int64_t>(0, receipt.prompt_tokens - receipt.prefilled_tokens));
  counter("banyan_steps_total", "Forward passes", receipt.steps);
  counter("banyan_rows_total", "Rows of all forward passes",
          receipt.prefilled_tokens + receipt.decode_rows);
  counter("banyan_preempted_total", "Streams that gave their memory to others", receipt.preempted);
  counter("banyan_cancelled_total", "Answers that were cancelled", receipt.cancelled);
  counter("banyan_failed_total", "Answers that failed alone", receipt.failed);
  gauge("banyan_kv_bytes", "Memory for keys and values", receipt.kv_bytes_total);
  gauge("banyan_kv_bytes_held", "Of it, held by answers being written", receipt.kv_bytes_held);
  gauge("banyan_kv_bytes_peak", "Of it, used so far", receipt.kv_bytes_peak);
  fmt::format_to(out,
                 "# HELP banyan_device_requests_total Requests of the engine by device\n"
                 "# TYPE banyan_device_requests_total counter\n");
  for (const DeviceShare& device : receipt.devices) {
    fmt::format_to(out, "banyan_device_requests_total{{device=\"{}\"}} {}\n", device.name,
                   device.requests);
  }
  fmt::format_to(out,
                 "# HELP banyan_device_busy_seconds_total Seconds of steps by device\n"
                 "# TYPE banyan_device_busy_seconds_total counter\n");
  for (const DeviceShare& device : receipt.devices) {
    fmt::format_to(out, "banyan_device_busy_seconds_total{{device=\"{}\"}} {:.3f}\n", device.name,
                   device.busy_seconds);
  }
  first_token_.Write("banyan_first_token_seconds",
                     "From a request's arrival in the engine to a token", text);
  between_tokens_.Write("banyan_between_tokens_seconds",
                        "From a token to the next, mean of an answer", text);
  request_seconds_.Write("banyan_request_seconds", "From a request's head to its reply's end",
                         text);
  return text;
}

}  // namespace banyan
