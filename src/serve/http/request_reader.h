// Reads one request after another from a connection: head, admission, body. For the socket thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "serve/http/reply_buffer.h"
#include "serve/http/server_state.h"

namespace banyan {

class RequestReader {
 public:
  // The connection, as the reader sees it.
  class Owner {
   public:
    virtual ~Owner() = default;
    // Keeps the owner, and with it the reader, alive while an operation is pending.
    virtual std::shared_ptr<Owner> Hold() = 0;
    virtual bool closed() const = 0;
    virtual void Close() = 0;
    // Closes the connection unless the limit is set anew or lifted within so many seconds.
    virtual void LimitReading(double seconds) = 0;
    virtual void OnRequest() = 0;  // a request is complete; TakeRequest has it
    virtual void OnRefusal(HttpResponse response) = 0;

    // Every handler of the socket thread runs in it: what one throws (no memory, for instance) ends
    // its connection and no other.
    template <typename Call>
    void Run(Call&& call) noexcept {
      try {
        std::forward<Call>(call)();
      } catch (...) {
        Close();
      }
    }
  };

  RequestReader(HttpServer::State& server, boost::asio::ip::tcp::socket& socket, Owner& owner);

  // Waits for the first byte of a request, then reads the request. `seconds`: for the first byte.
  void Start(double seconds);
  // The current request without its body.
  const HttpRequest& request() const { return request_; }
  ReplyForm reply_form() const;
  // Moves the body out. REQUIRES: OnRequest was called.
  HttpRequest TakeRequest();
  // Of the current request; null before its head is read.
  const std::shared_ptr<RequestMemory>& memory() const { return memory_; }
  // Frees what is left of the request.
  void DropRequest();
  // Whether bytes after the request have been read.
  bool has_more() const { return buffer_.size() > 0; }
  // Reads and discards until the client ends, then closes the connection.
  void Discard();

 private:
  using ErrorCode = boost::system::error_code;

  void ReadHead();
  void ParseHead();
  void OnHead(ErrorCode error);
  void SendContinue();
  void StartBody();
  void ParseBody();
  // Reads what there is, but no more than `most` bytes, then calls `next`.
  void ReadSome(size_t most, void (RequestReader::*next)());
  bool TakeBodyMemory();
  void RefuseForMemory(MemoryAccount::Room room);
  size_t most_body() const;
  void RefuseAfter(ErrorCode error);
  void Refuse(int status, const std::string& message);
  void RefuseWith(HttpResponse response);

  HttpServer::State& server_;
  boost::asio::ip::tcp::socket& socket_;
  Owner& owner_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::shared_ptr<RequestMemory> memory_;
  HttpRequest request_;
  size_t head_bytes_ = 0;  // parsed so far
  bool folded_ = false;    // a line of the head continues another
  bool http10_ = false;
  bool keep_alive_ = false;
};

}  // namespace banyan
