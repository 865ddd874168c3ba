// What stands between the callers of an engine and its devices: requests that no device has taken
// yet, cancellations, how much work there is, and the end. One lock guards all of it, held only for
// moments. A device takes requests when it has room for them (RequestRouter says which).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "engine/request/request_check.h"
#include "engine/request/request_router.h"

namespace banyan {

class RequestQueue {
 public:
  struct Cancellation {
    RequestId request = 0;
    std::optional<std::uint64_t> tag;
  };

  // `most`: answers and tokens that may wait.
  RequestQueue(std::vector<std::string> devices, const RequestSize& most);

  // --- Callers
  // Room for a request, until it is put or given back; false: there is none, and `wait` is not set.
  // Throws kUsage after End, kLimit where there is no room and no thread that would make some.
  bool Promise(const RequestSize& size, const AnswerQueue& answers, bool wait);
  void GiveBack(const RequestSize& size);
  // In the room that was promised for it, which is used in any case. Throws kUsage after End.
  RequestId Put(const std::shared_ptr<RequestTree>& request, const RequestSize& size);
  void Cancel(const Cancellation& cancellation);
  bool Start();                     // false: the threads run already; throws kUsage after End
  bool End(Unfinished unfinished);  // false: it has ended already
  bool WaitUntilIdle(double seconds);
  std::int64_t waiting() const;  // streams
  int running() const;           // streams
  std::optional<DeviceFailure> failure() const;

  // --- A device, by its index
  // Waits until there is something to do; false: the end.
  bool Await(size_t device);
  bool HasWork(size_t device) const;
  // Takes what the device can begin with: appends to `requests` and returns true; or there is none,
  // and it takes `cancellations`, which concern requests that were taken before.
  struct Room {
    bool any = true;  // for a further request
    int above = 0;    // otherwise, only for requests of a higher priority
  };
  bool Take(size_t device, const Room& room, std::vector<std::shared_ptr<RequestTree>>& requests,
            std::vector<Cancellation>& cancellations);
  // Whether a device that has taken one request is asked for its room before it takes the next.
  bool one_by_one() const { return devices_.size() > 1; }
  struct Counts {
    std::int64_t waiting = 0, waiting_tokens = 0;
    int running = 0;
    bool idle = true;
  };
  void Report(size_t device, const Counts& counts);
  // There is more to do than is reported.
  void SetBusy(size_t device);
  // A step failed, and all that the device had is lost.
  void ReportFailure(size_t device, const std::string& why);
  std::int64_t stolen(size_t device) const;

 private:
  enum class Ending { kNo, kWhenDone, kNow };
  struct Device {
    std::string name;
    std::vector<std::shared_ptr<RequestTree>> pressing;  // of the queue: taken without room
    std::vector<Cancellation> cancellations;
    Counts counts;  // after its last step, and what it has taken since
  };

  RequestSize Waiting() const;
  bool HasRoom(const RequestSize& size, const AnswerQueue& answers) const;
  void RefuseAfterEnd() const;
  bool HasWorkLocked(size_t device) const;
  bool NothingIsQueued() const;
  bool Idle() const;

  const RequestSize most_;

  mutable std::mutex mutex_;         // guards what follows
  std::condition_variable changed_;  // any of it
  RequestRouter router_;
  std::vector<Device> devices_;
  RequestSize queued_;    // of requests that no device has taken
  RequestSize promised_;  // of requests that have room and are being made into trees
  RequestId last_request_ = 0;
  std::uint64_t next_number_ = 1;
  bool started_ = false;
  Ending ending_ = Ending::kNo;
  std::optional<DeviceFailure> failure_;
};

}  // namespace banyan
