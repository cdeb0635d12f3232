// The libraries with CUDA code, which lie beside the program and are opened when a CUDA device
// computes, so that one program runs with and without CUDA's own libraries.
#pragma once

#include <dlfcn.h>

#include <string>

namespace coldframe {

// Symbol `name` of `library` (a file's name); null, with the reason in `problem`, where the build
// had no CUDA compiler, or the library does not load here.
void* find_in_library(const char* library, const char* name, std::string& problem);

// A function of a library that dlopen() opened; false where it lacks it.
template <typename Function>
bool find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace coldframe
