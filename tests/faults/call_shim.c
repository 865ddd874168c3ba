// LD_PRELOAD library that makes allocations or system calls of the network fail, while the process
// runs. The file CALLS_CONTROL holds numbers, which a test changes between two requests:
//   int64 kind    0: nothing fails; 1: allocations; 2: system calls and the start of threads;
//                 3: calls that wake a thread in epoll_wait, which change what it waits for
//   int64 first   the number of the first that fails, from 1; 0: they are only counted
//   int64 count   how many fail, one after another
//   int64 seen    how many there were; the test sets it to 0
//   int64 fatal   destructors of thread_local objects that were registered: where memory is missing,
//                 the C library ends the process there
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

struct Control {
  _Atomic int64_t kind, first, count, seen, fatal;
};

static struct Control still;
static struct Control* control = &still;

__attribute__((constructor)) static void FindControl(void) {
  const char* name = getenv("CALLS_CONTROL");
  const int fd = name == NULL ? -1 : open(name, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* found = mmap(NULL, sizeof(struct Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (found != MAP_FAILED) control = found;
}

enum { ALLOCATION = 1, CALL = 2, WAKEUP = 3 };

static int Fails(int64_t kind) {
  if (control->kind != kind) return 0;
  const int64_t number = atomic_fetch_add(&control->seen, 1) + 1;
  const int64_t first = control->first;
  return first > 0 && number >= first && number < first + control->count;
}

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);

void* malloc(size_t size) {
  if (!Fails(ALLOCATION)) return __libc_malloc(size);
  errno = ENOMEM;
  return NULL;
}
void* calloc(size_t count, size_t size) {
  if (!Fails(ALLOCATION)) return __libc_calloc(count, size);
  errno = ENOMEM;
  return NULL;
}
void* realloc(void* memory, size_t size) {
  if (!Fails(ALLOCATION)) return __libc_realloc(memory, size);
  errno = ENOMEM;
  return NULL;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int __cxa_thread_atexit_impl(void (*destructor)(void*), void* object, void* library) {
  int (*real)(void (*)(void*), void*, void*) = dlsym(RTLD_NEXT, "__cxa_thread_atexit_impl");
  atomic_fetch_add(&control->fatal, 1);
  return real(destructor, object, library);
}

#define FAULTY(name, number, ...)   \
  do {                              \
    if (Fails(CALL)) {              \
      errno = number;               \
      return -1;                    \
    }                               \
    return REAL(name)(__VA_ARGS__); \
  } while (0)

int accept(int fd, struct sockaddr* restrict address, socklen_t* restrict length) {
  FAULTY(accept, EMFILE, fd, address, length);
}
int accept4(int fd, struct sockaddr* restrict address, socklen_t* restrict length, int flags) {
  FAULTY(accept4, EMFILE, fd, address, length, flags);
}
ssize_t recv(int fd, void* bytes, size_t count, int flags) {
  FAULTY(recv, ECONNRESET, fd, bytes, count, flags);
}
ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  FAULTY(recvmsg, ECONNRESET, fd, message, flags);
}
ssize_t send(int fd, const void* bytes, size_t count, int flags) {
  FAULTY(send, EPIPE, fd, bytes, count, flags);
}
ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  FAULTY(sendmsg, EPIPE, fd, message, flags);
}
int setsockopt(int fd, int level, int name, const void* value, socklen_t length) {
  FAULTY(setsockopt, EINVAL, fd, level, name, value, length);
}
int getpeername(int fd, struct sockaddr* restrict address, socklen_t* restrict length) {
  FAULTY(getpeername, ENOTCONN, fd, address, length);
}
int shutdown(int fd, int how) { FAULTY(shutdown, ENOTCONN, fd, how); }
int epoll_ctl(int epoll, int operation, int fd, struct epoll_event* event) {
  if (operation == EPOLL_CTL_MOD && Fails(WAKEUP)) {
    errno = ENOMEM;
    return -1;
  }
  FAULTY(epoll_ctl, ENOMEM, epoll, operation, fd, event);
}
int epoll_wait(int epoll, struct epoll_event* events, int most, int timeout) {
  FAULTY(epoll_wait, EINTR, epoll, events, most, timeout);
}
int poll(struct pollfd* wanted, nfds_t count, int timeout) {
  FAULTY(poll, ENOMEM, wanted, count, timeout);
}

int ioctl(int fd, unsigned long request, ...) {
  va_list more;
  va_start(more, request);
  void* value = va_arg(more, void*);
  va_end(more);
  FAULTY(ioctl, EIO, fd, request, value);
}

// A descriptor is gone even when close says that something went wrong.
int close(int fd) {
  const int result = REAL(close)(fd);
  if (!Fails(CALL)) return result;
  errno = EIO;
  return -1;
}

int pthread_create(pthread_t* restrict thread, const pthread_attr_t* restrict attributes,
                   void* (*start)(void*), void* restrict argument) {
  if (Fails(CALL)) return EAGAIN;
  return REAL(pthread_create)(thread, attributes, start, argument);
}
