// One file of the hub into its blob: several ranges at once, resumed after any break, checked, and
// there whole or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "hub/file_list.h"
#include "hub/http_client.h"
#include "hub/hub_cache.h"

namespace banyan {

struct DownloadOptions {
  TransferSettings http;
  int connections = 6;
  // Bytes of this file that are there, a few times a second, from the calling thread; may throw,
  // which stops the download; a later one goes on with what came. May be empty.
  std::function<void(std::int64_t)> progress;
  // What a person is told; from any thread. May be empty.
  std::function<void(const std::string&)> say;
};

// Where a file is fetched from, with the answers' ETag that says it is the one that was listed.
struct DownloadSource {
  std::string url;
  std::string repository;  // for messages
};

// Bytes that a broken download left, of those that a new one must get; 0 when there are none.
std::int64_t BytesOnDisk(const HubCache& cache, const HubFile& file);

// Afterwards cache.Blob(file.etag) has the file. Large files must have their SHA-256, small ones
// git's hash. Throws kIo (what the network or the disk says), kFormat (bytes that are not the
// listed file's: they are thrown away).
void DownloadBlob(const HubCache& cache, const HubFile& file, const DownloadSource& source,
                  const DownloadOptions& options);

// Throws the sentence for an answer that is no file: what it is and what to do.
[[noreturn]] void ThrowForStatus(const TransferReply& reply, const std::string& repository,
                                 const std::string& what, bool has_token);

}  // namespace banyan
