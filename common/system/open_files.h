// The limit on open files (ulimit -n).
#pragma once

#include <cstddef>

namespace coldframe {

void raise_limit_of_open_files();  // to the most that the system lets this process have

// How many of `wanted` files one reader may keep open: a quarter of the limit, at least one.
std::size_t open_files_of_one(std::size_t wanted);

}  // namespace coldframe
