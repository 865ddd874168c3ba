// What a job did and what it would do, as text for people and as JSON for programs.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "banyan/job.h"
#include "base/error.h"
#include "base/json.h"
#include "program/fresh_file.h"
#include "program/message_text.h"
#include "tasks/input/input.h"
#include "tasks/job/job.h"
#include "tasks/job/job_progress.h"
#include "tasks/job/job_rows.h"

namespace banyan {

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string Bytes(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= std::int64_t{1} << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  return fmt::format("{:.1f} MiB", value / (1 << 20));
}

std::string Duration(double seconds) {
  if (seconds < 120.0) return fmt::format("{:.1f} s", seconds);
  if (seconds < 7200.0) return fmt::format("{:.1f} min", seconds / 60.0);
  return fmt::format("{:.1f} h", seconds / 3600.0);
}

// 12345678 → "12 345 678"
std::string Count(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (number < 0 ? 1 : 0);
       at -= 3) {
    digits.insert(static_cast<size_t>(at), " ");
  }
  return digits;
}

double Rate(std::int64_t count, double seconds) {
  return seconds > 0.0 ? static_cast<double>(count) / seconds : 0.0;
}

double Share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

// Three digits after the point are enough for a time, and read better.
double Rounded(double value) { return std::round(value * 1000.0) / 1000.0; }

double StepSeconds(const Receipt& engine) {
  return engine.decode_step_seconds + engine.prefill_step_seconds;
}
// -0.1: a tenth too little was predicted.
double PredictionError(const Receipt& engine) {
  const double seconds = StepSeconds(engine);
  return seconds > 0.0 ? engine.predicted_seconds / seconds - 1.0 : 0.0;
}

std::string EndName(JobEnd end) {
  switch (end) {
    case JobEnd::kComplete:
      return "complete";
    case JobEnd::kStopped:
      return "stopped";
    case JobEnd::kTooManyErrors:
      return "too many errors";
    case JobEnd::kUnreadable:
      return "stopped at what cannot be read";
  }
  return "?";
}

std::string Dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace

bool JobReceipt::MayWrite(const std::string& side_output) const {
  return !finished_before || WhatIsThere(side_output).empty();
}

// "extract: 200 rows in 21.3 s (9.4 rows/s)".
std::string JobReceipt::ToLine() const {
  std::string text = fmt::format("{}: ", task);
  if (end != JobEnd::kComplete) text += EndName(end) + "; ";
  text += Plural(rows, "row");
  if (dropped > 0) text += fmt::format(" of {}", Count(rows + dropped));
  if (rows != rows_this_run) text += fmt::format(", {} of them now,", Count(rows_this_run));
  text += " in " + Duration(seconds);
  const std::int64_t answered = rows_this_run - error_rows_this_run;
  if (answered > 0) text += fmt::format(" ({:.3g} rows/s)", Rate(rows_this_run, seconds));
  if (output != "-") text += ", written to " + output;
  if (!promise.empty()) text += "\n" + promise;
  if (!calibration.empty()) text += "\ncalibrated " + calibration;
  return text + "\n";
}

