// Choosing files of a repository, and fetching them.
#include "hub/hub.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/machine_limits.h"
#include "formats/file_headers.h"
#include "hub/choice.h"
#include "hub/hub_cache.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTokenBytes = 4096, kMostIndexBytes = 64u << 20;
constexpr const char* kIndex = "model.safetensors.index.json";
// Of encoders with more than one kind of vector.
constexpr const char* kHeads = "heads.safetensors";
// What is left for others on the disk.
constexpr std::int64_t kSpareBytes = std::int64_t{64} << 20;

std::string WithoutSpaces(std::string text) {
  constexpr const char* kSpaces = " \t\r\n";
  text.erase(text.find_last_not_of(kSpaces) + 1);
  return text.erase(0, std::min(text.find_first_not_of(kSpaces), text.size()));
}

std::string TokenHere() {
  if (std::string token = WithoutSpaces(EnvironmentText("HF_TOKEN")); !token.empty()) return token;
  std::string path = EnvironmentText("HF_TOKEN_PATH");
  if (path.empty()) path = (HuggingFaceHome() / "token").string();
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return "";
  return WithoutSpaces(ReadTextFile(path, kMostTokenBytes));
}

// Of a path: all but what may stand in an address as it is.
std::string Escaped(const std::string& path) {
  std::string escaped;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~' || c == '/';
    escaped += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return escaped;
}

std::string EscapedRevision(const std::string& revision) {
  std::string escaped;
  for (const char c : revision) escaped += c == '/' ? "%2F" : std::string(1, c);
  return escaped;
}

void Say(const HubListener& listener, const std::string& text) {
  if (listener.say) listener.say(text);
}

[[noreturn]] void ThrowUnreadable(const HubRepository& repository, const HubName& name,
                                  HubWhat what) {
  if (what == HubWhat::kModel && IsAdapter(repository)) {
    Throw(ErrorKind::kNotFound,
          "{}: an adapter, no model: give its model with -m and it with "
          "--adapter",
          name.Text());
  }
  std::set<std::string> kinds;
  bool pickled = false;
  for (const HubFile& file : repository.files) {
    const std::string kind = fs::path(file.path).extension().string();
    pickled |= kind == ".bin" || kind == ".pt" || kind == ".pth" || kind == ".ckpt";
    if (!kind.empty() && kinds.size() < 12) kinds.insert(kind);
  }
  Throw(ErrorKind::kNotFound, "{}: expected {}, found {}{}", name.Text(),
        what == HubWhat::kAdapter ? "adapter_config.json and adapter_model.safetensors"
                                  : "GGUF files, or config.json with safetensors",
        kinds.empty() ? "no files" : fmt::format("files of {}", fmt::join(kinds, ", ")),
        pickled ? "; pickles are never loaded: look for a conversion to safetensors or GGUF" : "");
}

const HubFile& Listed(const HubRepository& repository, const std::string& path) {
  const HubFile* file = repository.Find(path);
  BANYAN_CHECK(file != nullptr);
  return *file;
}

void SelectGguf(const HubRepository& repository, const HubName& name,
                const std::vector<GgufChoice>& choices, std::int64_t memory,
                HubSelection& selection) {
  const GgufChoice* chosen = nullptr;
  if (!name.file.empty()) {
    for (const GgufChoice& choice : choices) {
      if (std::ranges::find(choice.files, name.file) != choice.files.end()) chosen = &choice;
    }
    if (chosen == nullptr || !chosen->whole) {
      Throw(ErrorKind::kNotFound, "{}: {} '{}'; there are {}", name.repository,
            chosen == nullptr ? "no GGUF file" : "parts are missing of", name.file,
            DescribeChoices(choices));
    }
  } else if (!name.quantisation.empty()) {
    chosen = NamedChoice(choices, name.quantisation);
    if (chosen == nullptr) {
      Throw(ErrorKind::kNotFound, "{}: no quantisation '{}'; there are {}", name.repository,
            name.quantisation, DescribeChoices(choices));
    }
  } else {
    chosen = BestChoice(choices, memory);
    if (chosen == nullptr) {
      Throw(ErrorKind::kLimit,
            "{}: none fits this machine's {} of memory: {}; name one to take it all the same, such "
            "as {}:{}",
            name.repository, SizeInWords(memory), DescribeChoices(choices), name.repository,
            choices.back().quantisation);
    }
    if (choices.size() > 1) {
      selection.reason =
          fmt::format("{} ({}), the best that fits this machine's {} of memory",
                      chosen->quantisation.empty() ? chosen->files.front() : chosen->quantisation,
                      SizeInWords(chosen->bytes), SizeInWords(memory));
    }
  }
  for (const std::string& path : chosen->files) {
    selection.files.push_back(Listed(repository, path));
  }
  selection.main_file = chosen->files.front();
}

