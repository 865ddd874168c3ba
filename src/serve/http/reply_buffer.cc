// HTTP framing of replies: heads, chunks, and the buffer between the two threads.
#include "serve/http/reply_buffer.h"

#include <fmt/format.h>

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/write.hpp>
#include <sstream>
#include <utility>

namespace banyan {

namespace http = boost::beast::http;

ReplyBuffer::ReplyBuffer(size_t max_unread, std::function<void()> flush)
    : max_unread_(max_unread), flush_(std::move(flush)) {}

void ReplyBuffer::Start(ReplyForm form) {
  const std::lock_guard lock(mutex_);
  form_ = std::move(form);
  active_ = true;
  ended_ = false;
  cut_ = false;
  status_ = 0;
  bytes_ = 0;
}

bool ReplyBuffer::active() const {
  const std::lock_guard lock(mutex_);
  return active_;
}

ReplyBuffer::Piece ReplyBuffer::Take(size_t most) {
  const std::lock_guard lock(mutex_);
  Piece piece{out_.substr(out_begin_, most), ended_ && active_};
  out_begin_ += piece.bytes.size();
  if (out_begin_ == out_.size()) {
    out_.clear();
    out_begin_ = 0;
  }
  changed_.notify_all();
  return piece;
}

ReplyBuffer::Outcome ReplyBuffer::Finish() {
  const std::lock_guard lock(mutex_);
  active_ = false;
  when_gone_ = nullptr;
  return {status_, bytes_, cut_, form_.keep_alive, form_.http10};
}

bool ReplyBuffer::Abandon() {
  std::function<void()> call;
  bool active;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    active = active_;
    call = std::exchange(when_gone_, nullptr);
    out_.clear();
    out_begin_ = 0;
    changed_.notify_all();
  }
  try {
    if (call) call();
  } catch (...) {  // no memory for it: whoever serves sees in gone() that nobody waits
  }
  return active;
}

std::string ReplyBuffer::HeadText(const HttpResponse& response,
                                  std::optional<size_t> length) const {
  http::response_header<> head;
  head.version(11);
  head.result(static_cast<unsigned>(response.status));
  if (!response.content_type.empty()) head.set(http::field::content_type, response.content_type);
  head.set(http::field::server, "banyan");
  head.set("X-Content-Type-Options", "nosniff");
  head.set("X-Request-Id", fmt::format("req-{}", form_.request_number));
  if (!form_.allow_origin.empty()) {
    head.set(http::field::access_control_allow_origin, form_.allow_origin);
    head.set(http::field::vary, "Origin");
  }
  for (const auto& [name, value] : response.headers) head.set(name, value);
  const bool has_body = response.status != 204 && response.status != 304;
  if (has_body && length) {
    head.set(http::field::content_length, std::to_string(*length));
  } else if (has_body && !form_.http10) {
    head.set(http::field::transfer_encoding, "chunked");
  }
  head.set(http::field::connection, form_.keep_alive ? "keep-alive" : "close");
  std::ostringstream text;
  text << head;
  return text.str();
}

void ReplyBuffer::Append(std::string_view bytes) {
  if (gone_) return;
  if (out_begin_ > out_.size() / 2) {
    out_.erase(0, out_begin_);
    out_begin_ = 0;
  }
  out_ += bytes;
  bytes_ += bytes.size();
}

void ReplyBuffer::Send(HttpResponse response) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    status_ = response.status;
    const std::string head = HeadText(response, response.body.size());
    if (form_.head_only || response.status == 304) response.body.clear();
    if (out_.empty()) {  // moved, so that a large body is not held twice
      response.body.insert(0, head);
      if (!gone_) out_ = std::move(response.body);
      bytes_ += out_.size();
    } else {
      Append(head);
      Append(response.body);
    }
    ended_ = true;
  }
  flush_();
}

void ReplyBuffer::Begin(const HttpResponse& head) {
  {
    const std::lock_guard lock(mutex_);
    if (form_.http10) form_.keep_alive = false;
    status_ = head.status;
    Append(HeadText(head, std::nullopt));
  }
  if (!head.body.empty()) {
    Write(head.body);
  } else {
    flush_();
  }
}

bool ReplyBuffer::Write(std::string_view piece) {
  {
    std::unique_lock lock(mutex_);
    if (piece.empty() || form_.head_only) return !gone_;
    changed_.wait(lock, [&] { return gone_ || out_.size() - out_begin_ <= max_unread_; });
    if (gone_) return false;
    if (form_.http10) {
      Append(piece);
    } else {
      Append(fmt::format("{:x}\r\n", piece.size()));
      Append(piece);
      Append("\r\n");
    }
  }
  flush_();
  return true;
}

void ReplyBuffer::EndReply(bool cut) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    cut_ = cut;
    if (cut) form_.keep_alive = false;
    if (!cut && !form_.http10 && !form_.head_only) Append("0\r\n\r\n");
  }
  flush_();
}

bool ReplyBuffer::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

void ReplyBuffer::WhenGone(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      when_gone_ = std::move(call);
      return;
    }
  }
  if (call) call();
}

}  // namespace banyan
