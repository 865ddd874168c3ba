// Which records of an input were met, in the input's order: of several with one id the first is
// asked and the others are errors, in this run and in those that go on with it, even when the input
// was sorted otherwise meanwhile.
#pragma once

#include <functional>
#include <string_view>
#include <unordered_map>

#include "tasks/output/journal.h"

namespace banyan {

class RecordLedger {
 public:
  using IsDone = std::function<bool(const Key128&)>;  // an earlier run finished the record

  struct Verdict {
    Key128 key{};            // of the record in the journal
    bool duplicate = false;  // an earlier record has its id
    bool done = false;
  };
  // The next record of the input: its id (with what belongs to it) and its line.
  Verdict Judge(std::string_view identity, std::string_view content, const IsDone& is_done);

 private:
  struct KeyHash {
    size_t operator()(const Key128& key) const { return static_cast<size_t>(key[0]); }
  };
  KeySet identities_;
  KeySet claims_;  // identities with the lines that have them
  std::unordered_map<Key128, int, KeyHash> repeats_;
};

}  // namespace banyan
