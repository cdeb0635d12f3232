// Gives a finished file or folder its final name. What has that name already is replaced only where
// the caller says so.
#pragma once

#include <filesystem>
#include <functional>

namespace coldframe {

// The name of a folder that was typed with a slash behind it: "runs/first/" → "runs/first".
std::filesystem::path without_trailing_slash(const std::filesystem::path& path);

// What becomes of a file or folder that has the name already.
enum class Existing { kKeep, kReplace };

// Renames a file or a folder within its file system, and syncs the folder of the new name. False,
// and nothing is done, when something has that name.
bool rename_if_new(const std::filesystem::path& from, const std::filesystem::path& to);

// The same of an open file, without syncing.
bool rename_file_if_new(const std::filesystem::path& from, int descriptor,
                        const std::filesystem::path& to);

// SystemError: something has the name of the output, and is kept.
[[noreturn]] void refuse_taken(const std::filesystem::path& out);

// Throws where what lies there is not to be replaced.
using RequireOwn = std::function<void(const std::filesystem::path&)>;

// `made`, a file or a folder, takes the name `out` of the same file system. What has that name is
// kept (SystemError), or changes places with `made`, whose caller removes it; what `require_own`
// throws at stays where it is. A process that is killed leaves the one or the other under the name,
// but on file systems that cannot exchange names (NFS), where there may be none for a moment.
void publish(const std::filesystem::path& made, const std::filesystem::path& out, Existing existing,
             const RequireOwn& require_own);

}  // namespace coldframe
