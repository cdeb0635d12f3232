// Reads what a file's name says of it.
#pragma once

#include <filesystem>
#include <string>

namespace coldframe::frames {

// They go by the suffix; such a file is one that ought to be readable.
bool is_named_as_image(const std::filesystem::path& path);
bool is_named_as_clip(const std::filesystem::path& path);
// A manifest: CSV, or what somebody may have taken for it.
bool is_named_as_table(const std::filesystem::path& path);
bool is_named_as_split(const std::filesystem::path& path);  // JSON

bool is_pattern(const std::string& name);    // with *, ? or [
std::string with_slashes(std::string name);  // for Windows' backslashes

// "; …" to stand behind the error of a file that is not there, where its path tells why; else "".
std::string why_missing(const std::filesystem::path& path);

// The file's name without the suffix of a kind that is read: "scan.nii.gz" -> "scan", "lung.2.gif"
// -> "lung.2"; "1.2.840.113619.2.1" stays.
std::string name_of_exam(const std::filesystem::path& file);

}  // namespace coldframe::frames
