// The limit on open files (ulimit -n).
#pragma once

#include <cstddef>

namespace coldframe {

void raise_limit_of_open_files();  // to the most that the system lets this process have

// How many files all readers together may keep open for later: a quarter of the limit.
std::size_t most_kept_open();

}  // namespace coldframe
