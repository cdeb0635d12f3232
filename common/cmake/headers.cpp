// Exists so that CMake has a source for which to compile the shared headers.
