// What an index has and what files say now → what it will have.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "retrieve/index_file.h"

namespace banyan {

// Of the file's bytes as they are. Throws kIo, kNotFound.
Digest HashOfFile(const std::string& path);

// Where a file of an index stands now, seen from the process's own folder.
std::string PlaceOfFile(const std::string& directory, const std::string& path_in_index);

// Documents and passages of an index in `directory` after looking at `inputs`; without words and
// vectors. Files below the inputs are read, unless they have the bytes that `earlier` (may be null)
// knows; files that are there no more are dropped. What stands elsewhere stays as it is. Files are
// in the order of their paths, so an index that grew is the one that is made at once. Counts in the
// receipt. Throws kNotFound for an input that is not there and never was, kInput when no document
// would be left.
IndexContents LookAgain(const std::string& directory, const std::vector<std::string>& inputs,
                        const IndexContents* earlier, const IndexOptions& options,
                        IndexReceipt& receipt);

}  // namespace banyan
