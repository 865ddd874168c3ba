#include "tasks/table/row_spool.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>

#include "base/error.h"

namespace banyan {
namespace {

constexpr size_t kPendingBytes = 1u << 20;

[[noreturn]] void CannotSpool(const char* what) {
  Throw(ErrorKind::kIo, "cannot {} a temporary file for the table's rows (TMPDIR): {}", what,
        std::strerror(errno));
}

}  // namespace

RowSpool::RowSpool() {
  const char* folder = std::getenv("TMPDIR");
  std::string name =
      std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") + "/banyan-rows-XXXXXX";
  fd_ = ::mkstemp(name.data());
  if (fd_ < 0) CannotSpool("make");
  ::unlink(name.c_str());
}

RowSpool::~RowSpool() { ::close(fd_); }

// As CBOR, whose texts need not be UTF-8: a row that cannot be read may hold anything.
void RowSpool::Add(const InputRow& row) {
  Json kept = {{"file", row.file},
               {"line", row.line},
               {"number", row.number},
               {"index", row.index},
               {"value", row.value},
               {"given", row.given},
               {"content", Json::binary({row.content.begin(), row.content.end()})}};
  if (row.problem) {
    const auto& message = row.problem->message;
    kept["problem"] = static_cast<int>(row.problem->kind);
    kept["message"] = Json::binary({message.begin(), message.end()});
    kept["ends_file"] = row.ends_file;
  }
  const std::vector<std::uint8_t> packed = Json::to_cbor(kept);
  const std::lock_guard lock(mutex_);
  pending_.append(packed.begin(), packed.end());
  ends_.push_back(bytes() + static_cast<std::int64_t>(packed.size()));
  if (pending_.size() >= kPendingBytes) Flush();
}

// REQUIRES: mutex_.
void RowSpool::Flush() const {
  std::span<const char> rest(pending_);
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) CannotSpool("write");
    rest = rest.subspan(static_cast<size_t>(written));
  }
  pending_.clear();
}

InputRow RowSpool::Read(size_t number) const {
  {
    const std::lock_guard lock(mutex_);
    if (!pending_.empty()) Flush();
  }
  const std::int64_t begin = number == 0 ? 0 : ends_[number - 1];
  std::vector<std::uint8_t> packed(static_cast<size_t>(ends_[number] - begin));
  for (size_t at = 0; at < packed.size();) {
    const ssize_t got = ::pread(fd_, packed.data() + at, packed.size() - at,
                                static_cast<off_t>(begin + static_cast<std::int64_t>(at)));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) CannotSpool("read");
    at += static_cast<size_t>(got);
  }
  const Json kept = Json::from_cbor(packed);
  const auto text = [&](const char* name) {
    const auto& bytes = kept.at(name).get_binary();
    return std::string(bytes.begin(), bytes.end());
  };
  InputRow row;
  row.file = kept.at("file").get<std::string>();
  row.line = kept.at("line").get<std::int64_t>();
  row.number = kept.at("number").get<std::int64_t>();
  row.index = kept.at("index").get<std::int64_t>();
  row.value = kept.at("value");
  row.given = kept.at("given");
  row.content = text("content");
  if (kept.contains("problem")) {
    row.problem = {static_cast<ErrorKind>(kept.at("problem").get<int>()), text("message")};
    row.ends_file = kept.at("ends_file").get<bool>();
  }
  return row;
}

}  // namespace banyan
