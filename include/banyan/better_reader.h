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

}  // namespace banyan
