// The hub's list of files, and a name of the hub. Whatever is accepted stays below a folder, and
// its files are chosen without harm.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "banyan/error.h"
#include "hub/choice.h"
#include "hub/file_list.h"
#include "hub/hub.h"
#include "hub/hub_name.h"

namespace {

void CheckPath(const std::string& path) {
  const std::string around = "/" + path + "/";
  if (!banyan::IsPlainPath(path) || around.find("/../") != std::string::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  banyan::HubName name = banyan::ParseHubName("a/b").value();
  if (const auto parsed = banyan::ParseHubName(text)) {
    const auto again = banyan::ParseHubName(parsed->Text());
    if (!again || again->Text() != parsed->Text()) std::abort();
    if (!parsed->file.empty()) CheckPath(parsed->file);
    name = *parsed;
  }
  try {
    const banyan::HubRepository repository = banyan::ParseFileList(text, "fuzz");
    for (const banyan::HubFile& file : repository.files) {
      CheckPath(file.path);
      if (file.bytes < 0 || file.etag.find('/') != std::string::npos) std::abort();
    }
    const auto choices = banyan::GgufChoices(repository.files);
    for (const auto& choice : choices) {
      if (choice.files.empty() || choice.bytes < 0) std::abort();
    }
    for (const banyan::HubWhat what : {banyan::HubWhat::kModel, banyan::HubWhat::kAdapter}) {
      banyan::HubSelection selection =
          banyan::SelectFiles(repository, name, what, std::int64_t{1} << 34);
      if (selection.files.empty()) std::abort();
      if (selection.sharded) banyan::AddShards(repository, text, selection);
    }
  } catch (const banyan::Error&) {
  }
  return 0;
}
