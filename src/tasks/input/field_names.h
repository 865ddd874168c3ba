// Names of fields that look like slips of the pen.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tasks/input/input.h"

namespace banyan {

// "; did you mean 'context' by 'contxt'?", of an object without the field `wanted`, when it has one
// that is none of `known` and is near to it; else empty.
std::string DidYouMeanField(const Json& object, std::string_view wanted,
                            std::span<const std::string_view> known = {});

// What rows of a job may have that nobody would miss: fields that are carried, not read, because
// they are called almost like one that is read.
class MistypedFields {
 public:
  explicit MistypedFields(std::string_view task);
  void Look(const InputRow& row);
  // "in.jsonl, line 3: the field 'instuction' is carried, not read (in 12 rows); …", one for each.
  std::vector<std::string> Notices() const;

 private:
  struct Name {
    std::string meant;  // empty: it is no slip
    std::string place;  // of the first row with it
    std::int64_t rows = 0;
  };

  const std::vector<std::string> known_;
  std::map<std::string, Name, std::less<>> names_;
};

}  // namespace banyan
