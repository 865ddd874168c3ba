// One T for every thread, made where the thread first asks for it and deleted at the thread's end.
//
// Not a thread_local with a destructor: to register that, the C library needs memory, and where
// there is none it ends the process. Here the caller hears of it.
#pragma once

#include <pthread.h>

#include <memory>
#include <new>

namespace banyan {

// T: a type of the caller's own, as all that ask for the same type get the same object.
template <typename T>
class PerThread {
 public:
  // Throws std::bad_alloc and what T's constructor throws. Of the thread that ends the process, it
  // is not deleted.
  static T& Get() {
    if (mine_ == nullptr) mine_ = Make();
    return *mine_;
  }

 private:
  static T* Make() {
    struct Key {
      Key() {
        if (pthread_key_create(&key, &Delete) != 0) throw std::bad_alloc();
      }
      pthread_key_t key{};
    };
    static const Key key;
    auto made = std::make_unique<T>();
    if (pthread_setspecific(key.key, made.get()) != 0) throw std::bad_alloc();
    return made.release();
  }

  static void Delete(void* value) {
    mine_ = nullptr;
    delete static_cast<T*>(value);
  }

  static inline constinit thread_local T* mine_ = nullptr;
};

}  // namespace banyan
