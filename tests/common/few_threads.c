// A system that grants a process COLDFRAME_TEST_THREADS threads beside its first and no more; for
// LD_PRELOAD.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef int Create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* data) {
  static atomic_int granted;
  if (atomic_fetch_add(&granted, 1) >= atoi(getenv("COLDFRAME_TEST_THREADS"))) return EAGAIN;
  return ((Create*)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, body, data);
}