std::string JobReceipt::ToText() const {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<10} {}\n", name, value);
  };
  text += fmt::format("{}: {}\n", task, EndName(end));
  std::string counted = fmt::format("{} ({})", Count(rows), Plural(error_rows, "error"));
  if (rows != rows_this_run) counted += fmt::format(", {} in this run", Count(rows_this_run));
  if (dropped > 0) counted += fmt::format("; {} not kept", Count(dropped));
  line("rows", counted);
  if (!promise.empty()) line("promise", promise);
  if (!calibration.empty()) line("calibrated", calibration);
  if (comparisons > 0) {
    line("compared", fmt::format("{} in {}, in both orders; {:.0f} % with the same winner in both",
                                 Plural(comparisons, "pair"), Plural(comparison_rounds, "round"),
                                 100.0 * Share(comparisons_agreed, comparisons)));
  }
  if (equal_prompts > 0) {
    line("equal", fmt::format("{} had the prompt of an earlier row and were not computed again",
                              Plural(equal_prompts, "row")));
  }
  if (unread_inputs > 0) {
    line("not read", fmt::format("{}; the first: {}", Plural(unread_inputs, "input"),
                                 unread.empty() ? "" : unread.front()));
  }
  if (skipped > 0 || not_in_input > 0) {
    std::string resumed = fmt::format("{} {} finished before", Plural(skipped, "record"),
                                      skipped == 1 ? "was" : "were");
    if (not_in_input > 0) {
      resumed += fmt::format("; {} more not in this input: {} removed", Count(not_in_input),
                             Plural(rows_removed, "row"));
    }
    line("resumed", resumed);
  }
  line("tokens",
       fmt::format("{} in prompts: {} prefilled, {} shared ({:.1f} %); {} generated",
                   Count(engine.prompt_tokens), Count(engine.prefilled_tokens),
                   Count(shared_tokens), 100.0 * Share(shared_tokens, engine.prompt_tokens),
                   Count(engine.generated_tokens)));
  if (unwritten_tokens > 0) {
    line("unwritten", fmt::format("{} more tokens were computed for rows that were not finished",
                                  Count(unwritten_tokens)));
  }
  if (engine.loaded_tokens + engine.saved_tokens + engine.damaged_segments > 0) {
    std::string kept = fmt::format("{} tokens loaded, {} saved", Count(engine.loaded_tokens),
                                   Count(engine.saved_tokens));
    if (engine.damaged_segments > 0) {
      kept += fmt::format("; {} not used", Plural(engine.damaged_segments, "damaged segment"));
    }
    line("kv store", kept);
  }
  line("speed", fmt::format("{:.1f} rows/s, {:.0f} tokens/s generated",
                            Rate(rows_this_run, seconds), Rate(engine.generated_tokens, seconds)));
  line("waits", fmt::format("first token {:.3g} s in the median, 99 % within {:.3g} s; next ones "
                            "{:.3g} and {:.3g} s",
                            engine.first_token_median, engine.first_token_p99,
                            engine.next_token_median, engine.next_token_p99));
  line("time", fmt::format("{} (load {}): plan {}, forward {}, choose {}; beside it text {}, "
                           "output {}",
                           Duration(seconds), Duration(load_seconds), Duration(engine.plan_seconds),
                           Duration(engine.forward_seconds), Duration(engine.choose_seconds),
                           Duration(input_seconds), Duration(output_seconds)));
  line("memory",
       fmt::format("{} at most: weights {}, KV {} of {}{}", Bytes(memory_bytes_peak),
                   Bytes(weight_bytes), Bytes(engine.kv_bytes_peak), Bytes(engine.kv_bytes_total),
                   engine.state_bytes_total == 0
                       ? ""
                       : fmt::format(", of which {} states", Bytes(engine.state_bytes_peak))));
  if (engine.limit_seconds > 0.0) {
    line("limit", fmt::format("{:.1f} % of what the machine's measured rates allow",
                              100.0 * engine.limit_seconds / seconds));
  }
  if (engine.predicted_seconds > 0.0) {
    line("predicted",
         fmt::format("{} for steps that took {} ({:+.0f} %)", Duration(engine.predicted_seconds),
                     Duration(StepSeconds(engine)), 100.0 * PredictionError(engine)));
  }
  line("engine", fmt::format("{}, {}, strategy {}, {}", backend, precision, strategy,
                             Plural(engine.steps, "step")));
  if (engine.devices.size() > 1) {
    for (const DeviceShare& device : engine.devices) {
      line("device",
           fmt::format("{}: {}, {} tokens prefilled, {} generated, busy for {} ({:.0f} %)",
                       device.name, Plural(device.requests, "request"),
                       Count(device.prefilled_tokens), Count(device.generated_tokens),
                       Duration(device.busy_seconds),
                       seconds > 0.0 ? 100.0 * device.busy_seconds / seconds : 0.0));
    }
  }
  line("answers", answers_hash);
  return text;
}

