// How run_main() ends the program.
#pragma once

#include <atomic>

namespace coldframe {

// True: at once, without the destructors of static objects, where what libraries have registered
// for the program's end would fail. Any thread may set it.
inline std::atomic<bool> leaves_without_destructors = false;

}  // namespace coldframe
