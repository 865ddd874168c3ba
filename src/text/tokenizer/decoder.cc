// One class for each decoder that keeps state, then the chain and the steps.
#include "text/tokenizer/decoder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/vocabulary.h"
#include "text/unicode.h"

namespace banyan {

namespace {

// edit(piece, index) of each piece on its own.
template <typename Edit>
class PerPiece : public DecoderRun {
 public:
  explicit PerPiece(Edit edit) : edit_(std::move(edit)) {}
  void Push(std::string piece, Pieces& out) override {
    edit_(piece, index_++);
    out.push_back(std::move(piece));
  }
  void Finish(Pieces&) override {}

 private:
  Edit edit_;
  size_t index_ = 0;
};

// For a step that must see the whole of a fused text.
class WholeText : public DecoderRun {
 public:
  explicit WholeText(std::unique_ptr<DecoderRun> inner) : inner_(std::move(inner)) {}
  void Push(std::string piece, Pieces&) override { text_ += piece; }
  void Finish(Pieces& out) override {
    inner_->Push(std::move(text_), out);
    inner_->Finish(out);
  }

 private:
  std::unique_ptr<DecoderRun> inner_;
  std::string text_;
};

template <typename Make>
DecoderStep StepOf(bool fused, Make make) {
  return [fused, make]() -> std::unique_ptr<DecoderRun> {
    std::unique_ptr<DecoderRun> run = make();
    if (fused) return std::make_unique<WholeText>(std::move(run));
    return run;
  };
}

template <typename Edit>
DecoderStep PerPieceStep(bool fused, Edit edit) {
  return StepOf(fused, [edit]() -> std::unique_ptr<DecoderRun> {
    return std::make_unique<PerPiece<Edit>>(edit);
  });
}

class ByteLevelRun : public DecoderRun {
 public:
  void Push(std::string piece, Pieces& out) override {
    if (auto bytes = FromByteLevel(piece)) {
      held_ += *bytes;
    } else {
      held_ += piece;
    }
    Emit(FinishedUtf8Prefix(held_), out);
  }
  void Finish(Pieces& out) override { Emit(held_.size(), out); }

 private:
  void Emit(size_t length, Pieces& out) {
    if (length == 0) return;
    std::string text;
    AppendLossyUtf8(std::string_view(held_).substr(0, length), text);
    held_.erase(0, length);
    out.push_back(std::move(text));
  }
  std::string held_;  // bytes of an unfinished character
};

class FuseRun : public DecoderRun {
 public:
  void Push(std::string piece, Pieces& out) override { out.push_back(std::move(piece)); }
  void Finish(Pieces&) override {}
};

// A run of byte tokens is one text, or one U+FFFD per byte when it is not UTF-8 as a whole. It is
// held until it ends.
class ByteFallbackRun : public DecoderRun {
 public:
  void Push(std::string piece, Pieces& out) override {
    const int byte = ParseByteToken(piece);
    if (byte >= 0) {
      held_.push_back(static_cast<char>(byte));
      return;
    }
    Finish(out);
    out.push_back(std::move(piece));
  }
  void Finish(Pieces& out) override {
    if (held_.empty()) return;
    if (IsValidUtf8(held_)) {
      out.push_back(held_);
    } else {
      for (size_t i = 0; i < held_.size(); ++i) out.emplace_back("\uFFFD");
    }
    held_.clear();
  }

 private:
  std::string held_;
};

// Replacement in a text that arrives in parts: holds back a suffix that may begin the pattern.
class FusedReplace : public DecoderRun {
 public:
  FusedReplace(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void Push(std::string piece, Pieces& out) override {
    held_ += piece;
    std::string text;
    size_t done = 0;
    if (!pattern_.empty()) {
      for (size_t at = held_.find(pattern_); at != std::string::npos;
           at = held_.find(pattern_, done)) {
        text.append(held_, done, at - done).append(content_);
        done = at + pattern_.size();
      }
    }
    size_t keep = std::min(held_.size() - done, pattern_.empty() ? 0 : pattern_.size() - 1);
    while (keep > 0 && !pattern_.starts_with(std::string_view(held_).substr(held_.size() - keep))) {
      --keep;
    }
    text.append(held_, done, held_.size() - keep - done);
    held_.erase(0, held_.size() - keep);
    if (!text.empty()) out.push_back(std::move(text));
  }
  void Finish(Pieces& out) override {
    if (!held_.empty()) out.push_back(std::move(held_));
    held_.clear();
  }

 private:
  std::string pattern_, content_, held_;
};

void StripPiece(std::string& piece, const std::string& content, size_t start, size_t stop) {
  size_t begin = 0;
  for (size_t i = 0; i < start && std::string_view(piece).substr(begin).starts_with(content); ++i) {
    begin += content.size();
  }
  size_t end = piece.size();
  for (size_t i = 0; i < stop; ++i) {
    if (!std::string_view(piece).substr(begin, end - begin).ends_with(content)) break;
    end -= content.size();
  }
  piece = piece.substr(begin, end - begin);
}

class FusedStrip : public DecoderRun {
 public:
  FusedStrip(std::string content, size_t start, size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void Push(std::string piece, Pieces& out) override {
    held_ += piece;
    while (start_ > 0) {
      if (held_.size() < content_.size() && content_.starts_with(held_)) return;
      if (!held_.starts_with(content_)) {
        start_ = 0;
        break;
      }
      held_.erase(0, content_.size());
      --start_;
    }
    size_t keep = 0;
    for (size_t i = 0; i < stop_; ++i) {
      if (!std::string_view(held_).substr(0, held_.size() - keep).ends_with(content_)) break;
      keep += content_.size();
    }
    if (held_.size() > keep) out.push_back(held_.substr(0, held_.size() - keep));
    held_.erase(0, held_.size() - keep);
  }
  void Finish(Pieces& out) override {
    StripPiece(held_, content_, 0, stop_);
    if (!held_.empty()) out.push_back(std::move(held_));
    held_.clear();
  }

 private:
  std::string content_;
  size_t start_, stop_;  // start_: how many may still be stripped from the front
  std::string held_;
};

class BpeDecoderRun : public DecoderRun {
 public:
  explicit BpeDecoderRun(std::string suffix) : suffix_(std::move(suffix)) {}
  void Push(std::string piece, Pieces& out) override {
    Flush(" ", out);
    held_ = std::move(piece);
    has_held_ = true;
  }
  void Finish(Pieces& out) override { Flush("", out); }

