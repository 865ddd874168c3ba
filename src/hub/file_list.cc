// Reading the hub's list of files.
#include "hub/file_list.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "hub/hub_name.h"

namespace banyan {
namespace {

constexpr std::int64_t kMostFileBytes = std::int64_t{1} << 46;  // 64 TiB
constexpr size_t kMostTreeBytes = size_t{512} << 20, kMostLicenceBytes = 200;

bool IsHex(std::string_view text, size_t digits) {
  return text.size() == digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

const Json* Find(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string TextOf(const Json& object, const char* key) {
  const Json* value = Find(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

// One line for a person.
std::string Shown(std::string text) {
  text.resize(std::min(text.size(), kMostLicenceBytes));
  std::erase_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  return text;
}

HubFile FileOf(const Json& entry, const std::string& where) {
  HubFile file;
  file.path = TextOf(entry, "rfilename");
  if (!IsPlainPath(file.path)) {
    Throw(
        ErrorKind::kFormat, "{}: expected files with plain relative paths, found {}", where,
        DumpJson(Find(entry, "rfilename") == nullptr ? entry : entry["rfilename"]).substr(0, 200));
  }
  const Json* large = Find(entry, "lfs");
  const Json* bytes = Find(entry, "size");
  if (bytes == nullptr && large != nullptr) bytes = Find(*large, "size");
  if (bytes == nullptr || !bytes->is_number_unsigned() ||
      bytes->get<std::uint64_t>() > static_cast<std::uint64_t>(kMostFileBytes)) {
    Throw(ErrorKind::kFormat, "{}: {}: expected a size in bytes, found {}", where, file.path,
          bytes == nullptr ? "none" : DumpJson(*bytes).substr(0, 60));
  }
  file.bytes = bytes->get<std::int64_t>();
  file.has_sha256 = large != nullptr;
  file.etag = large != nullptr ? TextOf(*large, "sha256") : TextOf(entry, "blobId");
  if (!IsHex(file.etag, file.has_sha256 ? 64 : 40)) {
    Throw(ErrorKind::kFormat, "{}: {}: expected {}, found '{}'", where, file.path,
          file.has_sha256 ? "a SHA-256 of 64 digits" : "a hash of 40 digits", Shown(file.etag));
  }
  return file;
}

void ReadLicence(const Json& json, HubRepository& repository) {
  if (const Json* card = Find(json, "cardData")) {
    const Json* licence = Find(*card, "license");
    if (licence != nullptr && licence->is_array() && !licence->empty()) licence = &licence->front();
    if (licence != nullptr && licence->is_string()) repository.licence = *licence;
    if (const std::string name = TextOf(*card, "license_name"); !name.empty()) {
      repository.licence = name;
    }
    repository.licence_link = TextOf(*card, "license_link");
  }
  constexpr std::string_view kTag = "license:";
  if (const Json* tags = Find(json, "tags"); tags != nullptr && tags->is_array()) {
    for (const Json& tag : *tags) {
      if (!tag.is_string() || !repository.licence.empty()) continue;
      const auto& text = tag.get_ref<const std::string&>();
      if (text.starts_with(kTag)) repository.licence = text.substr(kTag.size());
    }
  }
  repository.licence = Shown(repository.licence);
  repository.licence_link = Shown(repository.licence_link);
}

}  // namespace

const HubFile* HubRepository::Find(std::string_view path) const {
  const auto found = std::ranges::find(files, path, &HubFile::path);
  return found == files.end() ? nullptr : &*found;
}

std::string GitBlobHash(std::span<const std::byte> bytes) {
  const std::string head = fmt::format("blob {}", bytes.size());
  EVP_MD_CTX* context = ::EVP_MD_CTX_new();
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const bool done = context != nullptr &&
                    ::EVP_DigestInit_ex(context, ::EVP_sha1(), nullptr) == 1 &&
                    ::EVP_DigestUpdate(context, head.c_str(), head.size() + 1) == 1 &&  // its zero
                    ::EVP_DigestUpdate(context, bytes.data(), bytes.size()) == 1 &&
                    ::EVP_DigestFinal_ex(context, digest.data(), &size) == 1;
  ::EVP_MD_CTX_free(context);
  // A system may forbid SHA-1: then small files are only measured.
  std::string text;
  for (unsigned int i = 0; done && i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

HubRepository ParseFileList(std::string_view text, const std::string& where) {
  if (text.size() > kMostListBytes) {
    Throw(ErrorKind::kLimit, "{}: a list of more than {} bytes: no repository of a model", where,
          kMostListBytes);
  }
  JsonLimits limits;
  limits.most_bytes = kMostTreeBytes;
  Json json;
  try {
    json = ParseJsonRow(text, limits);
  } catch (const Error& e) {
    Throw(e.kind(), "{}: {}", where, e.what());
  }
  if (!json.is_object()) {
    Throw(ErrorKind::kFormat, "{}: expected an object, found {}", where, TypeName(json));
  }
  HubRepository repository;
  repository.commit = TextOf(json, "sha");
  if (!IsHex(repository.commit, 40)) {
    Throw(ErrorKind::kFormat, "{}: 'sha': expected a commit of 40 digits, found '{}'", where,
          Shown(repository.commit));
  }
  const Json* gated = Find(json, "gated");
  repository.gated = gated != nullptr && (gated->is_string() || *gated == true);
  ReadLicence(json, repository);
  const Json* files = Find(json, "siblings");
  if (files == nullptr || !files->is_array()) {
    Throw(ErrorKind::kFormat, "{}: 'siblings': expected a list of files, found {}", where,
          files == nullptr ? "nothing" : TypeName(*files));
  }
  if (files->size() > kMostListFiles) {
    Throw(ErrorKind::kLimit, "{}: {} files: expected at most {}", where, files->size(),
          kMostListFiles);
  }
  std::set<std::string> paths;
  for (const Json& entry : *files) {
    repository.files.push_back(FileOf(entry, where));
    if (!paths.insert(repository.files.back().path).second) {
      Throw(ErrorKind::kFormat, "{}: {} is listed twice", where, repository.files.back().path);
    }
  }
  return repository;
}

}  // namespace banyan
