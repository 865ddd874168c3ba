// What lies in a folder: files to be read, and all that is not, each with its reason. One rule for
// jobs and indexes: nothing of a person's is skipped in silence.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace banyan {

using FileAndReason = std::pair<std::string, std::string>;

// Files that are not read, those with the same reason together.
class LeftOutFiles {
 public:
  // The advice of how to convert a file (ForeignAdvice) is given for the first of them.
  void Add(const std::string& path, const std::string& why);
  // "a.png, b.png, c.png and 97 more: left out: an image, …", in the order of the reasons' coming.
  std::vector<std::string> Lines() const;

 private:
  struct Reason {
    std::string why, kind;
    std::string first;  // paths, at most kMostNamed
    std::int64_t count = 0;
  };
  std::vector<Reason> reasons_;
};

struct FolderFiles {
  std::vector<std::string> files;         // in the order of their names, those of folders below too
  std::vector<FileAndReason> unreadable;  // folders that cannot be listed
  std::vector<std::string> dangling;      // links to nothing, and what is not for us to see
  std::vector<FileAndReason> links_out;   // whoever may put one there could show any file
  std::vector<FileAndReason> no_documents;  // hidden ones, links to folders, pipes, devices
};

// The folder's contents and those of all folders below it. `own`: files and folders of the reader
// itself, such as its output, which are no one's documents.
FolderFiles FilesBelow(const std::string& folder,
                       const std::function<bool(const std::string&)>& own);

}  // namespace banyan
