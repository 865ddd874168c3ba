// Whether an output is what its journal says that it was.
#pragma once

#include <cstdint>
#include <string>

#include "base/hash.h"
#include "base/output_file.h"
#include "tasks/output/journal.h"

namespace banyan {

struct OutputCheck {
  size_t records = 0;          // of the journal's, so many are there as they were written
  std::int64_t rows = 0;       // of these
  std::int64_t raw_bytes = 0;  // that they take, with what stands before them, unpacked
  ContentHash kept;            // of the file's beginning with these records
  std::int64_t length = 0;     // of the whole file
  bool changed = false;        // what follows is not what was written, and not just missing
  std::int64_t kept_bytes() const { return static_cast<std::int64_t>(kept.bytes()); }
};

// Of an output that holds something without a usable journal beside it. Throws kUsage.
[[noreturn]] void RefuseUnknownOutput(const std::string& path, const JournalContents& journal);

// Reads the file as far as the journal counts it. `before_records` is what an unpacked output
// begins with. A file that lost its end is not changed. Of a packed file only what a commit ends
// with can be compared, so fewer records may be found than are there. Throws kIo.
OutputCheck CheckOutput(const std::string& path, Packing packing, const std::string& before_records,
                        const JournalContents& journal);

}  // namespace banyan
