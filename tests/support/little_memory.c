// A machine with other memory, for LD_PRELOAD: COLDFRAME_TEST_MEMINFO is read as /proc/meminfo.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef FILE* Open(const char*, const char*);

static FILE* open_by(const char* name, const char* path, const char* mode) {
  const char* other = getenv("COLDFRAME_TEST_MEMINFO");
  if (other && strcmp(path, "/proc/meminfo") == 0) path = other;
  return ((Open*)dlsym(RTLD_NEXT, name))(path, mode);
}

FILE* fopen(const char* path, const char* mode) { return open_by("fopen", path, mode); }
FILE* fopen64(const char* path, const char* mode) { return open_by("fopen64", path, mode); }
