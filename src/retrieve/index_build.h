// What an index has and what the files hold now → what the index will have.
#pragma once

#include <string>
#include <vector>

#include "base/hash.h"
#include "retrieve/index_file.h"

namespace banyan {

// Of the file's bytes as they are. Throws kIo, kNotFound.
Digest HashOfFile(const std::string& path);

// Where a file of an index is now, relative to the process's working directory.
std::string PlaceOfFile(const std::string& directory, const std::string& path_in_index);

// What the index in a folder calls a file or folder: relative to its own.
std::string PathInIndex(const std::string& directory, const std::string& path);

// Makes the index in the folder from the inputs. `earlier` is the index to bring up to date;
// vectors are taken over from `known`. Both may be null. Nothing is written when nothing changed.
// Throws kNotFound for an input that does not exist and is not in the index, kInput when no
// document would be left, kUnsupported for an encoder that gives no vectors.
IndexReceipt MakeIndex(const LockedFolder& folder, const std::vector<std::string>& inputs,
                       const IndexContents* earlier, const IndexContents* known,
                       const IndexOptions& options);

}  // namespace banyan