void CheckDiskSpace(const HubCache& cache, const HubSelection& selection) {
  MakeFolders(cache.folder());
  std::int64_t needed = 0;
  for (const HubFile& file : selection.files) needed += file.bytes - BytesOnDisk(cache, file);
  struct statvfs disk {};
  if (needed == 0 || ::statvfs(cache.folder().c_str(), &disk) != 0) return;
  const auto free =
      static_cast<std::int64_t>(disk.f_bavail) * static_cast<std::int64_t>(disk.f_frsize);
  if (needed + kSpareBytes <= free) return;
  Throw(ErrorKind::kLimit,
        "{}: {} are to be downloaded, and the disk has {} left; make room, or set HF_HUB_CACHE to "
        "a folder of another disk",
        cache.folder().string(), SizeInWords(needed), SizeInWords(free));
}

// All files of one snapshot, with one progress of all bytes.
class SnapshotDownload {
 public:
  SnapshotDownload(const HubName& name, const HubRepository& repository,
                   const HubSettings& settings, const HubListener& listener)
      : name_(name),
        repository_(repository),
        settings_(settings),
        listener_(listener),
        cache_(name.repository) {}

  const HubCache& cache() const { return cache_; }

  void Get(const HubFile& file) {
    DownloadOptions options;
    options.http = TransfersOf(settings_, listener_);
    options.say = listener_.say;
    if (listener_.progress && total_ > 0) {
      options.progress = [this](std::int64_t there) { listener_.progress(done_ + there, total_); };
    }
    const DownloadSource source{
        FileAddress(settings_, name_.repository, repository_.commit, file.path), name_.repository};
    DownloadBlob(cache_, file, source, options);
    if (total_ > 0) done_ += file.bytes;
  }

  // The links come last, and among them that by which a folder is known for a model.
  void GetAll(const HubSelection& selection) {
    std::int64_t missing = 0;
    for (const HubFile& file : selection.files) {
      total_ += file.bytes;
      missing += file.bytes - BytesOnDisk(cache_, file);
    }
    if (missing == 0) total_ = 0;  // nothing to tell
    for (const HubFile& file : selection.files) Get(file);
    for (const bool config : {false, true}) {
      for (const HubFile& file : selection.files) {
        const bool known_by = file.path == "config.json" || file.path == "adapter_config.json";
        if (known_by == config) cache_.Link(repository_.commit, file);
      }
    }
    if (!repository_.commit.starts_with(name_.revision)) {
      cache_.WriteReference(name_.revision, repository_.commit);
    }
    if (total_ > 0 && listener_.progress) listener_.progress(total_, total_);
  }

 private:
  const HubName& name_;
  const HubRepository& repository_;
  const HubSettings& settings_;
  const HubListener& listener_;
  HubCache cache_;
  std::int64_t done_ = 0, total_ = 0;
};

void SayLicence(const HubRepository& repository, const HubName& name, const HubSettings& settings,
                const HubListener& listener) {
  const std::string page = settings.endpoint + "/" + name.repository;
  std::string text = repository.licence.empty() ? "the card names none" : repository.licence;
  if (!repository.licence_link.empty()) text += ", see " + repository.licence_link;
  Say(listener, fmt::format("{}: licence: {}{}", name.repository, text,
                            repository.gated ? "; you agreed to conditions at " + page : ""));
}

}  // namespace

HubSettings HubSettingsHere() {
  HubSettings settings;
  if (std::string endpoint = EnvironmentText("HF_ENDPOINT"); !endpoint.empty()) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    if (!endpoint.starts_with("https://") && !endpoint.starts_with("http://")) {
      Throw(ErrorKind::kUsage, "HF_ENDPOINT: expected https://HOST, found '{}'", endpoint);
    }
    settings.endpoint = endpoint;
  }
  std::string offline = EnvironmentText("HF_HUB_OFFLINE");
  for (char& c : offline) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  settings.offline = offline == "1" || offline == "true" || offline == "yes" || offline == "on";
  settings.token = TokenHere();
  if (settings.token.find_first_of("\r\n") != std::string::npos) {
    Throw(ErrorKind::kUsage, "HF_TOKEN: expected one line");
  }
  return settings;
}

