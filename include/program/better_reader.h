// A better reader than the shipped model, which the network has: what it is, and whether the person
// at this machine wants it to answer when nobody names a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace banyan {

struct ReaderOffer {
  std::string model;    // for FetchModel and -m
  std::string adapter;  // ships with the program
  std::string licence;
  std::string sha256;      // of the weights
  std::int64_t bytes = 0;  // of the weights
};

// Nothing where the adapter did not come with the program.
std::optional<ReaderOffer> BetterReader();

enum class ReaderChoice { kNone, kBetter, kShipped };

// What was chosen on this machine, kept in the cache directory. A better reader that was chosen and
// whose files are gone counts as not chosen.
ReaderChoice ChosenReader();
void ChooseReader(ReaderChoice choice);

enum class ReaderTask { kAsk, kExtract, kRag };

struct DefaultReader {
  std::string model;    // for LoadOptions
  std::string adapter;  // of `model`, by the name under which it ships; empty: none
};

// The better reader with the adapter that is trained for the task, where it was chosen and
// $BANYAN_MODEL names no other; else nothing. The adapter itself is the caller's to find.
std::optional<DefaultReader> ChosenReaderFor(ReaderTask task);

// What does a task when nobody names a model: $BANYAN_MODEL; else, where it was chosen, the better
// reader with the adapter that is trained for the task; else the shipped model. The one place where
// that is decided. Throws kNotFound as DefaultModel does.
DefaultReader DefaultReaderFor(ReaderTask task);

}  // namespace banyan
