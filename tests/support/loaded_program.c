// For LD_PRELOAD: a program whose libraries are loaded once for many command lines. (LibTorch's
// take 0.2 s to load and 0.1 s to unload, which is most of a short test.) main() and what is static
// in the program itself run anew for each, in a child. COLDFRAME_TEST_COMMANDS is a socket; each of
// its messages is two descriptors, for standard output and error, and words that end in a zero
// byte: variables of the environment (NAME=VALUE), the folder to run in (from the root), and argv.
// The answer is the child's wait status.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int Main(int, char**, char**);
typedef int Start(Main*, int, char**, void (*)(void), void (*)(void), void (*)(void), void*);

enum { kMostBytes = 1 << 16, kMostWords = 1000, kStreams = 2 };

static char text[kMostBytes];
static char* words[kMostWords + 1];

// Fills `words`; returns how many there are.
static int next_command(int commands, int streams[kStreams]) {
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(kStreams * sizeof(int))];
  } control;
  struct iovec content = {text, kMostBytes - 1};
  struct msghdr message = {.msg_iov = &content,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
  const ssize_t length = recvmsg(commands, &message, 0);
  if (length <= 0) _exit(0);  // the test session is over
  memcpy(streams, CMSG_DATA(&control.header), kStreams * sizeof(int));
  int count = 0;
  for (char* word = text; word < text + length && count < kMostWords; word += strlen(word) + 1) {
    words[count++] = word;
  }
  words[count] = NULL;
  return count;
}

// Runs what ends the program itself (gcov's counts are written there), the first object that the
// linker lists.
static int end_program(struct dl_phdr_info* program, size_t size, void* unused) {
  (void)size, (void)unused;
  const ElfW(Dyn)* entry = NULL;
  for (int i = 0; i < program->dlpi_phnum; ++i) {
    if (program->dlpi_phdr[i].p_type == PT_DYNAMIC) {
      entry = (const ElfW(Dyn)*)(program->dlpi_addr + program->dlpi_phdr[i].p_vaddr);
    }
  }
  void (**ends)(void) = NULL;
  size_t count = 0;
  for (; entry && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_FINI_ARRAY) {
      ends = (void (**)(void))(program->dlpi_addr + entry->d_un.d_ptr);
    }
    if (entry->d_tag == DT_FINI_ARRAYSZ) count = entry->d_un.d_val / sizeof *ends;
  }
  while (count-- > 0) ends[count]();
  return 1;
}

// Called last by exit(): the libraries are not unloaded.
static void leave(int status, void* unused) {
  (void)unused;
  dl_iterate_phdr(end_program, NULL);
  fflush(NULL);
  _exit(status);
}

int __libc_start_main(Main* program, int count, char** arguments, void (*init)(void),
                      void (*fini)(void), void (*unload)(void), void* stack_end) {
  Start* start = (Start*)dlsym(RTLD_NEXT, "__libc_start_main");
  const char* name = getenv("COLDFRAME_TEST_COMMANDS");
  if (!name) return start(program, count, arguments, init, fini, unload, stack_end);
  const int commands = atoi(name);
  unsetenv("COLDFRAME_TEST_COMMANDS");
  unsetenv("LD_PRELOAD");
  for (;;) {
    int streams[kStreams], status = 0;
    const int given = next_command(commands, streams);
    const pid_t child = fork();
    if (child == 0) {
      close(commands);
      for (int i = 0; i < kStreams; ++i) {
        dup2(streams[i], i + 1);
        close(streams[i]);
      }
      int first = 0;
      while (first + 1 < given && words[first][0] != '/') putenv(words[first++]);
      if (chdir(words[first++]) != 0) _exit(127);
      on_exit(leave, NULL);
      return start(program, given - first, words + first, init, fini, NULL, stack_end);
    }
    for (int i = 0; i < kStreams; ++i) close(streams[i]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (write(commands, &status, sizeof status) != sizeof status) _exit(0);
  }
}
