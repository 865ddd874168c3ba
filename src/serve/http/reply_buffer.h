// The reply to one request at a time: the serving thread appends to it, the socket thread takes
// bytes out of it and writes them. Thread-safe; knows HTTP framing, but no sockets.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http/http.h"

namespace banyan {

// What the request says about the form of its reply.
struct ReplyForm {
  std::uint64_t request_number = 0;
  std::string allow_origin;  // see HttpRequest
  bool http10 = false;       // a streamed reply ends where the connection does
  bool head_only = false;    // HEAD
  bool keep_alive = false;
};

class ReplyBuffer {
 public:
  // Write blocks while more than `max_unread` bytes wait. `flush` asks the socket thread to write;
  // it is called without the lock.
  ReplyBuffer(size_t max_unread, std::function<void()> flush);

  // --- For the socket thread.
  void Start(ReplyForm form);  // of the next request
  bool active() const;         // between Start and Finish
  struct Piece {
    std::string bytes;   // to write next
    bool ended = false;  // an active reply ends with these bytes
  };
  Piece Take(size_t most);
  struct Outcome {
    int status = 0;
    std::uint64_t bytes = 0;
    bool cut = false, keep_alive = false, http10 = false;
  };
  Outcome Finish();
  // The client has left: drops unwritten bytes and calls what WhenGone was given. Throws nothing.
  // Returns whether a request is still being served.
  bool Abandon();

  // --- For the serving thread: as HttpReply, but for Cut.
  void Send(HttpResponse response);
  void Begin(const HttpResponse& head);
  bool Write(std::string_view piece);
  void End() { EndReply(/*cut=*/false); }
  // Ends the reply in a way that shows the client that something is missing.
  void Cut() { EndReply(/*cut=*/true); }
  bool gone() const;
  void WhenGone(std::function<void()> call);

 private:
  // REQUIRES: mutex_
  std::string HeadText(const HttpResponse& response, std::optional<size_t> length) const;
  void Append(std::string_view bytes);  // REQUIRES: mutex_
  void EndReply(bool cut);

  const size_t max_unread_;
  const std::function<void()> flush_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  ReplyForm form_;
  std::string out_;  // not taken yet, from out_begin_ on
  size_t out_begin_ = 0;
  bool active_ = false;
  bool ended_ = false;  // the reply is complete in out_
  bool cut_ = false;
  bool gone_ = false;
  int status_ = 0;
  std::uint64_t bytes_ = 0;  // of the reply so far
  std::function<void()> when_gone_;
};

}  // namespace banyan