 private:
  void Flush(std::string_view replacement, Pieces& out) {
    if (!has_held_) return;
    ReplaceAll(held_, suffix_, replacement);
    out.push_back(std::move(held_));
    has_held_ = false;
  }
  std::string suffix_, held_;
  bool has_held_ = false;
};

void CleanUpSpaces(std::string& text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) ReplaceAll(text, from, to);
}

}  // namespace

void Decoder::AddByteLevel() {
  byte_level_first_ = byte_level_first_ || steps_.empty();
  Add(ByteLevelDecoderStep());
}

DecoderChain::DecoderChain(const Decoder& decoder) {
  for (const DecoderStep& step : decoder.steps()) runs_.push_back(step());
}

std::string DecoderChain::Through(size_t first, Pieces pieces) {
  for (size_t i = first; i < runs_.size(); ++i) {
    Pieces next;
    for (std::string& piece : pieces) runs_[i]->Push(std::move(piece), next);
    pieces = std::move(next);
  }
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

std::string DecoderChain::Push(std::string piece) {
  Pieces pieces;
  pieces.push_back(std::move(piece));
  return Through(0, std::move(pieces));
}

std::string DecoderChain::Finish() {
  std::string text;
  for (size_t i = 0; i < runs_.size(); ++i) {
    Pieces rest;
    runs_[i]->Finish(rest);
    text += Through(i + 1, std::move(rest));
  }
  return text;
}

DecoderStep ByteLevelDecoderStep() {
  return [] { return std::make_unique<ByteLevelRun>(); };
}

DecoderStep FuseStep() {
  return [] { return std::make_unique<FuseRun>(); };
}

DecoderStep ByteFallbackStep(bool fused) {
  return StepOf(fused, [] { return std::make_unique<ByteFallbackRun>(); });
}

DecoderStep ReplaceStringDecoderStep(std::string pattern, std::string content, bool fused) {
  if (fused) {
    return [pattern = std::move(pattern), content = std::move(content)] {
      return std::make_unique<FusedReplace>(pattern, content);
    };
  }
  return PerPieceStep(false,
                      [pattern = std::move(pattern), content = std::move(content)](
                          std::string& piece, size_t) { ReplaceAll(piece, pattern, content); });
}

DecoderStep ReplaceRegexDecoderStep(std::shared_ptr<const Regex> pattern, std::string content,
                                    bool fused) {
  return PerPieceStep(fused,
                      [pattern = std::move(pattern), content = std::move(content)](
                          std::string& piece, size_t) { ReplaceAll(piece, *pattern, content); });
}

DecoderStep StripDecoderStep(StripDecoderOptions options, bool fused) {
  std::string content;
  AppendUtf8(options.content, content);
  if (fused) {
    return [content, options] {
      return std::make_unique<FusedStrip>(content, options.start, options.stop);
    };
  }
  return PerPieceStep(false, [content, options](std::string& piece, size_t) {
    StripPiece(piece, content, options.start, options.stop);
  });
}

DecoderStep MetaspaceDecoderStep(std::string replacement, PrependScheme prepend, bool fused) {
  return PerPieceStep(
      fused, [replacement = std::move(replacement), prepend](std::string& piece, size_t index) {
        const bool drop = index == 0 && prepend != PrependScheme::kNever;
        ReplaceAll(piece, replacement, drop ? "" : " ");
      });
}

DecoderStep WordPieceDecoderStep(std::string prefix, bool cleanup, bool fused) {
  return PerPieceStep(fused,
                      [prefix = std::move(prefix), cleanup](std::string& piece, size_t index) {
                        if (index != 0) {
                          if (piece.starts_with(prefix)) {
                            piece.erase(0, prefix.size());
                          } else {
                            piece.insert(0, " ");
                          }
                        }
                        if (cleanup) CleanUpSpaces(piece);
                      });
}

DecoderStep BpeDecoderStep(std::string suffix, bool fused) {
  return StepOf(fused,
                [suffix = std::move(suffix)] { return std::make_unique<BpeDecoderRun>(suffix); });
}

DecoderStep JoinWithSpacesStep() {
  return PerPieceStep(false, [](std::string& piece, size_t index) {
    if (index != 0) piece.insert(0, " ");
  });
}

}  // namespace banyan
