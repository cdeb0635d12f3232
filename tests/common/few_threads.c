// A system that grants a process COLDFRAME_TEST_THREADS threads at a time beside its first, and
// makes the file COLDFRAME_TEST_REFUSED once it refuses one; for LD_PRELOAD.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

typedef int Create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

typedef struct {
  void* (*body)(void*);
  void* data;
} Work;

static atomic_int running;

static void* run(void* data) {
  Work work = *(Work*)data;
  free(data);
  void* result = work.body(work.data);
  atomic_fetch_sub(&running, 1);
  return result;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* data) {
  if (atomic_fetch_add(&running, 1) < atoi(getenv("COLDFRAME_TEST_THREADS"))) {
    Work* work = malloc(sizeof *work);
    *work = (Work){body, data};
    return ((Create*)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, run, work);
  }
  atomic_fetch_sub(&running, 1);
  close(open(getenv("COLDFRAME_TEST_REFUSED"), O_CREAT | O_WRONLY, 0600));
  return EAGAIN;
}
