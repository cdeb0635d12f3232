// A Ctrl-C while the libraries of the program COLDFRAME_TEST_PROGRAM are being loaded; for
// LD_PRELOAD.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void interrupt(void) {
  if (strcmp(program_invocation_short_name, getenv("COLDFRAME_TEST_PROGRAM")) == 0) raise(SIGINT);
}
