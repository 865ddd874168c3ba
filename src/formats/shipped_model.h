// The model that ships with the program: where it may stand, seen from the running program.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace banyan {

// Folders that may hold shipped models, for a program at `executable`: the first that has one
// counts. Only names: nothing is looked at.
std::vector<std::filesystem::path> ShippedModelFolders(const std::filesystem::path& executable);

// The running program, or an empty path where the system does not say.
std::filesystem::path RunningProgram();

// The folder of an adapter that ships with the program, by its name; nothing when there is none.
std::optional<std::filesystem::path> ShippedAdapter(const std::string& name);

// The shipped model's file, if it is in one of the folders of the running program.
std::optional<std::filesystem::path> ShippedModelFile();

}  // namespace banyan
