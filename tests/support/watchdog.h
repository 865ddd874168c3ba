// Ends a test that waits in vain, with what it waits for.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace banyan::testing_support {

class Watchdog {
 public:
  // `state` is called in a thread of its own when `limit` is over.
  Watchdog(std::chrono::seconds limit, std::function<std::string()> state)
      : thread_([this, limit, state = std::move(state)] { Watch(limit, state); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Watch(std::chrono::seconds limit, const std::function<std::string()>& state) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit, [this] { return done_; })) return;
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::fprintf(stderr, "%s.%s: no end after %lld s\n%s", test ? test->test_suite_name() : "",
                 test ? test->name() : "", static_cast<long long>(limit.count()), state().c_str());
    std::fflush(stderr);
    std::_Exit(70);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace banyan::testing_support
