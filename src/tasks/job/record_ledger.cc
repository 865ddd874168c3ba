#include "tasks/job/record_ledger.h"

#include <string>

namespace banyan {

RecordLedger::Verdict RecordLedger::Judge(std::string_view identity, std::string_view content,
                                          const IsDone& is_done) {
  // Lines may be long: hashed once.
  const Key128 hashed = KeyOf({content});
  const std::string_view line(reinterpret_cast<const char*>(hashed.data()), sizeof(hashed));
  // With the id: equal lines without ids of their own are as many records as there are lines.
  const Key128 record = KeyOf({"record", identity, line});
  const bool answered = is_done(record);
  const Key128 id = KeyOf({identity});
  const Key128 other = KeyOf({"duplicate", line, "1"});
  // An earlier run met another record with this id first, and said so: that stands.
  if (!answered && !identities_.Contains(id) && is_done(other)) return {other, true, true};
  const Key128 claim = KeyOf({identity, line});
  if (identities_.Insert(id)) {
    claims_.Insert(claim);
    return {record, false, answered};
  }
  const bool same_line = claims_.Contains(claim);
  // An earlier run met this one first.
  if (answered && !same_line) return {record, false, true};
  const int count = ++repeats_[claim];
  const Key128 key = KeyOf({same_line ? "repeated" : "duplicate", line, std::to_string(count)});
  return {key, true, is_done(key)};
}

}  // namespace banyan
