#include "program/fresh_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/error.h"
#include "program/message_text.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string WhatIsThere(const std::string& path) {
  struct stat status {};
  if (path == "-" || ::stat(path.c_str(), &status) != 0) return {};
  if (!S_ISREG(status.st_mode) || status.st_size == 0) return {};
  std::tm parts{};
  ::localtime_r(&status.st_mtime, &parts);
  char minute[32];
  std::strftime(minute, sizeof(minute), "%Y-%m-%d %H:%M", &parts);
  return fmt::format("{} of {}", SizeText(status.st_size), minute);
}

void GuardOutput(const std::string& path, const std::string& option, bool overwrite) {
  if (overwrite) return;
  const std::string there = WhatIsThere(path);
  if (there.empty()) return;
  Throw(ErrorKind::kUsage,
        "{}: is there already ({}); give {} another name, or replace the file with --overwrite",
        path, there, option);
}

FreshFile::FreshFile(const std::string& path, const std::string& option, bool overwrite)
    : option_(option), path_(path), target_(path) {
  GuardOutput(path, option, overwrite);
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) CannotWrite(EISDIR);
  if (exists && S_ISREG(status.st_mode) && ::access(path.c_str(), W_OK) != 0) CannotWrite(errno);
  if (!exists || S_ISREG(status.st_mode)) {
    std::error_code none;
    const fs::path real = fs::weakly_canonical(path, none);
    if (!none) target_ = real.string();
    part_ = fmt::format("{}.{}.part", target_, ::getpid());
  }
  errno = 0;
  stream_.open(part_.empty() ? path_ : part_, std::ios::binary | std::ios::trunc);
  if (!stream_) CannotWrite(errno);
  // Who could not read the old file cannot read the new one.
  if (exists && !part_.empty()) ::chmod(part_.c_str(), status.st_mode & 07777);
}

FreshFile::~FreshFile() {
  if (part_.empty()) return;
  stream_.close();
  ::unlink(part_.c_str());
}

void FreshFile::CannotWrite(int reason) const {
  Throw(ErrorKind::kIo, "{}: {}: cannot write the file{}{}", option_, path_,
        reason == 0 ? "" : ": ", reason == 0 ? "" : std::strerror(reason));
}

void FreshFile::Finish() {
  errno = 0;
  stream_.close();
  if (!stream_) CannotWrite(errno);
  if (part_.empty()) return;
  if (std::rename(part_.c_str(), target_.c_str()) != 0) CannotWrite(errno);
  part_.clear();
}

void WriteFreshFile(const std::string& path, const std::string& option, bool overwrite,
                    const std::string& text) {
  FreshFile file(path, option, overwrite);
  file.stream() << text;
  file.Finish();
}

}  // namespace banyan