HubSelection SelectFiles(const HubRepository& repository, const HubName& name, HubWhat what,
                         std::int64_t memory) {
  HubSelection selection;
  const std::vector<GgufChoice> choices = GgufChoices(repository.files);
  const bool gguf = what == HubWhat::kModel && !choices.empty();
  const bool named = !name.file.empty() || !name.quantisation.empty();
  const bool folder =
      what == HubWhat::kAdapter ? IsAdapter(repository) : IsSafetensorsModel(repository);
  if (!gguf && (!folder || named)) ThrowUnreadable(repository, name, what);
  for (const HubFile& file : repository.files) {
    const bool paper = file.path.ends_with(".md") || file.path.find('.') == std::string::npos ||
                       file.path.ends_with(".txt");
    if (IsSmallModelFile(file) && (!gguf || paper)) selection.files.push_back(file);
  }
  if (gguf) {
    SelectGguf(repository, name, choices, memory, selection);
  } else if (what == HubWhat::kAdapter) {
    selection.files.push_back(Listed(repository, "adapter_model.safetensors"));
  } else {
    selection.sharded = repository.Find(kIndex) != nullptr;
    if (!selection.sharded) selection.files.push_back(Listed(repository, "model.safetensors"));
    if (const HubFile* heads = repository.Find(kHeads)) selection.files.push_back(*heads);
  }
  return selection;
}

void AddShards(const HubRepository& repository, const std::string& index, HubSelection& selection) {
  for (const std::string& shard : ShardsOfIndex(index, kIndex)) {
    const HubFile* file = repository.Find(shard);
    if (file == nullptr) {
      Throw(ErrorKind::kFormat, "{}: names {}, which the repository does not have", kIndex, shard);
    }
    selection.files.push_back(*file);
  }
}

std::string FileAddress(const HubSettings& settings, const std::string& repository,
                        const std::string& commit, const std::string& path) {
  return fmt::format("{}/{}/resolve/{}/{}", settings.endpoint, repository, commit, Escaped(path));
}

TransferSettings TransfersOf(const HubSettings& settings, const HubListener& listener) {
  TransferSettings http;
  http.token = settings.token;
  http.origin = OriginOf(settings.endpoint);
  http.notice = listener.say;
  return http;
}

HubRepository ListRepository(const HubName& name, const HubSettings& settings,
                             const HubListener& listener) {
  if (settings.offline) {
    Throw(ErrorKind::kNotFound,
          "{}: not on this machine, and HF_HUB_OFFLINE forbids to fetch it: unset that, or name "
          "one of 'banyan model list'",
          name.Text());
  }
  HttpClient client(TransfersOf(settings, listener));
  std::string text;
  TransferRequest request;
  request.url = fmt::format("{}/api/models/{}/revision/{}?blobs=true", settings.endpoint,
                            name.repository, EscapedRevision(name.revision));
  request.body = [&](std::string_view bytes) {
    text += bytes;
    if (text.size() > kMostListBytes) ParseFileList(text, name.Text());  // throws
  };
  request.again = [&] { text.clear(); };
  const TransferReply reply = client.Send(request, 3);
  if (reply.status != 200) ThrowForStatus(reply, name.Text(), "", !settings.token.empty());
  return ParseFileList(text, name.Text() + ": the hub's list of files");
}

fs::path FetchFromHub(const HubName& name, HubWhat what, const HubListener& listener) {
  const HubSettings settings = HubSettingsHere();
  const HubRepository repository = ListRepository(name, settings, listener);
  HubSelection selection = SelectFiles(repository, name, what, UsableMemory());
  SnapshotDownload download(name, repository, settings, listener);
  const HubCache& cache = download.cache();
  if (!selection.reason.empty()) {
    Say(listener, fmt::format("{}: {}", name.repository, selection.reason));
  }
  std::error_code none;
  if (!fs::is_directory(cache.folder() / "snapshots", none)) {
    SayLicence(repository, name, settings, listener);
  }
  if (selection.sharded) {
    const HubFile& index = Listed(repository, kIndex);
    download.Get(index);
    AddShards(repository, ReadTextFile(cache.Blob(index.etag), kMostIndexBytes), selection);
  }
  CheckDiskSpace(cache, selection);
  download.GetAll(selection);
  const fs::path snapshot = cache.Snapshot(repository.commit);
  return selection.main_file.empty() ? snapshot : snapshot / selection.main_file;
}

}  // namespace banyan
