// To stand for libcuda.so.1: a driver of two GPUs on which nothing computes. It takes until the pipe
// COLDFRAME_TEST_SLOW_DRIVER is closed to start.
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int cuInit(unsigned flags) {
  (void)flags;
  const char* const pipe = getenv("COLDFRAME_TEST_SLOW_DRIVER");
  if (pipe != NULL) {
    const int opened = open(pipe, O_RDONLY);
    char byte;
    while (read(opened, &byte, 1) > 0) {
    }
    close(opened);
  }
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}

int cuDeviceGetName(char* name, int length, int device) {
  snprintf(name, (size_t)length, "GPU %d", device);
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? 9 : 0;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
  return 0;
}

int cuDeviceGetPCIBusId(char* id, int length, int device) {
  snprintf(id, (size_t)length, "0000:0%d:00.0", device);
  return 0;
}

int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  (void)device;
  *bytes = (size_t)80 << 30;
  return 0;
}
