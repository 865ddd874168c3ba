// banyan bench arrival: requests of mixed lengths that come one after another, at random (a Poisson
// process), against the same requests in one batch loop. What people wait for, beside throughput.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "banyan/error.h"
#include "bench_commands.h"
#include "bench_report.h"
#include "bench_run.h"
#include "program/json_library.h"

namespace banyan::app {
namespace {

using Clock = std::chrono::steady_clock;

struct ArrivalCommand {
  BenchModel model;
  int requests = 200;
  std::pair<int, int> document{32, 1024}, questions{1, 8}, answer{1, 32};
  int question = 12;
  std::vector<double> loads{0.5, 0.8, 0.0};
  std::uint64_t seed = 1;
};

struct Arrivals {
  std::string name;
  double load = 0.0;  // of what the batch loop does; 0: all at once
  double seconds = 0.0;
  Receipt receipt;
  std::vector<Answer> answers;  // by tag
};

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Lengths are spread evenly over their logarithm: as many short ones as long ones.
std::vector<PromptSegment> MakeArrivals(const ArrivalCommand& command, int vocab_size) {
  std::mt19937_64 random(command.seed);
  const auto between = [&](const std::pair<int, int>& range) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    const double low = std::log(range.first), high = std::log(range.second + 1);
    return std::clamp(static_cast<int>(std::exp(low + u * (high - low))), range.first,
                      range.second);
  };
  const auto tokens = [&](int count) {
    std::vector<TokenId> made(static_cast<size_t>(count));
    for (TokenId& token : made) token = static_cast<TokenId>(random() % std::uint64_t(vocab_size));
    return made;
  };
  const std::vector<TokenId> instruction = tokens(32);
  std::vector<PromptSegment> requests;
  std::uint64_t tag = 0;
  for (int i = 0; i < command.requests; ++i) {
    PromptSegment root, document;
    root.tokens = instruction;
    document.tokens = tokens(between(command.document));
    for (int q = between(command.questions); q > 0; --q) {
      PromptSegment question;
      question.tokens = tokens(command.question);
      AnswerRequest answer;
      answer.tag = tag++;
      answer.max_new = between(command.answer);
      answer.stream = true;
      question.answers.push_back(std::move(answer));
      document.below.push_back(std::move(question));
    }
    root.below.push_back(std::move(document));
    requests.push_back(std::move(root));
  }
  return requests;
}

size_t CountAnswers(const std::vector<PromptSegment>& requests) {
  size_t count = 0;
  for (const PromptSegment& request : requests) count += request.below.front().below.size();
  return count;
}

void TakeInto(std::vector<AnswerEvent> events, std::vector<Answer>& answers, size_t& ended) {
  for (AnswerEvent& event : events) {
    if (!event.ended) continue;
    if (event.answer.finish == FinishReason::kError) {
      throw Error(ErrorKind::kLimit, fmt::format("answer {}: {}", event.tag, event.answer.error));
    }
    answers[event.tag] = std::move(event.answer);
    ++ended;
  }
}

Arrivals RunBatch(const BenchRun& run, const std::vector<PromptSegment>& requests) {
  Arrivals result;
  result.name = "batch loop";
  result.answers.resize(CountAnswers(requests));
  EngineOptions options = run.engine;
  options.strategy = run.strategies.front();
  options.mixed_rows = -1;
  Engine engine(run.model, options);
  const Clock::time_point start = Clock::now();
  for (const PromptSegment& request : requests) engine.Submit(request);
  size_t ended = 0;
  while (engine.Step()) TakeInto(engine.TakeEvents(), result.answers, ended);
  TakeInto(engine.TakeEvents(), result.answers, ended);
  result.seconds = Since(start);
  result.receipt = engine.receipt();
  return result;
}

// One thread submits at its times, the engine works on its own, this one takes what comes.
Arrivals RunService(const BenchRun& run, const std::vector<PromptSegment>& requests, double load,
                    double requests_per_second, std::uint64_t seed) {
  Arrivals result;
  result.load = load;
  result.name = load > 0.0 ? fmt::format("arriving, load {:.2f}", load) : "all at once";
  result.answers.resize(CountAnswers(requests));
  EngineOptions options = run.engine;
  options.strategy = run.strategies.front();
  Engine engine(run.model, options);
  engine.Start();
  const Clock::time_point start = Clock::now();
  std::thread people([&] {
    std::mt19937_64 random(seed);
    double due = 0.0;
    for (const PromptSegment& request : requests) {
      if (load > 0.0) {
        const double u = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
        due -= std::log(u) / requests_per_second;
        std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(
                                                  std::chrono::duration<double>(due)));
      }
      engine.Submit(request);
    }
  });
  size_t ended = 0;
  std::exception_ptr failure;
  try {
    while (ended < result.answers.size()) {
      TakeInto(engine.TakeEvents(1.0), result.answers, ended);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  result.seconds = Since(start);
  people.join();
  if (failure) std::rethrow_exception(failure);
  result.receipt = engine.receipt();
  return result;
}

void RequireSame(const Arrivals& a, const Arrivals& b) {
  for (size_t i = 0; i < a.answers.size(); ++i) {
    const Answer& x = a.answers[i];
    const Answer& y = b.answers[i];
    if (x.tokens == y.tokens && x.logprobs.size() == y.logprobs.size() &&
        std::memcmp(x.logprobs.data(), y.logprobs.data(), x.logprobs.size() * sizeof(float)) == 0) {
      continue;
    }
    throw Error(ErrorKind::kInput,
                fmt::format("{} and {} gave different answers to {}: no times are printed", a.name,
                            b.name, i));
  }
}

nlohmann::ordered_json JsonOf(const Arrivals& run, const Arrivals& batch) {
  const auto answers = static_cast<double>(run.answers.size());
  return {{"run", run.name},
          {"load", run.load},
          {"seconds", run.seconds},
          {"answers_per_second", answers / run.seconds},
          {"of_batch", batch.seconds / run.seconds},
          {"first_token_median", run.receipt.first_token_median},
          {"first_token_p99", run.receipt.first_token_p99},
          {"next_token_median", run.receipt.next_token_median},
          {"next_token_p99", run.receipt.next_token_p99},
          {"preempted", run.receipt.preempted},
          {"steps", run.receipt.steps}};
}

int RunArrival(ArrivalCommand& command) {
  BenchRun run = command.model.Prepare();
  const std::vector<PromptSegment> requests = MakeArrivals(command, run.model->vocab_size());
  run.model->flops_per_second();  // measured before KV takes the memory
  // Steps of other sizes choose their algorithms when they first come.
  if (run.warm_up) {
    const double seconds = RunBatch(run, requests).seconds;
    for (const double load : command.loads) {
      const double rate = load * static_cast<double>(requests.size()) / seconds;
      RunService(run, requests, load, rate, command.seed);
    }
  }
  std::vector<Arrivals> results;
  // The batch loop and the service by turns, the best of each: machines are noisy.
  const auto better = [](Arrivals a, Arrivals b) { return a.seconds < b.seconds ? a : b; };
  for (int i = 0; i < std::max(1, run.repeat); ++i) {
    Arrivals batch = RunBatch(run, requests);
    if (i == 0) {
      results.push_back(std::move(batch));
    } else {
      results[0] = better(std::move(results[0]), std::move(batch));
    }
    for (size_t l = 0; l < command.loads.size(); ++l) {
      const double load = command.loads[l];
      if (load > 0.0 && i > 0) continue;  // its time is that of the arrivals
      const double rate = load * static_cast<double>(requests.size()) / results[0].seconds;
      Arrivals service = RunService(run, requests, load, rate, command.seed);
      if (run.model->exact()) RequireSame(results[0], service);
      if (i == 0) {
        results.push_back(std::move(service));
      } else {
        results[l + 1] = better(std::move(results[l + 1]), std::move(service));
      }
    }
  }
  if (!command.model.json.empty()) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const Arrivals& result : results) json.push_back(JsonOf(result, results[0]));
    WriteJson(command.model.json, json);
    if (command.model.json == "-") return 0;
  }
  fmt::print("arrival: {} requests, {} answers | {}, {}\n\n", requests.size(),
             results[0].answers.size(), run.model->backend_name(), run.model->precision());
  fmt::print(
      "| run | answers/s | of batch | first token ms, median | 99 % | next token ms, median | 99 % "
      "| steps |\n|---|---|---|---|---|---|---|---|\n");
  for (const Arrivals& r : results) {
    fmt::print("| {} | {:.1f} | {:.2f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {} |\n", r.name,
               static_cast<double>(r.answers.size()) / r.seconds, results[0].seconds / r.seconds,
               1e3 * r.receipt.first_token_median, 1e3 * r.receipt.first_token_p99,
               1e3 * r.receipt.next_token_median, 1e3 * r.receipt.next_token_p99, r.receipt.steps);
  }
  return 0;
}

