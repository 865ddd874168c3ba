// LD_PRELOAD library for a process that lives in a bad world, which changes while it runs. The file
// WORLD_CONTROL holds two numbers, which somebody else may change at any time:
//   int64 microseconds that every change of a file under WORLD_UNDER takes more (a slow disk)
//   int64 seconds by which the wall clock is wrong (a clock that jumps); steady clocks are right
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct World {
  volatile int64_t delay_us, clock_s;
};

static struct World still;
static struct World* world = &still;

__attribute__((constructor)) static void FindWorld(void) {
  const char* name = getenv("WORLD_CONTROL");
  const int fd = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  void* found = mmap(NULL, sizeof(struct World), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (found != MAP_FAILED) world = found;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int Under(const char* path) {
  const char* folder = getenv("WORLD_UNDER");
  return folder != NULL && path != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

static void Wait(void) {
  const int64_t us = world->delay_us;
  const struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

static void WaitForPath(const char* path) {
  if (world->delay_us > 0 && Under(path)) Wait();
}

static void WaitForDescriptor(int fd) {
  if (world->delay_us <= 0) return;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length <= 0) return;
  path[length] = '\0';
  if (Under(path)) Wait();
}

ssize_t write(int fd, const void* bytes, size_t count) {
  WaitForDescriptor(fd);
  return REAL(write)(fd, bytes, count);
}
ssize_t writev(int fd, const struct iovec* pieces, int count) {
  WaitForDescriptor(fd);
  return REAL(writev)(fd, pieces, count);
}
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  WaitForDescriptor(fd);
  return REAL(pwrite)(fd, bytes, count, offset);
}
int fsync(int fd) {
  WaitForDescriptor(fd);
  return REAL(fsync)(fd);
}
int fdatasync(int fd) {
  WaitForDescriptor(fd);
  return REAL(fdatasync)(fd);
}
int rename(const char* from, const char* to) {
  WaitForPath(to);
  return REAL(rename)(from, to);
}
int unlink(const char* path) {
  WaitForPath(path);
  return REAL(unlink)(path);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int result = REAL(clock_gettime)(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    now->tv_sec += world->clock_s;
  }
  return result;
}
int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  int (*real)(struct timeval*, void*) = (int (*)(struct timeval*, void*))dlsym(RTLD_NEXT, "gettimeofday");
  const int result = real(now, zone);
  if (result == 0) now->tv_sec += world->clock_s;
  return result;
}
time_t time(time_t* now) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now != NULL) *now = exact.tv_sec;
  return exact.tv_sec;
}