std::string JobReceipt::ToJson() const {
  OrderedJson json;
  json["task"] = task;
  json["end"] = EndName(end);
  json["output"] = output;
  json["rows"] = rows;
  json["error_rows"] = error_rows;
  if (dropped > 0) json["dropped"] = dropped;
  if (!promise.empty()) json["promise"] = promise;
  if (!calibration.empty()) json["probabilities_calibrated"] = calibration;
  if (comparisons > 0) {
    json["comparisons"] = {{"pairs", comparisons},
                           {"same_winner_in_both_orders", comparisons_agreed},
                           {"rounds", comparison_rounds}};
  }
  if (equal_prompts > 0) json["equal_prompts"] = equal_prompts;
  json["rows_this_run"] = rows_this_run;
  json["error_rows_this_run"] = error_rows_this_run;
  json["unread_inputs"] = unread_inputs;
  json["records"] = records;
  json["records_finished_before"] = skipped;
  json["records_not_in_input"] = not_in_input;
  json["rows_removed"] = rows_removed;
  json["prompt_tokens"] = engine.prompt_tokens;
  json["prefilled_tokens"] = engine.prefilled_tokens;
  json["shared_tokens"] = shared_tokens;
  json["unwritten_tokens"] = unwritten_tokens;
  json["copied_tokens"] = engine.copied_tokens;
  json["loaded_tokens"] = engine.loaded_tokens;
  json["saved_tokens"] = engine.saved_tokens;
  json["damaged_segments"] = engine.damaged_segments;
  json["generated_tokens"] = engine.generated_tokens;
  json["rows_per_second"] = Rounded(Rate(rows_this_run, seconds));
  json["generated_tokens_per_second"] = Rounded(Rate(engine.generated_tokens, seconds));
  json["seconds"] = {{"total", Rounded(seconds)},
                     {"load", Rounded(load_seconds)},
                     {"input", Rounded(input_seconds)},
                     {"plan", Rounded(engine.plan_seconds)},
                     {"forward", Rounded(engine.forward_seconds)},
                     {"choose", Rounded(engine.choose_seconds)},
                     {"steps", Rounded(StepSeconds(engine))},
                     {"output", Rounded(output_seconds)}};
  json["first_token_seconds"] = {{"median", Rounded(engine.first_token_median)},
                                 {"p99", Rounded(engine.first_token_p99)}};
  json["next_token_seconds"] = {{"median", Rounded(engine.next_token_median)},
                                {"p99", Rounded(engine.next_token_p99)}};
  json["preempted"] = engine.preempted;
  json["memory_bytes_peak"] = memory_bytes_peak;
  json["weight_bytes"] = weight_bytes;
  json["kv_bytes_peak"] = engine.kv_bytes_peak;
  json["kv_bytes_total"] = engine.kv_bytes_total;
  if (engine.state_bytes_total > 0) {
    json["state_bytes_peak"] = engine.state_bytes_peak;
    json["state_bytes_total"] = engine.state_bytes_total;
  }
  const bool known = engine.limit_seconds > 0.0 && seconds > 0.0;
  json["fraction_of_limit"] =
      known ? OrderedJson(Rounded(engine.limit_seconds / seconds)) : OrderedJson();
  const bool predicted = engine.predicted_seconds > 0.0 && StepSeconds(engine) > 0.0;
  json["prediction"] = predicted ? OrderedJson({{"seconds", Rounded(engine.predicted_seconds)},
                                                {"error", Rounded(PredictionError(engine))}})
                                 : OrderedJson();
  json["steps"] = engine.steps;
  json["steps_apart"] = engine.steps_apart;
  json["streams"] = engine.streams;
  json["model"] = model;
  if (!adapter.empty()) json["adapter"] = adapter;
  json["fingerprint"] = fingerprint;
  json["backend"] = backend;
  json["precision"] = precision;
  json["strategy"] = strategy;
  for (const DeviceShare& device : engine.devices) {
    json["devices"].push_back({{"name", device.name},
                               {"requests", device.requests},
                               {"requests_of_others", device.requests_of_others},
                               {"prefilled_tokens", device.prefilled_tokens},
                               {"generated_tokens", device.generated_tokens},
                               {"busy_seconds", Rounded(device.busy_seconds)},
                               {"weight_bytes", device.weight_bytes},
                               {"kv_bytes", device.kv_bytes}});
  }
  json["answers_hash"] = answers_hash;
  return Dump(json);
}