void AddRange(CLI::App& app, const char* name, std::pair<int, int>& range, const char* what) {
  app.add_option_function<std::vector<int>>(
         name,
         [&range, name](const std::vector<int>& values) {
           if (values.size() != 2 || values[0] < 1 || values[1] < values[0]) {
             throw CLI::ValidationError(name,
                                        "expected two numbers of 1 or more, the smaller first");
           }
           range = {values[0], values[1]};
         },
         what)
      ->delimiter(',')
      ->default_str(fmt::format("{},{}", range.first, range.second));
}

}  // namespace

BenchCommand AddBenchArrival(CLI::App& bench) {
  auto command = std::make_shared<ArrivalCommand>();
  CLI::App* app = bench.add_subcommand(
      "arrival", "Requests that arrive one by one: throughput and waiting against the batch loop");
  command->model.strategies = "auto";
  command->model.AddTo(*app);
  app->add_option("--requests", command->requests, "Documents, each with questions")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  AddRange(*app, "--document", command->document, "Tokens of a document: least, most");
  AddRange(*app, "--questions", command->questions, "Questions on a document: least, most");
  AddRange(*app, "--answer", command->answer, "Tokens of an answer: least, most");
  app->add_option("--loads", command->loads,
                  "Rates of arrival, as parts of what the batch loop does; 0: all at once")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("--seed", command->seed, "Of tokens, lengths and times")->capture_default_str();
  return {app, [command] { return RunArrival(*command); }};
}

}  // namespace banyan::app
