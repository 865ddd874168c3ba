// LD_PRELOAD library that makes the disk fail, or ends the process, at a chosen call. Calls that
// change files under FAULT_UNDER are counted from 1; at number FAULT_AT happens FAULT_KIND:
//   kill     the process ends before the call
//   after    the call is made, then the process ends
//   torn     half of a write is made, then the process ends (other calls: as `kill`)
//   eio, enospc   the call fails, once
//   full     this and all later writes fail with ENOSPC
//   short    half of a write is made, and the call says so (other calls: as they are)
// FAULT_COUNT names a file that gets the number of calls at a normal end. FAULT_LOCK_DELAY_MS waits
// before every flock, for whatever else wants to happen between opening and locking.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_long calls;

static long Number(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? 0 : atol(text);
}

static int Under(const char* path) {
  const char* folder = getenv("FAULT_UNDER");
  return folder != NULL && path != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

static int DescriptorUnder(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  return Under(path);
}

enum Fault { NONE, KILL, AFTER, TORN, FAIL_IO, FAIL_SPACE, SHORT };

static void End(void) { raise(SIGKILL); }

// What shall become of the next call; `writes`: it is a write.
static enum Fault Next(int counts, int writes) {
  if (!counts) return NONE;
  const long number = atomic_fetch_add(&calls, 1) + 1;
  const long at = Number("FAULT_AT");
  const char* kind = getenv("FAULT_KIND");
  if (at == 0 || kind == NULL || number < at) return NONE;
  if (strcmp(kind, "full") == 0) return writes ? FAIL_SPACE : NONE;
  if (number != at) return NONE;
  if (strcmp(kind, "after") == 0) return AFTER;
  if (strcmp(kind, "torn") == 0) return writes ? TORN : KILL;
  if (strcmp(kind, "eio") == 0) return FAIL_IO;
  if (strcmp(kind, "enospc") == 0) return FAIL_SPACE;
  if (strcmp(kind, "short") == 0) return writes ? SHORT : NONE;
  return KILL;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

// Runs CALL under the fault; fails with -1.
#define FAULTY(counts, CALL)                       \
  do {                                             \
    const enum Fault fault = Next(counts, 0);      \
    if (fault == KILL) End();                      \
    if (fault == FAIL_IO || fault == FAIL_SPACE) { \
      errno = fault == FAIL_IO ? EIO : ENOSPC;     \
      return -1;                                   \
    }                                              \
    const int result = CALL;                       \
    if (fault == AFTER) End();                     \
    return result;                                 \
  } while (0)

ssize_t write(int fd, const void* bytes, size_t count) {
  const enum Fault fault = Next(DescriptorUnder(fd), 1);
  if (fault == KILL) End();
  if (fault == FAIL_IO || fault == FAIL_SPACE) {
    errno = fault == FAIL_IO ? EIO : ENOSPC;
    return -1;
  }
  const size_t part = (fault == TORN || fault == SHORT) && count > 1 ? count / 2 : count;
  const ssize_t written = REAL(write)(fd, bytes, part);
  if (fault == TORN || fault == AFTER) End();
  return written;
}

static ssize_t WriteAt(int fd, const void* bytes, size_t count, off_t offset,
                       ssize_t (*real)(int, const void*, size_t, off_t)) {
  const enum Fault fault = Next(DescriptorUnder(fd), 1);
  if (fault == KILL) End();
  if (fault == FAIL_IO || fault == FAIL_SPACE) {
    errno = fault == FAIL_IO ? EIO : ENOSPC;
    return -1;
  }
  const size_t part = (fault == TORN || fault == SHORT) && count > 1 ? count / 2 : count;
  const ssize_t written = real(fd, bytes, part, offset);
  if (fault == TORN || fault == AFTER) End();
  return written;
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  return WriteAt(fd, bytes, count, offset, REAL(pwrite));
}
#ifdef __LP64__
ssize_t pwrite64(int fd, const void* bytes, size_t count, __off64_t offset) {
  return WriteAt(fd, bytes, count, offset, REAL(pwrite));
}
#endif

int fdatasync(int fd) { FAULTY(DescriptorUnder(fd), REAL(fdatasync)(fd)); }
int fsync(int fd) { FAULTY(DescriptorUnder(fd), REAL(fsync)(fd)); }
int ftruncate(int fd, off_t length) { FAULTY(DescriptorUnder(fd), REAL(ftruncate)(fd, length)); }
int fchmod(int fd, mode_t mode) { FAULTY(DescriptorUnder(fd), REAL(fchmod)(fd, mode)); }
int unlink(const char* path) { FAULTY(Under(path), REAL(unlink)(path)); }
int rename(const char* from, const char* to) { FAULTY(Under(to), REAL(rename)(from, to)); }

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int mode = va_arg(more, int);
  va_end(more);
  FAULTY(Under(path) && (flags & O_ACCMODE) != O_RDONLY, REAL(open)(path, flags, mode));
}

int flock(int fd, int operation) {
  const long delay = Number("FAULT_LOCK_DELAY_MS");
  if (delay > 0) {
    const struct timespec time = {delay / 1000, delay % 1000 * 1000000};
    nanosleep(&time, NULL);
  }
  int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");
  return real(fd, operation);
}

__attribute__((destructor)) static void TellCount(void) {
  const char* name = getenv("FAULT_COUNT");
  if (name == NULL) return;
  FILE* file = fopen(name, "w");
  if (file == NULL) return;
  fprintf(file, "%ld\n", (long)calls);
  fclose(file);
}
