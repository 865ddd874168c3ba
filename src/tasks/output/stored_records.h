// The rows of an output's records, read in any order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "tasks/output/journal.h"

namespace banyan {

class StoredRecords {
 public:
  // REQUIRES: the output is what the journal says. A packed one is unpacked into `scratch`, a name
  // of our own; the file has no name any more when the constructor returns. Throws kIo, kFormat.
  StoredRecords(const std::string& output, Packing packing, const JournalContents& journal,
                const std::string& scratch);
  ~StoredRecords();
  StoredRecords(const StoredRecords&) = delete;
  StoredRecords& operator=(const StoredRecords&) = delete;

  const std::string& BeforeRecords() const { return before_records_; }  // a table's header
  // The rows of the journal's record; valid until the next call.
  const std::string& Read(size_t record);

 private:
  void Unpack(const std::string& scratch);
  const std::string& ReadAt(std::int64_t begin, std::int64_t bytes);

  std::string output_;
  int fd_ = -1;
  std::vector<std::int64_t> begins_;  // of records, and where the last ends
  std::string before_records_, rows_;
};

}  // namespace banyan
