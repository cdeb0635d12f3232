// Linked into the programs whose jobs can be stopped: their handlers stand before the constructors
// of any shared library run, LibTorch's among them, which take a good part of a second.
#include "common/cli/interrupt.h"

namespace {

// The dynamic linker calls what stands in this section of a program first (System V ABI, gABI
// chapter 5, "Initialization and Termination Functions").
using Function = void (*)();
[[gnu::section(".preinit_array"), gnu::used]] const Function first =
    coldframe::install_stop_handlers;

}  // namespace
