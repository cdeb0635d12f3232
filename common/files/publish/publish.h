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

// `made`, a file or a folder, is synced with all that is in it and takes the name `out` of the same
// file system. What has that name is kept (SystemError), or changes places with `made`, whose
// caller removes it; what `require_own` throws at stays where it is. The one or the other is whole
// under the name at every moment, but on file systems that cannot exchange names (NFS; a folder in
// a lower layer of an overlay): there the old one waits beside it as `out`.coldframe-replaced,
// under the lock `out`.coldframe-replaced.lock, and put_back() finds it when the process was
// killed.
void publish(const std::filesystem::path& made, const std::filesystem::path& out, Existing existing,
             const RequireOwn& require_own);

// Gives a folder its name back that a killed process was about to replace, where publish() could
// not exchange names. Call it before looking at what is there. `named`: also with a slash behind
// it, or by a link. Nothing happens while a process is at work there, or where none was.
void put_back(const std::filesystem::path& named);

// Makes all that is in a folder, or a file, survive a power cut, whoever wrote it. What others
// remove meanwhile is passed over.
void sync_tree(const std::filesystem::path& path);

}  // namespace coldframe
