// Tables on stderr, JSON for machines.
#include "bench_report.h"
#include "program/json_library.h"

#include <fmt/format.h>
#include <algorithm>
#include <iostream>

#include "program/fresh_file.h"

namespace banyan::app {
namespace {

std::string Percent(double fraction) {
  return fraction > 0.0 ? fmt::format("{:.0f} %", 100.0 * fraction) : "-";
}
std::string Whole(double value) { return value > 0.0 ? fmt::format("{:.0f}", value) : "-"; }
double Ratio(double a, double b) { return a > 0.0 && b > 0.0 ? a / b : 0.0; }

// "0.512 (0.498 to 0.530)"; one run has no spread.
std::string Seconds(const Outcome& o) {
  if (o.most_seconds <= 0.0) return fmt::format("{:.3f}", o.seconds);
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", o.seconds, o.least_seconds, o.most_seconds);
}

// "57 of 1024": flat runs only the first streams.
std::string StreamsText(const WorkResult& result, const Outcome& o) {
  const int all = result.work.streams();
  return o.streams() < all ? fmt::format("{} of {}", o.streams(), all) : fmt::format("{}", all);
}

std::string MachineText(const Model& model) {
  std::string text = fmt::format("{}, {}", model.backend_name(), model.precision());
  if (model.flops_per_second() > 0.0) {
    text += fmt::format(", measured {:.3g} TFLOP/s and {:.3g} TB/s",
                        model.flops_per_second() * 1e-12, model.bytes_per_second() * 1e-12);
  }
  return text;
}

// Whether the answers were compared with another strategy's.
const char* EqualText(const WorkResult& result, const Outcome& outcome) {
  if (ComparisonOnly(outcome.strategy)) return "-";
  if (!result.compared) return "not compared";
  int compared = 0;
  for (const Outcome& other : result.outcomes) compared += ComparisonOnly(other.strategy) ? 0 : 1;
  return compared > 1 ? "yes" : "alone";
}

// What all streams at once take, by those that ran; x: more than the memory set aside.
std::string KvText(const WorkResult& result, const Outcome& o) {
  const double bytes = static_cast<double>(o.receipt.kv_bytes_peak) * result.work.streams() /
                       std::max(1, o.streams());
  const bool fits = bytes <= static_cast<double>(o.receipt.kv_bytes_total);
  return fmt::format("{:.0f}{}", bytes / (1 << 20), fits ? "" : " x");
}

void PrintWorkRow(const WorkResult& result, const Outcome& o) {
  const Outcome* ceiling = result.Find(Strategy::kNoAttention);
  const double of_ceiling =
      ceiling == nullptr ? 0.0 : Ratio(o.questions_per_second(), ceiling->questions_per_second());
  const bool alone = o.streams() < result.work.streams();
  const double limit_rate = Ratio(result.work.streams(), result.limit_seconds());
  fmt::print("| {} | {} | {} | {:.1f} | {:.0f} | {} | {} | {} | {} | {} |\n",
             StrategyName(o.strategy), StreamsText(result, o), Seconds(o), o.questions_per_second(),
             o.tokens_per_second(), Whole(o.decode_tokens_per_second()),
             o.receipt.prefilled_tokens + o.receipt.decode_rows,
             alone || ceiling == nullptr || &o == ceiling ? "-" : Percent(1.0 - of_ceiling),
             Percent(Ratio(o.questions_per_second(), limit_rate)), EqualText(result, o));
}

void PrintGridRow(const WorkResult& result, const Outcome& o, double target) {
  const Outcome* ceiling = result.Find(Strategy::kNoAttention);
  const double rate = o.decode_tokens_per_second();
  const double steps = static_cast<double>(o.receipt.decode_steps);
  const bool some = o.streams() < result.work.streams();
  fmt::print(
      "| {} | {} | {} | {} | {:.0f} | {:.2f} | {} | {} | {} | {} | {} | {} |\n",
      StreamsText(result, o), result.work.lengths.front(), StrategyName(o.strategy), Whole(rate),
      Ratio(static_cast<double>(o.receipt.decode_step_tokens), steps),
      o.seconds_per_decode_step() * 1e3,
      ceiling == nullptr || some ? "-" : Percent(Ratio(rate, ceiling->decode_tokens_per_second())),
      some ? "-" : Percent(Ratio(o.receipt.decode_limit_seconds, o.receipt.decode_step_seconds)),
      Whole(Ratio(static_cast<double>(o.receipt.prefilled_tokens), o.receipt.prefill_step_seconds)),
      KvText(result, o), EqualText(result, o),
      some || &o == ceiling || target <= 0.0 ? "-" : ">= " + Whole(target));
}

}  // namespace

void WriteJson(const std::string& file, const nlohmann::ordered_json& json) {
  if (file == "-") {
    std::cout << json.dump(1) << std::endl;
    return;
  }
  WriteFreshFile(file, "--json", /*overwrite=*/true, json.dump(1) + "\n");
}

void PrintWork(const WorkResult& result, const Model& model) {
  fmt::print("{}: {} | {}\n\n", result.work.name, result.work.Text(), MachineText(model));
  fmt::print(
      "| strategy | streams | seconds | questions/s | tok/s | decode tok/s | rows computed | "
      "attention | of limit | equal |\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Outcome& outcome : result.outcomes) PrintWorkRow(result, outcome);
  fmt::print(
      "\ntok/s: new tokens over the whole run; decode: over steps that only extend streams. "
      "attention: its share\nof the time, from the same run without it. limit: the least time for "
      "the bytes and flops of the job,\nshared as well as any of these did, at the measured "
      "rates.\n");
}

void PrintGrid(const std::vector<WorkResult>& results, const Model& model,
               double (*target)(const Work& work)) {
  if (results.empty()) return;
  const Work& work = results.front().work;
  fmt::print("{}: streams on shared tokens, {} own and {} new each | {}\n\n", work.name,
             work.lengths.back(), work.max_new, MachineText(model));
  fmt::print(
      "| streams | shared | strategy | decode tok/s | rows a step | ms a step | of ceiling | "
      "of limit | prefill tok/s | KV MiB | equal | target |\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const WorkResult& result : results) {
    const double wanted = target == nullptr ? 0.0 : target(result.work);
    for (const Outcome& outcome : result.outcomes) PrintGridRow(result, outcome, wanted);
  }
  fmt::print(
      "\nDecode steps alone. ceiling: the same steps without attention. limit: the least time for "
      "their bytes\nand flops at the measured rates. prefill: of the steps that computed "
      "prompts. KV: of all streams at once;\nx: more than the memory for it (--kv-memory), so they "
      "take turns.\n");
}

nlohmann::ordered_json JsonOf(const WorkResult& result, const Model& model) {
  nlohmann::ordered_json json = {{"work", result.work.name},
                                 {"branches", result.work.branches},
                                 {"lengths", result.work.lengths},
                                 {"max_new", result.work.max_new},
                                 {"streams", result.work.streams()},
                                 {"backend", model.backend_name()},
                                 {"precision", model.precision()},
                                 {"flops_per_second", model.flops_per_second()},
                                 {"bytes_per_second", model.bytes_per_second()},
                                 {"limit_seconds", result.limit_seconds()}};
  for (const Outcome& o : result.outcomes) {
    json["strategies"].push_back({{"strategy", StrategyName(o.strategy)},
                                  {"streams", o.streams()},
                                  {"seconds", o.seconds},
                                  {"least_seconds", o.least_seconds},
                                  {"most_seconds", o.most_seconds},
                                  {"questions_per_second", o.questions_per_second()},
                                  {"tokens_per_second", o.tokens_per_second()},
                                  {"decode_tokens_per_second", o.decode_tokens_per_second()},
                                  {"steps", o.receipt.steps},
                                  {"decode_steps", o.receipt.decode_steps},
                                  {"decode_step_seconds", o.receipt.decode_step_seconds},
                                  {"prefill_step_seconds", o.receipt.prefill_step_seconds},
                                  {"prompt_tokens", o.receipt.prompt_tokens},
                                  {"prefilled_tokens", o.receipt.prefilled_tokens},
                                  {"generated_tokens", o.receipt.generated_tokens},
                                  {"plan_seconds", o.receipt.plan_seconds},
                                  {"forward_seconds", o.receipt.forward_seconds},
                                  {"choose_seconds", o.receipt.choose_seconds},
                                  {"wait_seconds", o.receipt.wait_seconds},
                                  {"kv_bytes_peak", o.receipt.kv_bytes_peak},
                                  {"limit_seconds", o.receipt.limit_seconds},
                                  {"decode_limit_seconds", o.receipt.decode_limit_seconds}});
  }
  return json;
}

}  // namespace banyan::app
