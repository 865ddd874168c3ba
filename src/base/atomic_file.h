// Files that appear whole or not at all, and survive a power cut: written under a temporary name in
// the target's folder, synced, renamed, and the folder synced. Everything that replaces a file as a
// whole comes through here.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace banyan {

class AtomicFile {
 public:
  // Creates `temporary`, which must be in the target's folder, with the permissions `mode` less the
  // umask. What a killed process left there is removed; a link is never followed. Throws kIo.
  AtomicFile(std::string target, std::string temporary, mode_t mode);
  // Removes the temporary file unless it was committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void SetMode(mode_t mode);  // whatever the umask says. Throws kIo.
  void Write(std::string_view bytes);
  // Replaces the target. Throws kIo; the target is then the old file, or the new one where only the
  // sync of the folder failed.
  void Commit();
  // Without a sync, for caches: after a power cut the file may be empty.
  void CommitUnsynced();
  // The committed file's descriptor, open for appending; the caller closes it.
  int ReleaseDescriptor();

 private:
  std::string target_, temporary_;
  int fd_ = -1;
  bool committed_ = false;
};

// All of `bytes` as the file `target`. Throws kIo.
void WriteFileAtomically(const std::string& target, const std::string& temporary, mode_t mode,
                         std::string_view bytes);

// Replaces `to` by the finished file or folder `from`: syncs `from` and everything in it, renames
// it, syncs the folder of `to`. False with errno set when a step fails.
bool ReplaceFile(const std::string& from, const std::string& to);

}  // namespace banyan
