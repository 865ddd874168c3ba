// Which file it is, whatever it is called: device and inode. And opening files so that none of them
// ever stands where a program expects its standard streams.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace banyan {

struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

// Links are followed; nothing when there is no such file.
std::optional<FileIdentity> IdentityOf(const std::string& path);
std::optional<FileIdentity> IdentityOf(int descriptor);

// Like open(2) with O_CLOEXEC, but never 0, 1 or 2, even where a standard stream is closed: what is
// said on stderr must not land in a file. -1 with errno set when it fails.
int OpenFile(const std::string& path, int flags, mode_t mode = 0);

}  // namespace banyan
