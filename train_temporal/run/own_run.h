// Tells by its content whether a folder is a run's: what the program did not make is never removed.
#pragma once

#include <filesystem>

namespace coldframe::temporal {

// What lies in a run, beside what it is for.
inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kSummaryFile = "summary.json";
inline constexpr const char* kStateFolder = "state";  // of an unfinished one
inline constexpr const char* kLockFile = "lock";      // likewise
inline constexpr const char* kRecordSuffix = ".record";
inline constexpr const char* kPartLockSuffix = ".lock";  // of who is at a part of the run
inline constexpr const char* kCheckpointSuffix = ".checkpoint";
inline constexpr const char* kControlsFolder = "controls";

// Its configuration is a run's, finished or not.
bool is_run(const std::filesystem::path& folder);

// True if a fit of the unfinished run is done, or has come so far that it was saved.
bool has_fits(const std::filesystem::path& folder);

// A finished run under the name of an unfinished one: it was replaced, and is to be removed.
bool is_replaced_run(const std::filesystem::path& folder);

// ConfigError unless the folder is a run's and holds nothing that no run writes. `what` names it in
// the message.
void require_own_run(const std::filesystem::path& folder, const char* what);
// The same of the folder in which a run grows, also when it has just been made.
void require_own_unfinished(const std::filesystem::path& folder, const std::filesystem::path& out);

}  // namespace coldframe::temporal
