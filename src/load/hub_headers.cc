// Headers by range requests, and ModelHeaders (program/models.h).
#include "load/hub_headers.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "base/machine_limits.h"
#include "formats/file_headers.h"
#include "hub/choice.h"
#include "hub/hub_cache.h"
#include "hub/locate.h"
#include "kernels/kernels.h"
#include "load/kernel_options.h"
#include "program/hub.h"
#include "program/models.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kFirstBytes = std::int64_t{1} << 20,
                       kMostHeaderBytes = std::int64_t{256} << 20;

// A file of the hub, whose beginning is read as far as its header goes.
class HeaderFile {
 public:
  HeaderFile(HttpClient& client, std::string url, const HubFile& file, const std::string& where)
      : client_(client), url_(std::move(url)), file_(file), where_(where) {}

  // The header, and more or less of what follows it.
  const std::string& Read() {
    for (std::int64_t wanted = kFirstBytes;; wanted *= 4) {
      ReadUpTo(std::min({wanted, file_.bytes, kMostHeaderBytes}));
      const auto bytes = std::as_bytes(std::span(head_));
      const auto header = file_.path.ends_with(".gguf") ? GgufHeaderBytes(bytes, where_)
                                                        : SafetensorsHeaderBytes(bytes, where_);
      if (header && static_cast<size_t>(*header) <= head_.size()) return head_;
      const auto there = static_cast<std::int64_t>(head_.size());
      if (there >= file_.bytes || there >= kMostHeaderBytes) {
        Throw(ErrorKind::kFormat, "{}: {}: no header that ends within {} bytes", where_, file_.path,
              there);
      }
    }
  }

 private:
  void ReadUpTo(std::int64_t end) {
    const auto begin = static_cast<std::int64_t>(head_.size());
    if (begin >= end) return;
    TransferRequest request;
    request.url = url_;
    request.range = TransferRange{begin, end};
    request.head = [&](const TransferReply& reply) {
      if (reply.status == 206 || (begin == 0 && reply.length && *reply.length <= end)) return;
      Throw(ErrorKind::kUnsupported, "{}: the server sends whole files alone", where_);
    };
    request.body = [&](std::string_view bytes) {
      if (static_cast<std::int64_t>(head_.size() + bytes.size()) > end) {
        Throw(ErrorKind::kFormat, "{}: {}: the server sends more than was asked for", where_,
              file_.path);
      }
      head_ += bytes;
    };
    const TransferReply reply = client_.Send(request);
    if (reply.status != 200 && reply.status != 206) {
      ThrowForStatus(reply, where_, file_.path, false);
    }
    if (static_cast<std::int64_t>(head_.size()) != end) {
      Throw(ErrorKind::kFormat, "{}: {}: expected {} bytes, found {}", where_, file_.path, end,
            head_.size());
    }
  }

  HttpClient& client_;
  std::string url_, head_;
  const HubFile& file_;
  const std::string& where_;
};

// `head`, and a hole up to `bytes`.
void WriteWithHole(const fs::path& path, std::string_view head, std::int64_t bytes) {
  MakeFolders(path.parent_path());
  const int fd = OpenFile(path.string(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (fd < 0) Throw(ErrorKind::kIo, "{}: cannot be made: {}", path.string(), std::strerror(errno));
  try {
    WriteAll(fd, head, path.string());
    if (::ftruncate(fd, bytes) != 0) {
      Throw(ErrorKind::kIo, "{}: cannot be written: {}", path.string(), std::strerror(errno));
    }
  } catch (...) {
    ::close(fd);
    throw;
  }
  ::close(fd);
}

bool IsWeights(const HubFile& file) {
  return file.path.ends_with(".gguf") || file.path.ends_with(".safetensors");
}

}  // namespace

fs::path FetchHeaders(const HubName& name, const HubRepository& repository, HubSelection selection,
                      const HubListener& listener, const fs::path& folder) {
  const HubSettings settings = HubSettingsHere();
  HttpClient client(TransfersOf(settings, listener));
  for (size_t i = 0; i < selection.files.size(); ++i) {
    const HubFile file = selection.files[i];
    const std::string url = FileAddress(settings, name.repository, repository.commit, file.path);
    std::string text;
    if (IsWeights(file)) {
      text = HeaderFile(client, url, file, name.repository).Read();
    } else {
      TransferRequest request;
      request.url = url;
      request.body = [&](std::string_view bytes) {
        text += bytes;
        if (static_cast<std::int64_t>(text.size()) > file.bytes) {
          Throw(ErrorKind::kFormat, "{}: {}: more than the {} bytes that were listed",
                name.repository, file.path, file.bytes);
        }
      };
      request.again = [&] { text.clear(); };
      const TransferReply reply = client.Send(request);
      if (reply.status != 200) {
        ThrowForStatus(reply, name.repository, file.path, !settings.token.empty());
      }
      if (selection.sharded && file.path == "model.safetensors.index.json") {
        AddShards(repository, text, selection);
      }
    }
    WriteWithHole(folder / file.path, text, file.bytes);
    if (listener.progress) {
      listener.progress(static_cast<std::int64_t>(i) + 1,
                        static_cast<std::int64_t>(selection.files.size()));
    }
  }
  return selection.main_file.empty() ? folder : folder / selection.main_file;
}

// --- ModelHeaders ------------------------------------------------------------------------------

ModelHeaders::ModelHeaders(const std::string& name,
                           const std::function<void(const std::string&)>& say) {
  const std::optional<HubName> hub = FetchableHubName(name);
  if (!hub) Throw(ErrorKind::kNotFound, "model '{}' not found", name);
  const HubListener listener{say, nullptr};
  const HubRepository repository = ListRepository(*hub, HubSettingsHere(), listener);
  HubSelection selection = SelectFiles(repository, *hub, HubWhat::kModel, UsableMemory());
  licence = repository.licence;
  licence_link = repository.licence_link;
  choice = selection.reason;
  const std::vector<GgufChoice> choices = GgufChoices(repository.files);
  if (choices.size() > 1) others = DescribeChoices(choices);
  const fs::path cache = CacheDirectory();
  const fs::path beside = cache.empty() ? fs::temp_directory_path() : cache;
  MakeFolders(beside);
  std::string pattern = (beside / "headers-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    Throw(ErrorKind::kIo, "{}: cannot make a folder: {}", pattern, std::strerror(errno));
  }
  folder = pattern;
  try {
    path = FetchHeaders(*hub, repository, std::move(selection), listener, folder).string();
  } catch (...) {
    Remove();
    throw;
  }
}

ModelHeaders::~ModelHeaders() { Remove(); }

void ModelHeaders::Remove() const {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

// --- ForecastHere ------------------------------------------------------------------------------

RunForecast ForecastHere(const ModelSummary& model) {
  BANYAN_CHECK(!model.memory.empty());
  const MemoryNeed& need = model.memory.front();  // cpu, mixed
  const MachineRates rates = MakeKernels("cpu", KernelOptionsOf(LoadOptions()))->MeasureRates();
  RunForecast forecast;
  forecast.machine_memory = UsableMemory();
  forecast.one_context = need.weights + need.kv_per_token * model.context_length;
  forecast.job = need.weights + forecast.machine_memory / 4;
  const auto parameters = static_cast<double>(std::max<std::int64_t>(1, model.parameters));
  forecast.read_per_second = rates.flops_per_second / (2.0 * parameters);
  forecast.generated_per_second =
      rates.bytes_per_second / static_cast<double>(std::max<std::int64_t>(1, need.weights));
  return forecast;
}

}  // namespace banyan
