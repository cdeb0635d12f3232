// For LD_PRELOAD: a file system that now and then answers EIO or ESTALE, and knows no locks. Meant
// for the paths that contain COLDFRAME_TEST_FAULTS_UNDER; one call in COLDFRAME_TEST_FAULTS_EVERY
// fails, drawn by COLDFRAME_TEST_FAULTS_SEED. Every other failing link, rename, unlink and mkdir
// has been done before it fails, as when the server's answer is lost. With
// COLDFRAME_TEST_FAULTS_LINKS=no the file system has no hard links, as FUSE and FAT, and with
// COLDFRAME_TEST_FAULTS_LOCKS=yes it has locks. Names that are opened are added to
// COLDFRAME_TEST_FAULTS_TRACE, where it is set, and opening waits while there is a file
// COLDFRAME_TEST_FAULTS_HOLD. With COLDFRAME_TEST_FAULTS_DELAY every fourth open, rename, link,
// unlink, mkdir and fsync takes up to so many milliseconds, as on slow storage.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_uint_fast64_t calls;

// splitmix64 (Steele, Lea, Flood 2014) of the seed and the number of the call.
static uint64_t draw(void) {
  const char* seed = getenv("COLDFRAME_TEST_FAULTS_SEED");
  uint64_t value = (seed ? strtoull(seed, NULL, 10) : 0) * 0x100000001b3u + ++calls;
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

static int is_meant(const char* path) {
  const char* under = getenv("COLDFRAME_TEST_FAULTS_UNDER");
  return under && path && strstr(path, under);
}

static int is_meant_descriptor(int descriptor) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  return is_meant(path);
}

static int is_said(const char* name, const char* word) {
  const char* value = getenv(name);
  return value && strcmp(value, word) == 0;
}

static void delay(int meant) {
  const char* most = meant ? getenv("COLDFRAME_TEST_FAULTS_DELAY") : NULL;
  if (!most || draw() % 4 != 0) return;
  const int error = errno;
  usleep(draw() % (1000 * strtoull(most, NULL, 10) + 1));
  errno = error;
}

// 0: none. 1: it fails; 2: it is done and fails all the same.
static int fault(int meant) {
  if (!meant) return 0;
  const char* every = getenv("COLDFRAME_TEST_FAULTS_EVERY");
  const uint64_t number = draw(), one_in = every ? strtoull(every, NULL, 10) : 50;
  if (one_in == 0 || number % one_in != 0) return 0;
  errno = number >> 32 & 1 ? EIO : ESTALE;
  return 1 + (number >> 33 & 1);
}

static void trace_and_wait(const char* path) {
  const char *name = getenv("COLDFRAME_TEST_FAULTS_TRACE"),
             *hold = getenv("COLDFRAME_TEST_FAULTS_HOLD");
  FILE* file = name ? fopen(name, "a") : NULL;
  if (file) {
    fprintf(file, "%s\n", path);
    fclose(file);
  }
  while (hold && access(hold, F_OK) == 0) usleep(1000);
}

#define NEXT(type, name) \
  static type (*next)(); \
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, name)

#define OPEN(name, parameters, arguments)     \
  int name parameters {                       \
    va_list more;                             \
    va_start(more, flags);                    \
    const mode_t mode = va_arg(more, mode_t); \
    va_end(more);                             \
    NEXT(int, #name);                         \
    if (is_meant(path)) trace_and_wait(path); \
    delay(is_meant(path));                    \
    if (fault(is_meant(path))) return -1;     \
    return next arguments;                    \
  }
OPEN(open, (const char* path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char* path, int flags, ...), (path, flags, mode))
// std::filesystem lists by it, with absolute paths.
OPEN(openat, (int folder, const char* path, int flags, ...), (folder, path, flags, mode))

#define BY_DESCRIPTOR(type, name, parameters, arguments)   \
  type name parameters {                                   \
    NEXT(type, #name);                                     \
    if (fault(is_meant_descriptor(descriptor))) return -1; \
    return next arguments;                                 \
  }
BY_DESCRIPTOR(ssize_t, read, (int descriptor, void* bytes, size_t size), (descriptor, bytes, size))
BY_DESCRIPTOR(ssize_t, write, (int descriptor, const void* bytes, size_t size),
              (descriptor, bytes, size))
BY_DESCRIPTOR(ssize_t, pread, (int descriptor, void* bytes, size_t size, off_t at),
              (descriptor, bytes, size, at))
BY_DESCRIPTOR(ssize_t, pread64, (int descriptor, void* bytes, size_t size, off64_t at),
              (descriptor, bytes, size, at))
BY_DESCRIPTOR(ssize_t, pwrite, (int descriptor, const void* bytes, size_t size, off_t at),
              (descriptor, bytes, size, at))
BY_DESCRIPTOR(ssize_t, pwrite64, (int descriptor, const void* bytes, size_t size, off64_t at),
              (descriptor, bytes, size, at))

int fsync(int descriptor) {
  NEXT(int, "fsync");
  const int meant = is_meant_descriptor(descriptor);
  delay(meant);
  return fault(meant) ? -1 : next(descriptor);
}

#define BY_NAME(name, parameters, arguments) \
  int name parameters {                      \
    NEXT(int, #name);                        \
    delay(is_meant(path));                   \
    const int kind = fault(is_meant(path));  \
    const int error = errno;                 \
    if (kind == 0) return next arguments;    \
    if (kind == 2) (void)next arguments;     \
    errno = error;                           \
    return -1;                               \
  }
BY_NAME(rename, (const char* from, const char* path), (from, path))
BY_NAME(renameat2,
        (int from_folder, const char* from, int folder, const char* path, unsigned flags),
        (from_folder, from, folder, path, flags))
BY_NAME(unlink, (const char* path), (path))
BY_NAME(mkdir, (const char* path, mode_t mode), (path, mode))

int link(const char* from, const char* path) {
  NEXT(int, "link");
  delay(is_meant(path));
  const int kind = fault(is_meant(path)), error = errno;
  const int without = is_meant(path) && is_said("COLDFRAME_TEST_FAULTS_LINKS", "no");
  if (kind == 0 && !without) return next(from, path);
  if (kind == 2 && !without) (void)next(from, path);
  errno = kind == 0 ? EPERM : error;
  return -1;
}

#define LOOK(name, parameters, arguments) \
  int name parameters {                   \
    NEXT(int, #name);                     \
    if (fault(is_meant(path))) return -1; \
    return next arguments;                \
  }
LOOK(stat, (const char* path, struct stat* status), (path, status))
LOOK(stat64, (const char* path, struct stat64* status), (path, status))
LOOK(lstat, (const char* path, struct stat* status), (path, status))
LOOK(lstat64, (const char* path, struct stat64* status), (path, status))
LOOK(fstatat, (int folder, const char* path, struct stat* status, int flags),
     (folder, path, status, flags))
LOOK(statx, (int folder, const char* path, int flags, unsigned mask, struct statx* status),
     (folder, path, flags, mask, status))
LOOK(access, (const char* path, int mode), (path, mode))

DIR* fdopendir(int folder) {
  NEXT(DIR*, "fdopendir");
  return fault(is_meant_descriptor(folder)) ? NULL : next(folder);
}

int flock(int descriptor, int operation) {
  NEXT(int, "flock");
  if (!is_meant_descriptor(descriptor) || is_said("COLDFRAME_TEST_FAULTS_LOCKS", "yes"))
    return next(descriptor, operation);
  errno = draw() & 1 ? ENOLCK : ENOSYS;
  return -1;
}
