// Files that commands write. One rule for all of them: a file that holds something is replaced only
// with --overwrite.
#pragma once

#include <fstream>
#include <string>

namespace banyan {

// What a plain file holds, for a message: "4.2 KiB of 2026-11-17 12:40". Empty when nothing can be
// lost: no such file, an empty one, a pipe, a device, or "-".
std::string WhatIsThere(const std::string& path);

// Throws kUsage when `path` holds something and `overwrite` is not set; the message says what is
// there and the two ways on. `option` is what names the file, such as "--report".
// Throws kIo, whatever `overwrite` is, where nothing can be written.
void GuardOutput(const std::string& path, const std::string& option, bool overwrite);
// The second part alone: a folder in the file's place or none around it, no permission.
void CheckWritable(const std::string& path, const std::string& option);

// A guarded file that appears whole or not at all: it is written beside its place and put there by
// Finish. Without Finish nothing is left, and what was there before stays. Devices and pipes are
// written directly.
class FreshFile {
 public:
  // Throws as GuardOutput, and kIo when the file cannot be made.
  FreshFile(const std::string& path, const std::string& option, bool overwrite);
  ~FreshFile();
  FreshFile(const FreshFile&) = delete;
  FreshFile& operator=(const FreshFile&) = delete;

  std::ofstream& stream() { return stream_; }
  // Throws kIo when not everything could be written.
  void Finish();

 private:
  [[noreturn]] void CannotWrite(int reason) const;

  std::string option_, path_;
  std::string target_;  // `path_` without links
  std::string part_;    // where it is written until it is whole; empty: at `path_` itself
  std::ofstream stream_;
};

// All of `text` as a file.
void WriteFreshFile(const std::string& path, const std::string& option, bool overwrite,
                    const std::string& text);

}  // namespace banyan
