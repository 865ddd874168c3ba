#include "documents/folder_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "documents/foreign_format.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostNamed = 3;  // of the files with one reason

bool LeadsOut(const fs::path& link, const fs::path& root) {
  std::error_code error;
  const fs::path target = fs::canonical(link, error), inside = fs::canonical(root, error);
  if (error) return true;
  return std::mismatch(inside.begin(), inside.end(), target.begin(), target.end()).first !=
         inside.end();
}

class Walk {
 public:
  Walk(const fs::path& root, const std::function<bool(const std::string&)>& own)
      : root_(root), own_(own) {}

  void Visit(const fs::path& folder) {
    std::error_code error;
    fs::directory_iterator it(folder, error);
    for (; !error && it != fs::directory_iterator(); it.increment(error)) See(*it);
    if (error) {
      found_.unreadable.emplace_back(folder.string(), "cannot read it: " + error.message());
    }
  }

  FolderFiles Take() {
    std::ranges::sort(found_.files);
    std::ranges::sort(found_.dangling);
    for (auto* list : {&found_.unreadable, &found_.links_out, &found_.no_documents}) {
      std::ranges::sort(*list);
    }
    return std::move(found_);
  }

 private:
  void See(const fs::directory_entry& entry) {
    const std::string path = entry.path().string();
    std::error_code none;
    const fs::file_status status = entry.status(none);
    const bool link = entry.is_symlink(none);
    if (own_(path)) return;
    if (entry.path().filename().string().starts_with('.')) {
      found_.no_documents.emplace_back(path, "hidden, as its name begins with a dot");
    } else if (!fs::exists(status)) {
      found_.dangling.push_back(path);
    } else if (fs::is_directory(status)) {
      if (!link) return Visit(entry.path());
      found_.no_documents.emplace_back(path, "a link to a folder, which is not followed");
    } else if (!fs::is_regular_file(status)) {
      found_.no_documents.emplace_back(path, "a pipe, a socket or a device, no file");
    } else if (link && LeadsOut(entry.path(), root_)) {
      found_.links_out.emplace_back(
          path,
          fmt::format("a link to a file outside of {}; name it on the command line to read it",
                      root_.string()));
    } else {
      found_.files.push_back(path);
    }
  }

  fs::path root_;
  const std::function<bool(const std::string&)>& own_;
  FolderFiles found_;
};

}  // namespace

void LeftOutFiles::Add(const std::string& path, const std::string& why) {
  const std::string kind = why.substr(0, why.find(kConvertIt));
  auto reason = std::ranges::find(reasons_, kind, &Reason::kind);
  if (reason == reasons_.end()) {
    reasons_.push_back({why, kind, "", 0});
    reason = std::prev(reasons_.end());
  }
  if (++reason->count <= kMostNamed) reason->first += (reason->count > 1 ? ", " : "") + path;
}

std::vector<std::string> LeftOutFiles::Lines() const {
  std::vector<std::string> lines;
  for (const Reason& reason : reasons_) {
    const std::int64_t more = reason.count - kMostNamed;
    lines.push_back(fmt::format("{}{}: left out: {}", reason.first,
                                more > 0 ? fmt::format(" and {} more", more) : "", reason.why));
  }
  return lines;
}

FolderFiles FilesBelow(const std::string& folder,
                       const std::function<bool(const std::string&)>& own) {
  Walk walk(folder, own);
  walk.Visit(folder);
  return walk.Take();
}

}  // namespace banyan
