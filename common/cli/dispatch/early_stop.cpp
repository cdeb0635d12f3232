// Linked into the programs whose jobs can be stopped: their handlers stand before the constructors
// of any shared library run, LibTorch's among them, which take a good part of a second, and much
// memory.
#include "common/cli/interrupt.h"
#include "common/cli/out_of_memory.h"

namespace {

void begin() {
  coldframe::install_stop_handlers();
  coldframe::watch_for_end_of_memory();
}

// The dynamic linker calls what stands in this section of a program first (System V ABI, gABI
// chapter 5, "Initialization and Termination Functions").
[[gnu::section(".preinit_array"), gnu::used]] void (*const first_function)() = begin;

}  // namespace
