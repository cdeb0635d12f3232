// The processors that this process may use.
#pragma once

#include <cstddef>
#include <filesystem>

namespace coldframe {

// At least 1: those of its affinity mask, and no more than a container's quota keeps busy, a broken
// number rounded up. `root`: as control_groups.h has it.
std::size_t count_processors(const std::filesystem::path& root = "/");

// The same, as it was when first asked for.
std::size_t usable_processors();

}  // namespace coldframe