std::string JobEstimate::ToText() const {
  std::string text = "dry run: nothing was written\n";
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<10} {}\n", name, value);
  };
  line("rows",
       fmt::format("{} from {} ({}, {} of them too long)", Count(rows), Plural(records, "record"),
                   Plural(error_rows, "error row"), Count(too_long)));
  line("tokens",
       fmt::format("{} in prompts, the longest {}; up to {} in answers", Count(prompt_tokens),
                   Count(longest_prompt), Count(answer_tokens_limit)));
  if (comparisons > 0) {
    line("pairs",
         fmt::format("about {} to compare in {}, at most {}; two prompts each", Count(comparisons),
                     Plural(comparison_rounds, "round"), Count(most_comparisons)));
  }
  line("sharing", fmt::format("{} to prefill, {:.1f} % are shared", Count(unique_tokens),
                              100.0 * Share(prompt_tokens - unique_tokens, prompt_tokens)));
  if (rows_per_second > 0.0) {
    line("time", fmt::format("about {}; {} if every answer had full length",
                             Duration(expected_seconds), Duration(limit_seconds)));
    line("measured",
         fmt::format("{:.0f} tokens/s through the model and {:.1f} tokens an answer, on the first "
                     "{} in {}",
                     rows_per_second, tokens_per_answer, Plural(calibration_rows, "row"),
                     Duration(calibration_seconds)));
  } else {
    line("time", "unknown: nothing could be measured");
  }
  line("memory", fmt::format("weights {}, KV up to {}", Bytes(weight_bytes), Bytes(kv_bytes)));
  for (const DeviceShare& device : devices) {
    if (devices.size() == 1) break;
    line("device",
         fmt::format("{}: about {}; weights {}, KV of at most {}", device.name,
                     Plural(records / static_cast<std::int64_t>(devices.size()), "record"),
                     Bytes(device.weight_bytes), Bytes(device.kv_bytes)));
  }
  for (const DevicesPrediction& other : predictions) {
    if (other.devices == 1) continue;
    line("predicted",
         fmt::format("{} devices: about {} with a document on each, {} in shards of {} (a model)",
                     other.devices, Duration(other.seconds_by_document),
                     Duration(other.seconds_in_shards), Bytes(other.shard_bytes)));
  }
  return text;
}

std::string JobEstimate::ToJson() const {
  OrderedJson json;
  json["records"] = records;
  json["rows"] = rows;
  json["error_rows"] = error_rows;
  json["too_long"] = too_long;
  json["prompt_tokens"] = prompt_tokens;
  json["unique_tokens"] = unique_tokens;
  json["shared_tokens"] = prompt_tokens - unique_tokens;
  json["longest_prompt"] = longest_prompt;
  json["answer_tokens_limit"] = answer_tokens_limit;
  json["expected_seconds"] = Rounded(expected_seconds);
  json["limit_seconds"] = Rounded(limit_seconds);
  json["calibration"] = {{"seconds", Rounded(calibration_seconds)},
                         {"rows", calibration_rows},
                         {"tokens_per_second", Rounded(rows_per_second)},
                         {"tokens_per_answer", Rounded(tokens_per_answer)}};
  json["weight_bytes"] = weight_bytes;
  json["kv_bytes"] = kv_bytes;
  if (comparisons > 0) {
    json["comparisons"] = {
        {"pairs", comparisons}, {"most_pairs", most_comparisons}, {"rounds", comparison_rounds}};
  }
  for (const DeviceShare& device : devices) {
    json["devices"].push_back({{"name", device.name},
                               {"weight_bytes", device.weight_bytes},
                               {"kv_bytes", device.kv_bytes}});
  }
  for (const DevicesPrediction& other : predictions) {
    if (other.devices == 1) continue;
    json["predictions"].push_back({{"devices", other.devices},
                                   {"seconds_by_document", Rounded(other.seconds_by_document)},
                                   {"seconds_in_shards", Rounded(other.seconds_in_shards)},
                                   {"shard_bytes", other.shard_bytes}});
  }
  return Dump(json);
}

}  // namespace banyan
