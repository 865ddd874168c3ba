// The output file of a job on the disk: locked while the job writes it, and replaced as a whole
// when records leave it or change their order.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "tasks/output/journal.h"

namespace banyan {

class LockedOutput {
 public:
  // Opens the file, which is made where there is none, and locks it. Throws kIo, and kUsage when
  // another job has it.
  LockedOutput(std::string path, Packing packing);
  ~LockedOutput();
  LockedOutput(const LockedOutput&) = delete;
  LockedOutput& operator=(const LockedOutput&) = delete;

  // Permissions of the journal: not wider than those of the output.
  mode_t journal_mode() const;
  // Whether the name still means the locked file.
  bool StillThere() const;

  // The journal beside the output, after finishing a replacement that it speaks of.
  JournalContents FinishReplacing(JournalWriter& writer);
  // An output with these of the journal's records, in this order, takes the old one's place.
  struct Replaced {
    JournalContents journal;
    std::unique_ptr<OutputFile> file;  // to append to
  };
  Replaced ReplaceBy(const JournalContents& journal, const std::vector<size_t>& records,
                     JournalWriter& writer);
  // Removes what a replacement that did not count left behind.
  void ForgetReplacement() const;

 private:
  void PutReplacementInPlace();

  const std::string path_;
  const Packing packing_;
  int lock_ = -1;          // the file, opened and locked
  std::string real_path_;  // without links
};

}  // namespace banyan
